"""Log lines of a shard: it was opened or closed, a commit failed, and committed dead letters and jobs parked or unparked.

The last three may come by the thousand a second: after a burst, one line a second of each kind is written, with the number left
out. The metrics count all, and the log holds them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from engine.events import Event, Message, decode
from engine.events.jobs import DeadLettered, JobParked, JobUnparked
from engine.log.errors import LogError
from engine.log.port import Output, ShardId

__all__ = ["Remarks"]

_BURST: Final = 20.0
_A_SECOND: Final = 1.0
_logger: Final = logging.getLogger(__name__)
# Where nobody has asked for logs, Python would print warnings; commands that end have their own way to say the same.
_logger.addHandler(logging.NullHandler())

_REMARKABLE: Final = frozenset({DeadLettered.TYPE, JobParked.TYPE, JobUnparked.TYPE})


class Remarks:
    """Logs one shard's commits."""

    def __init__(self, shard: ShardId, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with no job parked.

        Args:
            shard: whose commits they are.
            clock: seconds, for the limit.
        """
        self._shard = str(shard)
        self._clock = clock
        self._parked: set[str] = set()
        self._limits = {kind: _Limit() for kind in _REMARKABLE}

    @property
    def parked_jobs(self) -> int:
        """Number of parked jobs. May be asked from any thread."""
        return len(self._parked)

    def opened(self, seconds: float, events: int) -> None:
        """Say that the shard is open, how long it took, and how many events were folded on top of the snapshot."""
        fields = {"shard": self._shard, "seconds": round(seconds, 3), "events": events}
        _logger.info("shard %s is open: %.3f s, %d events folded", self._shard, seconds, events, extra=fields)

    def closed(self) -> None:
        """Say that the shard was given back."""
        _logger.info("shard %s is closed", self._shard, extra={"shard": self._shard})

    def given_up(self, error: LogError) -> None:
        """Say that a commit failed, and that the shard is closed."""
        fields = {"shard": self._shard, "error": type(error).__name__}
        _logger.warning("shard %s gave up a commit: %s", self._shard, error, extra=fields)

    def begin(self, parked: Iterable[str]) -> None:
        """Note the jobs parked at the shard's position."""
        self._parked = set(parked)

    def committed(self, outputs: Sequence[Output]) -> None:
        """Take in the outputs of a commit."""
        for output in outputs:
            if output.message.type in _REMARKABLE:
                self._remark(output.message)

    def _remark(self, message: Message) -> None:
        if message.type == JobParked.TYPE:
            self._parked.add(message.subject)
        elif message.type == JobUnparked.TYPE:
            self._parked.discard(message.subject)
        limit = self._limits[message.type]
        if limit.passes(self._clock()):
            self._tell(decode(message), limit.passed_over())

    def _tell(self, event: Event[Any], passed_over: int) -> None:
        more = f" ({passed_over} more like it since the last one logged)" if passed_over else ""
        fields = {"shard": self._shard, "event_id": event.id, "cause": event.causationid}
        data = event.data
        if isinstance(data, DeadLettered):
            place = {"topic": data.topic, "partition": data.partition, "offset": data.offset}
            _logger.warning(
                "dead letter: %s/%s at %s: %s%s",
                *place.values(),
                data.reason,
                more,
                extra={**fields, **place, "reason": data.reason},
            )
            return
        fields |= {"job": event.subject, "correlation_id": event.correlationid}
        if isinstance(data, JobParked):
            _logger.warning("job %s is parked: %s%s", event.subject, data.error, more, extra={**fields, "reason": data.error})
        else:
            _logger.info("job %s is unparked, %d inputs released%s", event.subject, data.inputs, more, extra=fields)


class _Limit:
    """A bucket of tokens: full at the beginning, one token a second."""

    def __init__(self) -> None:
        self._tokens = _BURST
        self._at = 0.0
        self._passed_over = 0

    def passes(self, now: float) -> bool:
        """Take a token, if there is one."""
        self._tokens = min(self._tokens + (now - self._at) * _A_SECOND, _BURST)
        self._at = now
        if self._tokens < 1:
            self._passed_over += 1
            return False
        self._tokens -= 1
        return True

    def passed_over(self) -> int:
        """Return how many have not passed since the last call."""
        found, self._passed_over = self._passed_over, 0
        return found
