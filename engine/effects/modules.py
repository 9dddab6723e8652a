"""Import of modules named by a deployment: callbacks, agents, token provider."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["MODULE_NAME", "import_named"]

MODULE_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""A dotted name as in `import my_platform.callbacks`; never a path."""


def import_named(name: str, beside: Path | None = None) -> ModuleType:
    """Import a module.

    Args:
        name: its dotted name.
        beside: a directory in which it is looked for first; it stays among those that Python looks in, since the module may import
            its neighbours at any time. `None`: only where Python looks.

    Raises:
        Exception: the module is not there, or raises this when it is imported: it is foreign code.
    """
    if beside is not None and str(beside) not in sys.path:
        sys.path.insert(0, str(beside))
    return import_module(name)
