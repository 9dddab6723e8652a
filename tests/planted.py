"""Planted bugs: product code is replaced by something wrong, and a check has to find it."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

Plant = Callable[[Any, str, Any], Any]
"""Replace `name` of an owner by a bug; return what was right."""


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Plant bugs until the test ends. An owner is a class, a module or its name, or a table; it must have the name."""

    def replace(owner: Any, name: Any, bug: Any) -> Any:
        if isinstance(owner, dict):
            right = owner[name]
            monkeypatch.setitem(owner, name, bug)
            return right
        owner = import_module(owner) if isinstance(owner, str) else owner
        right = getattr(owner, name)
        monkeypatch.setattr(owner, name, bug)
        return right

    return replace


def plants_a_bug(item: pytest.Item) -> bool:
    """Return whether a test plants a bug: `make test-slow` runs it."""
    return "plant" in getattr(item, "fixturenames", ())
