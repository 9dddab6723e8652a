"""Subscriptions to job events, or to those of budgets: from the beginning, a token, a time or now, past events first.

Every committed event that matches the filter is delivered exactly once, in the order of its job. The token taken after an event
resumes behind that event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias, cast, get_args

from engine.events import Event, Message, Topic, decode
from engine.events.job_state import LabelledJob
from engine.events.jobs import JobForgotten, JobOpened, JobRevised
from engine.history.errors import ForeignTokenError, HistoryError
from engine.history.event_filter import Followed, Selection, full_type, must_be_types
from engine.history.token import Place, check, digest_of, read_token, write_token
from engine.log.port import Log, Partition, Record
from engine.log.ranges import records_between
from statemachines.names import must_be_known
from statemachines.vocabulary import Level

_READ: Final = 500
_WAIT: Final = 1.0
_ALL: Final = Selection()


@dataclass(frozen=True, slots=True)
class Start:
    """Start of a subscription."""

    at: Literal["beginning", "now", "token", "time"] = "beginning"
    token: str = ""
    time: int = 0
    """First `recordedtime` delivered (microseconds)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Conditions on an event; `None` or empty matches all. Tenant, queue and labels are the job's as of the event."""

    tenant: str | None = None
    queue: str | None = None
    job: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    level: Level | None = None
    types: tuple[str, ...] = ()
    """Event types; `*` matches any characters: `lahar.attempt.*`. `job.phase_changed` is any version of that type."""
    namespace: str | None = None
    shown: Selection = field(default_factory=Selection)

    @property
    def asks_for_jobs(self) -> bool:
        """Whether a condition needs the job's state."""
        return self.tenant is not None or self.queue is not None or self.namespace is not None or bool(self.labels)


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Marks the end of the events that were committed when the subscription began."""

    token: str


def level_of(event_type: str) -> Level | None:
    """Return the level of an event type: that of its task, attempt or job; `None` for events of shards."""
    if event_type.startswith("lahar.shard."):
        return None
    if event_type.startswith("lahar.attempt."):
        return "replica"
    return "task" if event_type.startswith("lahar.task.") else "job"


Item: TypeAlias = Record | CaughtUp
"""Item of a subscription's stream."""


