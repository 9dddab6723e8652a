"""Log records of a shard: opened, closed, failed commits, and committed dead letters and jobs parked or unparked.

The last three kinds may occur a thousand times a second: after a burst, each kind is logged once a second, with the number of
records left out. Metrics count all of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from engine.events import Event, Message, decode
from engine.events.outcomes import DeadLettered, JobParked, JobUnparked
from engine.log.errors import LogError
from engine.log.port import Output, ShardId

_BURST: Final = 20.0
_A_SECOND: Final = 1.0
_logger: Final = logging.getLogger(__name__)
# Without configured logging Python prints warnings to stderr; short commands print these facts themselves.
_logger.addHandler(logging.NullHandler())

_REMARKABLE: Final = frozenset({DeadLettered.TYPE, JobParked.TYPE, JobUnparked.TYPE})


class ShardLogger:
    """Logs one shard's commits."""

    def __init__(self, shard: ShardId, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without parked jobs.

        Args:
            shard: shard to log.
            clock: monotonic clock for the rate limit (seconds).
        """
        self._shard = str(shard)
        self._clock = clock
        self._parked: set[str] = set()
        self._limits = {kind: _Limit() for kind in _REMARKABLE}

    @property
    def parked_jobs(self) -> int:
        """Number of parked jobs. Callable from any thread."""
        return len(self._parked)

    def opened(self, seconds: float, events: int) -> None:
        """Log that the shard is open, the duration, and the number of events folded on top of the snapshot."""
        fields = {"shard": self._shard, "seconds": round(seconds, 3), "events": events}
        _logger.info("shard %s is open: %.3f s, %d events folded", self._shard, seconds, events, extra=fields)

    def closed(self) -> None:
        """Log that the shard was closed."""
        _logger.info("shard %s is closed", self._shard, extra={"shard": self._shard})

    def given_up(self, error: LogError) -> None:
        """Log that a commit failed and the shard is closed."""
        fields = {"shard": self._shard, "error": type(error).__name__}
        _logger.warning("shard %s gave up a commit: %s", self._shard, error, extra=fields)

    def begin(self, parked: Iterable[str]) -> None:
        """Set the jobs parked at the shard's position."""
        self._parked = set(parked)

    def committed(self, outputs: Sequence[Output]) -> None:
        """Log the outputs of a commit."""
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
            self._write(decode(message), limit.left_out())

    def _write(self, event: Event[Any], left_out: int) -> None:
        more = f" ({left_out} more like it since the last one logged)" if left_out else ""
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
    """Token bucket: full at the start, one token per second."""

    def __init__(self) -> None:
        self._tokens = _BURST
        self._at = 0.0
        self._left_out = 0

    def passes(self, now: float) -> bool:
        """Take a token; return false if there is none."""
        self._tokens = min(self._tokens + (now - self._at) * _A_SECOND, _BURST)
        self._at = now
        if self._tokens < 1:
            self._left_out += 1
            return False
        self._tokens -= 1
        return True

    def left_out(self) -> int:
        """Return the number of refusals since the last call."""
        found, self._left_out = self._left_out, 0
        return found
