"""Import of modules that a deployment names: callbacks, agents, token provider."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

MODULE_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""Dotted name as in `import my_platform.callbacks`; never a path."""


def import_named(name: str, beside: Path | None = None) -> ModuleType:
    """Import a module.

    Args:
        name: dotted name of the module.
        beside: directory that is searched first; it stays on Python's search path, because the module may import its neighbours at
            any time. `None`: only Python's search path.

    Raises:
        Exception: the module does not exist, or its import fails with any error of its own.
    """
    if beside is not None and str(beside) not in sys.path:
        sys.path.insert(0, str(beside))
    return import_module(name)
