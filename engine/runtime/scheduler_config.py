"""Scheduler configuration from a file, and third-party plugins from entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from engine.kubernetes.reading.yaml_values import UnreadableYamlError, read_yaml
from engine.scheduling.configuration import DEFAULT, Configuration, read_configuration
from engine.scheduling.errors import ConfigurationError
from engine.scheduling.plugins import PLUGINS
from engine.scheduling.session import Plugin

GROUP: Final = "lahar.scheduling.plugins"
"""Group of the entry points with names and classes of plugins."""
_LARGEST: Final = 64 << 10
"""Maximum size of the file (bytes)."""


def load_configuration(path: Path | None) -> Configuration:
    """Read a configuration; `None`: Volcano's default.

    Raises:
        ConfigurationError: the file cannot be read, is not a YAML mapping, or a field is invalid. The message names the file.
    """
    if path is None:
        return DEFAULT
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from None
    if len(content) > _LARGEST:
        raise ConfigurationError(f"{path}: has more than {_LARGEST:,} bytes, too many for a configuration")
    try:
        return read_configuration(_only_mapping(read_yaml(content)))
    except (ConfigurationError, UnreadableYamlError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def _only_mapping(documents: list[object]) -> Mapping[str, Any]:
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        raise ConfigurationError("must be one mapping with actions, tiers and configurations")
    content: Mapping[str, Any] = documents[0]
    unknown = sorted(set(content) - {"actions", "tiers", "configurations"})
    if unknown:
        raise ConfigurationError(f"unknown key {unknown[0]!r}; known are actions, configurations, tiers")
    return content


def load_plugins(configuration: Configuration) -> dict[str, type[Plugin]]:
    """Return the third-party plugins of a configuration.

    Raises:
        ConfigurationError: one cannot be loaded, or is not a plugin.
    """
    named = {option.name for tier in configuration.tiers for option in tier} - PLUGINS.keys()
    found: dict[str, type[Plugin]] = {}
    for entry in entry_points(group=GROUP) if named else ():
        if entry.name not in named:
            continue
        try:
            plugin = entry.load()
        except Exception as error:  # noqa: BLE001 - a third-party module may raise anything
            raise ConfigurationError(
                f"plugin {entry.name}: {entry.value} cannot be loaded: {type(error).__name__}: {error}"
            ) from None
        if not (isinstance(plugin, type) and issubclass(plugin, Plugin)) or getattr(plugin, "NAME", None) != entry.name:
            raise ConfigurationError(f"plugin {entry.name}: {entry.value} is no Plugin with that NAME")
        found[entry.name] = plugin
    return found
