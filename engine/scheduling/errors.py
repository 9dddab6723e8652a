"""Errors of scheduling: of its configuration, raised before anything is decided, and of plugins at work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from statemachines.errors import LaharError

_LONGEST: Final = 500
"""Greatest number of characters of a plugin's error message."""


class ConfigurationError(LaharError, ValueError):
    """Raised when actions, tiers or arguments are invalid."""


class UnknownPluginError(ConfigurationError):
    """Raised when the tiers name an unknown plugin."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown plugin {name!r}; known are {', '.join(sorted(known))}")


class UnknownActionError(ConfigurationError):
    """Raised when the configuration names an unknown action."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown action {name!r}; known are {', '.join(sorted(known))}")


class UnknownArgumentError(ConfigurationError):
    """Raised when a plugin or action is given an unknown argument."""

    def __init__(self, whose: str, name: str, known: Iterable[str]) -> None:
        has = ", ".join(sorted(known))
        super().__init__(f"{whose}: unknown argument {name!r}; " + (f"known are {has}" if has else "it has none"))


class PluginError(Exception):
    """Raised when a plugin fails in a round."""

    def __init__(self, plugin: str, point: str, job: str, error: Exception) -> None:
        super().__init__(f"plugin {plugin} failed in {point}: {type(error).__name__}: {error}"[:_LONGEST])
        self.plugin = plugin
        self.point = point
        self.job = job
        """Key of the job on which it failed; empty: none."""
