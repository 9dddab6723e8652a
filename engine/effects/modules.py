"""Modules that a deployment names: those of its callbacks, of its agents, of its provider of tokens."""

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


def import_named(name: str) -> ModuleType:
    """Import a module, which is looked for in the working directory first, then where Python looks.

    The directory stays among those that Python looks in: the module may import its neighbours at any time.

    Raises:
        Exception: the module is not there, or raises this when it is imported: it is foreign code.
    """
    beside = str(Path.cwd())
    if beside not in sys.path:
        sys.path.insert(0, beside)
    return import_module(name)