class Subscription:
    """One reader of a topic. Not thread-safe."""

    def __init__(self, log: Log, start: Start | None = None, wanted: Wanted | None = None, topic: Followed = "job-events") -> None:
        """Find the start of the subscription.

        Args:
            log: any log.
            start: start of the subscription; default: the beginning.
            wanted: conditions on events; default all.
            topic: topic to read.

        Raises:
            MalformedTokenError: not a token of this release.
            ForeignTokenError: the token is from another log, topic or epoch.
            ExpiredTokenError: events after the token are no longer retained.
            UnknownNameError: there is no such type of event, level or topic.
            HistoryError: the topic has no such filter.
        """
        must_be_known("topic", [topic], get_args(Followed))
        self._log = log
        self._topic: Topic = topic
        self._wanted = wanted or Wanted()
        if topic == "budgets" and replace(self._wanted, tenant=None, types=()) != Wanted():
            raise HistoryError("events of budgets are selected by tenant and type only")
        must_be_types(self._wanted.types, topic)
        if self._wanted.level is not None:
            must_be_known("level", [self._wanted.level], get_args(Level))
        self._types = [full_type(given) for given in self._wanted.types]
        self._partitions = [Partition(topic, number) for number in range(log.partitions(topic))]
        self._ends = {partition.number: log.end(partition) for partition in self._partitions}
        self._places = self._begin(start or Start())
        self._fetched = {number: place.next for number, place in self._places.items()}
        self._waiting: dict[int, deque[Record]] = {partition.number: deque() for partition in self._partitions}
        self._look = True
        """A partition's buffer is empty; all empty ones are read before the next event is chosen."""
        self.jobs: dict[str, LabelledJob] = {}
        """Unforgotten jobs by id; empty unless a condition needs the job's state."""
        if self._wanted.asks_for_jobs and topic == "job-events":
            self._learn_jobs()

    @property
    def token(self) -> str:
        """Token that resumes behind the last delivered event."""
        return write_token(self._topic, self._places)

    @property
    def caught_up(self) -> bool:
        """Whether all events up to the end as of the subscription's start were read."""
        return all(place.next >= self._ends[number] for number, place in self._places.items())

    def take(self) -> Record | None:
        """Return the next event that matches; `None` if none is committed yet.

        Of several partitions, the event with the lowest recorded time comes first.
        """
        while self._is_any_at_hand():
            if (record := self._next_at_hand()) is not None:
                return record
        return None

    def stream(self, *, follow: bool, stop: Callable[[], bool] = lambda: False) -> Iterator[Item]:
        """Yield events, `CaughtUp` once, and, with `follow`, later events.

        Args:
            follow: after `CaughtUp`, wait for new events.
            stop: called once a second while no event is committed, and after each batch without a match; true ends the
                stream.
        """
        marked = False
        while True:
            if self.caught_up and not marked:
                marked = True
                yield CaughtUp(self.token)
                if not follow:
                    return
            if self._is_any_at_hand():
                record = self._next_at_hand()
                if record is not None:
                    yield record
                elif stop():
                    return
            elif marked:
                if stop():
                    return
                self._log.wait(_WAIT)

    def _begin(self, start: Start) -> dict[int, Place]:
        if start.at == "token":
            topic, places = read_token(start.token)
            if topic != self._topic:
                raise ForeignTokenError(f"it is of topic {topic}, not {self._topic}")
            check(self._log, topic, places)
            return {partition.number: places.get(partition.number, Place(0)) for partition in self._partitions}
        if start.at == "now":
            return {number: self._behind(number, end) for number, end in self._ends.items()}
        if start.at == "time":
            return {number: self._behind(number, self._first_at(number, end, start.time)) for number, end in self._ends.items()}
        return {partition.number: Place(0) for partition in self._partitions}

    def _behind(self, number: int, offset: int) -> Place:
        """Return the place at an offset, with the digest of the event before it."""
        found = self._log.read(Partition(self._topic, number), max(offset - 1, 0), 1)
        if found and found[0].offset < offset:
            return Place(offset, found[0].offset, digest_of(found[0].message.id))
        return Place(offset)

    def _first_at(self, number: int, end: int, time: int) -> int:
        """Return the first offset recorded at or after a time: recorded times never fall within a partition."""
        low, high = 0, end
        while low < high:
            middle = (low + high) // 2
            found = self._log.read(Partition(self._topic, number), middle, 1)
            if found and found[0].offset < high and found[0].message.recordedtime < time:
                low = found[0].offset + 1
            else:
                high = middle
        return low

    def _is_any_at_hand(self) -> bool:
        """Return whether events are buffered, after reading if a buffer is empty."""
        if self._look:
            for partition in self._partitions:
                self._fetch(partition)
            self._look = not any(self._waiting.values())
        return not self._look

    def _next_at_hand(self) -> Record | None:
        """Return the next buffered event that matches; `None` if a buffer must be read first."""
        while not self._look:
            record = min((waiting[0] for waiting in self._waiting.values() if waiting), key=_recorded)
            number = record.partition.number
            self._waiting[number].popleft()
            self._look = not self._waiting[number]
            self._places[number] = Place(record.offset + 1, record.offset, digest_of(record.message.id))
            if self._passes(record.message):
                return record
        return None

    def _fetch(self, partition: Partition) -> None:
        waiting = self._waiting[partition.number]
        if waiting:
            return
        found = self._log.read(partition, self._fetched[partition.number], _READ)
        if found:
            waiting.extend(found)
            self._fetched[partition.number] = found[-1].offset + 1
        elif (end := self._ends[partition.number]) > self._places[partition.number].next:
            # Offsets may have gaps: no record is left below the end.
            self._places[partition.number] = self._places[partition.number]._replace(next=end)

    def _learn_jobs(self) -> None:
        """Fold the state of jobs up to the start of the subscription."""
        for partition in self._partitions:
            for record in records_between(self._log, partition, 0, self._places[partition.number].next, _READ):
                self._learn(record.message)
                if record.message.type == JobForgotten.TYPE:
                    self.jobs.pop(record.message.subject, None)

    def _learn(self, message: Message) -> None:
        if message.type == JobOpened.TYPE:
            self.jobs[message.subject] = LabelledJob.begin(cast("Event[JobOpened]", decode(message)))
        elif message.type == JobRevised.TYPE and message.subject in self.jobs:
            self.jobs[message.subject].change(decode(message).data, message.time)

    def _passes(self, message: Message) -> bool:
        wanted = self._wanted
        if self._topic == "budgets":
            if wanted.tenant not in {None, message.subject}:
                return False
        elif wanted.asks_for_jobs:
            self._learn(message)
            # A forgotten job has no further events.
            find = self.jobs.pop if message.type == JobForgotten.TYPE else self.jobs.get
            job = find(message.subject, None)
            if job is None or wanted.tenant not in {None, job.tenant} or wanted.queue not in {None, job.queue}:
                return False
            if wanted.namespace not in {None, job.namespace}:
                return False
            if not wanted.labels.items() <= job.labels.items():
                return False
        return (
            wanted.job in {None, message.subject}
            and wanted.level in {None, level_of(message.type)}
            and (not self._types or any(fnmatchcase(message.type, pattern) for pattern in self._types))
            and (wanted.shown == _ALL or wanted.shown.passes(decode(message).data))
        )


def _recorded(record: Record) -> tuple[int, int]:
    return record.message.recordedtime, record.partition.number
