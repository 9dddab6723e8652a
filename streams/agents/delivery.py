"""Ordered delivery of records to one agent, with retries and without known duplicates."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from typing import Final

from engine.effects.errors import RetryLater
from engine.effects.lane import BACK_OFF
from engine.effects.receiver import describe
from engine.events import UndecodableError, UnknownTypeError
from engine.events.back_off import BackOff
from engine.events.times import SECOND
from streams.agents.declaration import Handler
from streams.agents.metrics import AgentMetrics, Outcome
from streams.agents.progress import Place, Progress
from streams.agents.received import Received

_MOST_NAMES: Final = 1_000
"""Maximum number of unknown types that are logged, each once; producers can send any number."""

_log = logging.getLogger("lahar.agents")


class Delivery:
    """Delivers records to one agent, one after another."""

    def __init__(self, handler: Handler, metrics: AgentMetrics, progress: Progress, back_off: BackOff = BACK_OFF) -> None:
        """Start without knowledge of earlier deliveries.

        Args:
            handler: the agent.
            metrics: counters of outcomes.
            progress: record of the events done.
            back_off: delays after failures of the function.
        """
        self.handler = handler
        self.progress = progress
        self._metrics = metrics
        self._back_off = back_off
        self._stops = False
        self._at: Place | None = None
        """Partition of the current record."""
        self._enough = asyncio.Event()
        """Set when a failed event must not be retried by this process."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._unknown: set[str] = set()
        metrics.watch(handler.name)

    async def take(self, received: Received) -> Outcome | None:
        """Deliver the next record; return when it is done.

        Returns:
            Its outcome; `None`: the agent is stopping and the record is not done.
        """
        if self._stops:
            return None
        self._idle.clear()
        self._enough.clear()
        self._at = Place(received.topic, received.partition)
        try:
            outcome = await self._take(received)
        finally:
            self._at = None
            self._idle.set()
        if outcome is not None:
            if outcome not in {"duplicate", "lost"}:
                self.progress.done(received)
            self._metrics.events.labels(self.handler.name, outcome).inc()
        return outcome

    async def drain(self) -> None:
        """Deliver no further record, and wait for the running call (at most its time limit)."""
        self._stops = True
        self._enough.set()
        await self._idle.wait()

    def lost(self, places: Collection[Place]) -> None:
        """Stop retries in partitions that are now assigned to another process, so that later records here need not wait."""
        if self._at in places:
            self._enough.set()

    async def _take(self, received: Received) -> Outcome | None:
        name = self.handler.name
        if self.progress.is_done(received):
            return "duplicate"
        if missing := self.progress.missing(received):
            self._metrics.missing.labels(name).inc(missing)
            _log.error(
                "agent %s: %d events of job %s are missing before sequence %d (%s)",
                name, missing, received.job, received.sequence, received.place, extra=_about(received),
            )  # fmt: skip
        try:
            if not self.handler.wants(received):
                return "unselected"
        except UnknownTypeError as error:
            if error.name not in self._unknown and len(self._unknown) < _MOST_NAMES:
                self._unknown.add(error.name)
                _log.warning("agent %s: %s; skipped (%s)", name, error, received.place, extra=_about(received))
            return "unknown"
        except UndecodableError as error:
            _log.error("agent %s: unreadable, skipped: %s (%s)", name, error, received.place, extra=_about(received))
            return "unreadable"
        return await self._give(received)

    async def _give(self, received: Received) -> Outcome | None:
        """Call the function until it succeeds, the partition is lost, or the agent stops (`None`)."""
        name, failures = self.handler.name, 0
        while True:
            began = time.monotonic()
            delay = await self._call(received)
            self._metrics.seconds.labels(name).observe(time.monotonic() - began)
            if delay is None:
                self._metrics.failing.labels(name).set(0)
                return "done"
            failures += 1
            self._metrics.failures.labels(name).inc()
            self._metrics.failing.labels(name).set(1)
            try:
                await asyncio.wait_for(self._enough.wait(), max(self._back_off.delay(failures), delay) / SECOND)
            except TimeoutError:
                continue
            if self._stops:
                return None
            self._metrics.failing.labels(name).set(0)
            return "lost"

    async def _call(self, received: Received) -> int | None:
        """Call the function once; return `None` on success, otherwise the delay that it requested (microseconds)."""
        limit = self.handler.time_limit
        try:
            async with asyncio.timeout(limit) as bound:
                await self.handler.handle(received)
        except RetryLater as later:
            self._log_failure(received, str(later))
            return later.delay
        except TimeoutError as error:
            self._log_failure(received, f"took longer than {limit:g} s" if bound.expired() else describe(error))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._log_failure(received, describe(error))
        except Exception as error:  # noqa: BLE001  foreign code may raise anything
            self._log_failure(received, describe(error))
        else:
            return None
        return 0

    def _log_failure(self, received: Received, why: str) -> None:
        _log.warning(
            "agent %s failed on %s of job %s, sequence %d (%s); it is given it again: %s",
            self.handler.name, received.message.type, received.job, received.sequence, received.place, why,
            extra=_about(received),
        )  # fmt: skip


def _about(received: Received) -> dict[str, object]:
    """Return the extra fields of a log record."""
    message = received.message
    return {
        "job": message.subject,
        "event_id": message.id,
        "correlation_id": message.correlationid,
        "topic": received.topic,
        "partition": received.partition,
        "offset": received.offset,
    }
