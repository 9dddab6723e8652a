"""Configuration of sessions: actions in order, plugins in tiers, each with its switches and arguments.

The format is Volcano's: `actions: "enqueue, allocate"`, `tiers: [{plugins: [{name, enableJobOrder: false, arguments}]}]`,
`configurations: [{name: ACTION, arguments}]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from json import dumps, loads
from math import isfinite
from typing import Any, Final

from engine.kubernetes.reading.durations import parse_duration
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.errors import ConfigurationError

SWITCHES: Final = frozenset(
    {
        "allocatable",
        "best_node",
        "cluster_order",
        "hierarchy",
        "hyper_node_gradient",
        "hyper_node_order",
        "job_enqueued",
        "job_order",
        "job_pipelined",
        "job_ready",
        "job_starving",
        "node_order",
        "overused",
        "predicate",
        "preemptable",
        "preemptive",
        "queue_order",
        "reclaimable",
        "reserved_nodes",
        "sub_job_order",
        "sub_job_ready",
        "target_job",
        "task_order",
        "victim",
    }
)
"""Extension points that a plugin's option turns on and off. `job_enqueued` is one switch for voting and accounting (Volcano)."""

_OFF_UNLESS_STATED: Final = frozenset({"hierarchy", "cluster_order"})


class Arguments(dict[str, Any]):
    """Arguments of a plugin or action in the configuration: texts or numbers."""

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        """Take what is given."""
        super().__init__(given or {})
        self.asked: set[str] = set()
        """Names that the plugin or action has read."""

    def unknown(self) -> list[str]:
        """Return given names that were never read."""
        return sorted(set(self) - self.asked)

    def beginning(self, prefix: str) -> dict[str, Any]:
        """Return the arguments whose names begin with a prefix, without the prefix."""
        found = {name: value for name, value in self.items() if name.startswith(prefix)}
        self.asked.update(found)
        return {name.removeprefix(prefix): value for name, value in found.items()}

    def number(self, name: str, default: float) -> float:
        """Return a finite number.

        Raises:
            ConfigurationError: the value is not a finite number.
        """
        self.asked.add(name)
        value = self.get(name, default)
        with suppress(TypeError, ValueError, OverflowError):
            number = float(value)
            if isfinite(number):
                return number
        raise ConfigurationError(f"argument {name}: {value!r} is no number")

    def truth(self, name: str, *, default: bool) -> bool:
        """Return a truth value, given as such or as `true` or `false`.

        Raises:
            ConfigurationError: the value is not a truth value.
        """
        self.asked.add(name)
        value = self.get(name, default)
        known = {True: True, False: False, "true": True, "false": False, "True": True, "False": False}
        if not isinstance(value, bool | str) or value not in known:
            raise ConfigurationError(f"argument {name}: {value!r} is neither true nor false")
        return known[value]

    def duration(self, name: str, default: int | None) -> int | None:
        """Return a duration in microseconds.

        Raises:
            ConfigurationError: it cannot be read.
        """
        self.asked.add(name)
        if name not in self:
            return default
        try:
            return parse_duration(str(self[name]))
        except ValueError as error:
            raise ConfigurationError(f"argument {name}: {error}") from None

    def text(self, name: str) -> str:
        """Return a text; empty if there is none."""
        self.asked.add(name)
        value = self.get(name)
        return "" if value is None else str(value)


@dataclass(slots=True, frozen=True)
class PluginOption:
    """Plugin in a tier."""

    name: str
    enabled: frozenset[str] = SWITCHES - _OFF_UNLESS_STATED
    """Switches that are on; extension points outside `SWITCHES` are always on."""
    arguments: Arguments = field(default_factory=Arguments)


