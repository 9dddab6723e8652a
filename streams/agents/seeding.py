"""Start of a partition from a snapshot, without reading its history."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Collection, Sequence
from contextlib import closing
from typing import Any, Final, Protocol, runtime_checkable

from engine.events.back_off import BackOff
from engine.events.times import SECOND
from engine.log.errors import LogError, LogUnavailableError
from engine.log.port import Log
from streams.agents.progress import Place
from streams.errors import REFUSALS, TopicsMissingError
from streams.log import KafkaLog
from streams.settings import KafkaSettings

_BACK_OFF: Final = BackOff(SECOND, 30 * SECOND)

_log = logging.getLogger("lahar.agents")


class Seed(Protocol):
    """State from which a handler starts a partition."""

    @property
    def offset(self) -> int:
        """Offset of the first record to deliver."""


@runtime_checkable
class Seeded(Protocol):
    """A handler that can start a partition from a snapshot."""

    def seed(self, log: Log, number: int) -> Seed | None:
        """Read the seed of a partition; `None`: none is usable, read the partition from its beginning.

        Called in a separate thread.

        Raises:
            LogError: the log cannot be read.
        """

    def begin(self, place: Place, seed: Any) -> None:  # noqa: ANN401  the result of its `seed`
        """Replace the state of a partition with this seed."""


async def read_seeds(settings: KafkaSettings, handlers: Sequence[object], numbers: Collection[int]) -> dict[int, list[Seed]]:
    """Read the seeds of partitions; retried until cancelled while Kafka cannot be read.

    Args:
        settings: connection to the log.
        handlers: all handlers of the partitions' records.
        numbers: partitions of `job-events`.

    Returns:
        A seed for each handler, by partition. A partition without an entry must be read from its beginning.
    """
    able = [handler for handler in handlers if isinstance(handler, Seeded)]
    if len(able) < len(handlers) or not numbers:
        return {}
    cancelled, failures = threading.Event(), 0
    try:
        while True:
            try:
                return await asyncio.to_thread(_read, settings, able, sorted(numbers), cancelled)
            except LogUnavailableError as error:
                failures += 1
                pause = _BACK_OFF.delay(failures) / SECOND
                _log.warning("snapshots cannot be read now; trying again in %g s: %s", pause, error)
            await asyncio.sleep(pause)
    finally:
        cancelled.set()


def _read(
    settings: KafkaSettings, handlers: Sequence[Seeded], numbers: Sequence[int], cancelled: threading.Event
) -> dict[int, list[Seed]]:
    found: dict[int, list[Seed]] = {}
    try:
        with closing(KafkaLog(settings, readonly=True)) as log:
            for number in numbers:
                if cancelled.is_set():
                    break
                seeds = [seed for handler in handlers if (seed := _seed(handler, log, number)) is not None]
                if len(seeds) == len(handlers):
                    found[number] = seeds
    except LogUnavailableError as error:
        if not isinstance(error, TopicsMissingError) and not isinstance(error.__cause__, REFUSALS):
            raise
        _log.warning("no snapshots are available, so the whole history is read: %s", error)
    return found


def _seed(handler: Seeded, log: Log, number: int) -> Seed | None:
    try:
        return handler.seed(log, number)
    except LogUnavailableError:
        raise
    except LogError as error:
        _log.warning("the snapshot of partition %d cannot be used, so all of its past is read: %s", number, error)
        return None
