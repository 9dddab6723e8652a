"""Tools that are part of a checkout of the sources and not of an installation."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["tool"]

_ROOT: Final = Path(__file__).parents[2]


def tool(folder: str, name: str, noun: str, command: str) -> ModuleType:
    """Import a module of a checkout.

    Args:
        folder: its folder, from the root of the checkout.
        name: its name in that folder.
        noun: content of the module, for the message.
        command: command to run in a checkout, for the message.

    Raises:
        ValueError: this is an installation.
    """
    path = _ROOT / folder
    if not (_ROOT / "pyproject.toml").is_file() or not path.joinpath(*name.split(".")).with_suffix(".py").is_file():
        raise ValueError(f"an installed Lahar has no {noun}: run `{command}` in a checkout of its sources")
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))
    return import_module(name)