@dataclass(slots=True, frozen=True)
class Configuration:
    """Actions in order, and plugins in tiers."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    action_arguments: Mapping[str, Arguments] = field(default_factory=dict)

    def arguments_of(self, action: str) -> Arguments:
        """Return the arguments of an action."""
        return self.action_arguments.get(action) or Arguments()

    def gives_notice(self, queue: Queue) -> bool:
        """Return whether action `preempt` gives notice to jobs of a queue."""
        return queue.preemption == "notice" and "preempt" in self.actions

    def document(self) -> dict[str, Any]:
        """Return the configuration in the format of its file, as JSON values."""
        return {
            "actions": ", ".join(self.actions),
            "tiers": [{"plugins": [_plugin(option) for option in tier]} for tier in self.tiers],
            "configurations": [{"name": name, "arguments": _json(given)} for name, given in self.action_arguments.items()],
        }

    @property
    def obstacle(self) -> str:
        """Obstacle to placing pods that request resources, with its remedy; empty: none."""
        if "allocate" in self.actions:
            return ""
        return f"no action gives pods nodes, they are: {', '.join(self.actions) or 'none'}; add allocate"


DEFAULT: Final = Configuration(
    ("enqueue", "allocate", "backfill"),
    (
        tuple(PluginOption(name) for name in ("priority", "gang", "conformance")),
        tuple(PluginOption(name) for name in ("overcommit", "drf", "predicates", "proportion", "nodeorder")),
    ),
)
"""Volcano's default."""


def read_configuration(content: Mapping[str, Any]) -> Configuration:
    """Read a configuration in Volcano's format.

    Args:
        content: the decoded YAML. `actions` and `tiers` default to those of `DEFAULT`.

    Raises:
        ConfigurationError: a field has the wrong form, or two plugins of a tier exclude each other.
    """
    actions = content.get("actions")
    tiers = content.get("tiers")
    if not isinstance(actions, str | None):
        raise ConfigurationError(f"actions: {actions!r} is no text of names with commas")
    return Configuration(
        DEFAULT.actions if actions is None else tuple(name.strip() for name in actions.split(",") if name.strip()),
        DEFAULT.tiers if tiers is None else tuple(_tier(tier) for tier in _list(tiers, "tiers")),
        {_name(item, "configurations"): _arguments(item) for item in _list(content.get("configurations") or [], "configurations")},
    )


def _plugin(option: PluginOption) -> dict[str, Any]:
    switched = sorted(option.enabled ^ PluginOption(option.name).enabled)
    found = {"name": option.name} | {f"enable{name.title().replace('_', '')}": name in option.enabled for name in switched}
    return found | ({"arguments": _json(option.arguments)} if option.arguments else {})


def _json(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = loads(dumps(given, default=str), parse_constant=str)
    return found


def _tier(tier: object) -> tuple[PluginOption, ...]:
    plugins = tier.get("plugins") if isinstance(tier, Mapping) else None
    found = tuple(_option(plugin) for plugin in _list(plugins or [], "plugins"))
    on = {option.name: option.enabled for option in found}
    if "proportion" in on and "hierarchy" in on.get("drf", ()):  # Volcano refuses it on reading the file, too
        raise ConfigurationError("proportion and hierarchical drf cannot share a tier: both order queues")
    return found


def _option(plugin: Any) -> PluginOption:  # noqa: ANN401 - decoded YAML
    name = _name(plugin, "plugins")
    on = set(PluginOption(name).enabled)
    for field_name, value in plugin.items():
        if field_name.startswith("enable"):
            switch = _switch(field_name)
            if switch not in SWITCHES or not isinstance(value, bool):
                raise ConfigurationError(f"plugin {name}: {field_name}: {value!r} is no switch with a truth value")
            (on.add if value else on.discard)(switch)
    return PluginOption(name, frozenset(on), _arguments(plugin))


def _switch(field_name: str) -> str:
    """Return `job_order` of `enableJobOrder`; Volcano writes some as `enabledHierarchy`."""
    words = field_name.removeprefix("enable")
    words = words.removeprefix("d") if words[:1] == "d" else words
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in words).removeprefix("_")


def _list(value: Any, where: str) -> Sequence[Any]:  # noqa: ANN401 - decoded YAML
    if not isinstance(value, list):
        raise ConfigurationError(f"{where}: {value!r} is no list")
    return value


def _name(item: Any, where: str) -> str:  # noqa: ANN401 - decoded YAML
    name = item.get("name") if isinstance(item, Mapping) else None
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{where}: {item!r} has no name")
    return name


def _arguments(item: Mapping[str, Any]) -> Arguments:
    arguments = item.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise ConfigurationError(f"{item['name']}: arguments: {arguments!r} is no mapping")
    return Arguments(arguments)
