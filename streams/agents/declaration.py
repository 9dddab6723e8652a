"""Declaring agents: which events a function wants, and which agents make one process.

Nothing here needs Faust or a broker, so a module of agents can be imported and its functions tested anywhere.
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

__all__ = ["TIME_LIMIT", "Agent", "Agents", "Handler", "Source", "agent", "billing", "current_type", "dead_letters", "job_events"]

TIME_LIMIT: Final = 30.0
"""How long one call of a function may take unless it is declared otherwise (seconds)."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")

Names = str | Sequence[str] | None
Function = Callable[[Event[Any]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Source:
    """A topic that agents can consume."""

    topic: Topic


job_events: Final = Source("job-events")
"""The truth: every change of jobs, tasks and attempts, ordered and gapless within a job."""
billing: Final = Source("billing")
"""What attempts used and what it costs, ordered and gapless within a job: `engine.billing.records` makes records of it."""
dead_letters: Final = Source("dead-letters")
"""Inputs that could not be read, ordered and gapless within a shard, which is the subject of its letters."""


class Handler(Protocol):
    """Consumer of a topic's records, one after another: a declared agent, or the built-in counters."""

    @property
    def name(self) -> str:
        """Unique within its process; its metrics carry it."""

    @property
    def source(self) -> Source:
        """The topic of its records."""

    @property
    def time_limit(self) -> float:
        """How long one call may take (seconds)."""

    def wants(self, received: Received) -> bool:
        """Return whether it selects a record.

        Raises:
            UndecodableError: the record cannot be read.
            UnknownTypeError: its type is not in the vocabulary.
        """

    async def handle(self, received: Received) -> None:
        """Process a selected record. Any exception means: not done, deliver it again."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A function and the events that it wants. Calling it calls the function, for tests."""

    name: str
    source: Source
    function: Function
    selector: Selector | None = None
    """Transitions selected; `None`: also events that are no transitions."""
    types: frozenset[str] = frozenset()
    """Current names of the types wanted; empty: all."""
    time_limit: float = TIME_LIMIT
    """Seconds."""

    @property
    def origin(self) -> str:
        """The function's location: `module:name`."""
        place: Any = self.function if hasattr(self.function, "__qualname__") else type(self.function)
        return f"{place.__module__}:{place.__qualname__}"

    def __call__(self, event: Event[Any]) -> Awaitable[object]:
        """Call the function."""
        return self.function(event)

    def wants(self, received: Received) -> bool:
        """Return whether a record is selected. Its data are read only if its type does not say no."""
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
        """Give a record's event to the function."""
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
        source: the topic: `job_events`, `billing` or `dead_letters`.
        level: of transitions: `job`, `task`, `replica`, or several; `None`, as in all that follow: any. With one of the first five
            given, the function is told of transitions only, which stand on `job_events`.
        from_: phases left.
        to: phases entered.
        reason: reasons.
        task: names of tasks.
        types: types of events, by name (`lahar.job.opened.v1`) or class.
        name: `None`: the function's name. Metrics and logs carry it.
        time_limit: how long one call may take (seconds); a call that takes longer is cancelled and has failed.

    Raises:
        AgentError: nothing can be selected so, the name or the time limit is none, or the function is not asynchronous or does not
            take exactly one argument.
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
    """Return the type that a type is read as: itself, or the newest version of a historic one.

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
    """Agents that run in one process as one consumer group: they wait for one another, and are known by one name."""

    name: str
    """Ends the name of the consumer group. Agents under a new name begin at the beginning of the topics."""
    handlers: Sequence[Handler]
    from_beginning: bool = False
    """Keep no position; at each start read the topics from their beginning, or from where a snapshot ends with which all handlers
    can begin (`streams.agents.seeding`): for what is rebuilt in memory."""
    collectors: Sequence[Collector] = field(default=())
    """Shown with the metrics of the process."""

    def __post_init__(self) -> None:
        """Check the names.

        Raises:
            AgentError: the name is none, there is no agent, or two have one name.
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
