"""Errors of scheduling: all about its configuration, raised before anything is decided."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["ConfigurationError", "UnknownActionError", "UnknownPluginError"]


class ConfigurationError(ValueError):
    """Raised when actions, tiers or arguments cannot be used as they are given."""


class UnknownPluginError(ConfigurationError):
    """Raised when the tiers name a plugin that there is not."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown plugin {name!r}; known are {', '.join(sorted(known))}")


class UnknownActionError(ConfigurationError):
    """Raised when the configuration names an action that there is not."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown action {name!r}; known are {', '.join(sorted(known))}")
