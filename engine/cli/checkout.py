"""Tools that are part of a checkout of the sources and not of an installation: measures and experiments."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

_ROOT: Final = Path(__file__).parents[2]


def tool(name: str, noun: str, command: str) -> ModuleType:
    """Import a module or package of the checkout's folder `benchmarks`.

    Args:
        name: its name.
        noun: its content, for the message.
        command: command to run in a checkout, for the message.

    Raises:
        ValueError: Lahar does not run from a checkout.
    """
    folder = _ROOT / "benchmarks"
    there = (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
    if not there or not (_ROOT / "pyproject.toml").is_file():
        raise ValueError(f"an installed Lahar has no {noun}: run `{command}` in a checkout of its sources")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return import_module(name)
