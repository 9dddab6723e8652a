"""Declaration of agents: the events that a function selects, and the agents of one process.

This module needs neither Faust nor a broker, so agents can be imported and tested anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction, signature
from math import isfinite
from typing import Any, Final, Protocol

from prometheus_client.registry import Collector

from engine.effects.notice import LEVELS
from engine.events import TYPES, UPCASTERS, Data, Event, Topic, UnknownTypeError
from engine.events.transitions import transition_of
from statemachines.callbacks import Selector, parse_selector, selects
from statemachines.errors import SelectorError
from streams.agents.errors import AgentError
from streams.agents.received import Received

TIME_LIMIT: Final = 30.0
"""Default time limit of one call of a function (seconds)."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")

Names = str | Sequence[str] | None
Function = Callable[[Event[Any]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Source:
    """A topic that agents can consume."""

    topic: Topic


job_events: Final = Source("job-events")
"""Every change of jobs, tasks and attempts, ordered and gapless within a job."""
billing: Final = Source("billing")
"""Usage and charges of attempts, ordered and gapless within a job; `engine.billing.records` converts them to records."""
dead_letters: Final = Source("dead-letters")
"""Undecodable inputs, ordered and gapless within a shard, which is their subject."""


class Handler(Protocol):
    """Sequential consumer of a topic's records: a declared agent, or the built-in counters."""

    @property
    def name(self) -> str:
        """Name, unique within its process; a label of its metrics."""

    @property
    def source(self) -> Source:
        """Source of its records."""

    @property
    def time_limit(self) -> float:
        """Time limit of one call (seconds)."""

    def wants(self, received: Received) -> bool:
        """Return true if the agent selects a record.

        Raises:
            UndecodableError: the record cannot be decoded.
            UnknownTypeError: its type is not in the vocabulary.
        """

    async def handle(self, received: Received) -> None:
        """Process a selected record. After an exception the record is delivered again."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A function with the events that it selects. Calling the agent calls the function, for tests."""

    name: str
    source: Source
    function: Function
    selector: Selector | None = None
    """Selected transitions; `None`: no condition on transitions, so that other events are selected too."""
    types: frozenset[str] = frozenset()
    """Current names of the selected types; empty: all."""
    time_limit: float = TIME_LIMIT
    """Time limit of one call (seconds)."""

    @property
    def origin(self) -> str:
        """Location of the function: `module:name`."""
        place: Any = self.function if hasattr(self.function, "__qualname__") else type(self.function)
        return f"{place.__module__}:{place.__qualname__}"

    def __call__(self, event: Event[Any]) -> Awaitable[object]:
        """Call the function."""
        return self.function(event)

    def wants(self, received: Received) -> bool:
        """Return true if a record is selected; its data are decoded only if its type can match."""
        name = received.message.type
        if name and not self._wants_type(name):
            return False
        if self.selector is None:
            # Records selected without a condition are also decoded before delivery.
            return received.event is not None
        found = transition_of(received.event.data)
        return found is not None and selects(self.selector, found, {})

    def _wants_type(self, name: str) -> bool:
        current = current_type(name)
        if self.types and current not in self.types:
            return False
        if self.selector is None:
            return True
        level = LEVELS.get(name)
        return level is not None and (not self.selector.levels or level in self.selector.levels)

    async def handle(self, received: Received) -> None:
        """Call the function with the record's event."""
        await self.function(received.event)


def agent(
    source: Source,
    *,
    level: Names = None,
    from_: Names = None,
    to: Names = None,
    reason: Names = None,
    task: Names = None,
    types: str | type[Data] | Sequence[str | type[Data]] | None = None,
    name: str | None = None,
    time_limit: float = TIME_LIMIT,
) -> Callable[[Function], Agent]:
    """Declare an asynchronous function to be an agent.

    Args:
        source: topic to consume: `job_events`, `billing` or `dead_letters`.
        level: levels of transitions: `job`, `task`, `replica`, or several. `None` selects all, here and below. If one of the first
            five conditions is given, only transitions are selected; these are on `job_events`.
        from_: phases left.
        to: phases entered.
        reason: reasons.
        task: names of tasks.
        types: event types, by name (`lahar.job.opened.v1`) or class.
        name: name in metrics and logs; `None`: the function's name.
        time_limit: time limit of one call (seconds); a longer call is cancelled and counts as failed.

    Raises:
        AgentError: the selection can match no event, the name or the time limit is invalid, or the function is not asynchronous or
            does not take exactly one argument.
    """

    def declare(function: Function) -> Agent:
        called: str = getattr(function, "__name__", "") if name is None else name
        where = f"agent {called!r} ({Agent(called, source, function).origin})"
        if not _NAME.fullmatch(called):
            raise AgentError(f"{where}: give it a `name` of up to 100 letters, digits, `_`, `-` and `.`")
        if not (isfinite(time_limit) and time_limit > 0):
            raise AgentError(f"{where}: time_limit must be more than 0 seconds, not {time_limit}")
        if not iscoroutinefunction(function):
            raise AgentError(f"{where} is not asynchronous; write `async def`, and `await asyncio.to_thread(…)` around what blocks")
        try:
            signature(function).bind(None)
        except TypeError:
            raise AgentError(f"{where} cannot be called with one argument, the event") from None
        content = {"level": level, "from": from_, "to": to, "reason": reason, "task": task}
        given = {key: value if isinstance(value, str) else list(value) for key, value in content.items() if value is not None}
        if given and source.topic != job_events.topic:
            raise AgentError(f"{where}: {', '.join(given)}: there are no transitions on {source.topic}")
        try:
            selector = parse_selector(given) if given else None
        except SelectorError as error:
            raise AgentError(f"{where}: {error}") from None
        return Agent(called, source, function, selector, _types(where, source, types), time_limit)

    return declare


def _types(where: str, source: Source, types: str | type[Data] | Sequence[str | type[Data]] | None) -> frozenset[str]:
    if types is None:
        return frozenset()
    wanted = [types] if isinstance(types, str | type) else types
    names = frozenset(one if isinstance(one, str) else one.TYPE for one in wanted)
    for one in sorted(names):
        if one not in TYPES:
            newer = f"; it is read as {current_type(one)}" if one in UPCASTERS else ""
            raise AgentError(f"{where}: there is no event type {one!r}{newer}; docs/events.md lists them")
        if source.topic != TYPES[one].TOPIC:
            raise AgentError(f"{where}: {one} stands on {TYPES[one].TOPIC}, not on {source.topic}")
    return names


def current_type(name: str) -> str:
    """Return the current type of an event type: itself, or the newest version of a historic one.

    Raises:
        UnknownTypeError: the name is not in the vocabulary.
    """
    if name not in TYPES and name not in UPCASTERS:
        raise UnknownTypeError(name)
    while name in UPCASTERS:
        name = UPCASTERS[name][0]
    return name


@dataclass(frozen=True, slots=True)
class Agents:
    """Agents of one process and one consumer group; they share its offsets."""

    name: str
    """Suffix of the consumer group's name. Agents under a new name start at the beginning of the topics."""
    handlers: Sequence[Handler]
    from_beginning: bool = False
    """Commit no offsets; start from the beginning of the topics, or from a snapshot that all handlers can use
    (`streams.agents.seeding`): for state that is rebuilt in memory."""
    collectors: Sequence[Collector] = field(default=())
    """Collectors that are exported with the metrics of the process."""

    def __post_init__(self) -> None:
        """Check the names.

        Raises:
            AgentError: the name is invalid, there are no agents, or two have the same name.
        """
        if not _NAME.fullmatch(self.name):
            raise AgentError(f"agents {self.name!r}: give them a name of up to 100 letters, digits, `_`, `-` and `.`")
        if not self.handlers:
            raise AgentError(f"agents {self.name!r}: there are none")
        if twice := _twice(handler.name for handler in self.handlers):
            raise AgentError(f"agents {self.name!r}: two have the name {twice!r}; give one another `name`")


def _twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
