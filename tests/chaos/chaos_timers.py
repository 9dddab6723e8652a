"""All timers of a log, as its events tell of them."""

from __future__ import annotations

from collections import Counter, defaultdict

from engine.events import Data, Event, decode
from engine.events.actions import DelaysCancelled, TimerCancelled, TimerFired, TimerSet
from engine.log.port import Partition
from streams.log import KafkaLog

_KINDS = frozenset({TimerSet.TYPE, TimerCancelled.TYPE, DelaysCancelled.TYPE, TimerFired.TYPE})


class Timers:
    """What has become of them, up to the last `look`."""

    def __init__(self, log: KafkaLog) -> None:
        """Know of none yet."""
        self.due: dict[str, int] = {}
        self.cancelled: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        self.wrong = 0
        """How many fired after they were cancelled."""
        self._log = log
        self._delays: defaultdict[str, dict[str, TimerSet]] = defaultdict(dict)
        """Job → timer of a delayed action → what was set."""
        self._next = [0] * log.partitions("job-events")

    def look(self) -> None:
        """Read what has been written since.

        Raises:
            LogUnavailableError: no broker answers.
        """
        for number in range(len(self._next)):
            while records := self._log.read(Partition("job-events", number), self._next[number], 5_000):
                for record in records:
                    if record.message.type in _KINDS:
                        self._take(decode(record.message))
                self._next[number] = records[-1].offset + 1

    def left(self, by: int) -> list[str]:
        """Return the timers due by a time (microseconds) that have neither fired nor been cancelled."""
        return [timer for timer, due in self.due.items() if due <= by and not self.fired[timer] and not self.cancelled[timer]]

    def _take(self, event: Event[Data]) -> None:
        if isinstance(event.data, TimerSet):
            self.due[event.id] = event.data.due
            if event.data.timer == "policy":
                self._delays[event.subject][event.id] = event.data
        elif isinstance(event.data, TimerCancelled):
            self.cancelled[event.data.id] += 1
        elif isinstance(event.data, DelaysCancelled):
            for timer, delay in self._delays[event.subject].items():
                if event.data.include(delay.action, delay.task, delay.partition):
                    self.cancelled[timer] += not self.fired[timer]
        elif isinstance(event.data, TimerFired):
            self.fired[event.data.id] += 1
            self.wrong += bool(self.cancelled[event.data.id])
