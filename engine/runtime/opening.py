"""Opening the log that `--log` names. Kafka's client is loaded only for a log on Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from engine.log.errors import LogUnavailableError
from engine.log.port import SearchableLog
from engine.log.start import StartWait
from engine.log.url import open_log as open_embedded
from engine.processor.partitions import partition_count
from engine.runtime.reporter import Reporter
from engine.runtime.settings import Settings
from engine.runtime.signals import Signals

if TYPE_CHECKING:
    from streams.log import KafkaLog
    from streams.settings import KafkaSettings

__all__ = ["KAFKA", "UNOPENED", "StoppedError", "awaited", "is_shared", "kafka_of", "not_installed", "open_log", "opened_at_start"]

KAFKA: Final = "kafka://"
UNOPENED: Final = "the log is not open yet"
"""Why a process is not ready that has just been started."""

T = TypeVar("T")


class StoppedError(Exception):
    """Raised when a process is told to stop while it waits for its log."""


def is_shared(url: str) -> bool:
    """Return whether workers process a log: commands then only append to it."""
    return url.startswith(KAFKA)


def not_installed(url: str, missing: ModuleNotFoundError) -> LogUnavailableError:
    """Return the error for a log that this installation has no client for.

    Args:
        url: names the log.
        missing: what importing the client raised.
    """
    package = (missing.name or "").partition(".")[0]
    return LogUnavailableError(f"{url}: {package} is not installed; install lahar[kafka]")


def open_log(url: str, partitions: int | None = None, *, create: bool = True, readonly: bool = False) -> SearchableLog:
    """Open the log that a URL names.

    Args:
        url: `sqlite:PATH`, `memory:` or `kafka://HOST:PORT`.
        partitions: of each topic that has several; `None`: as the log has it, 1 in a new one. Topics on Kafka are made by
            `lahar topics apply`, they are as they are.
        create: make a file that is not there.
        readonly: only read.

    Raises:
        ValueError: the URL is of no known form, or a setting of Kafka does not fit.
        LogUnavailableError: the log cannot be reached, or this installation has no client for Kafka.
        LogError: the log is of another kind or damaged.
    """
    if not is_shared(url):
        return open_embedded(url, partitions, create=create, readonly=readonly)
    make, settings = kafka_of(url)
    log = make(settings, readonly=readonly)
    if partitions is not None and partitions != (found := partition_count(log)):
        log.close()
        raise ValueError(f"{url} has {found} partitions a topic, not {partitions}; make the topics with that number")
    return log


@contextmanager
def opened_at_start(settings: Settings, reporter: Reporter, signals: Signals | None = None) -> Iterator[SearchableLog]:
    """Open the log that a process runs, for the length of a `with` block; one on Kafka that is not there yet is waited for.

    Args:
        settings: say where it is.
        reporter: is told that the process waits, and for what.
        signals: end the wait; `None`: signals end the process.

    Raises:
        StoppedError: the process was told to stop meanwhile.
        LogError: the log cannot be opened, and waiting has not helped or does not help.
        ValueError: the URL is of no known form, or a setting of Kafka does not fit.
    """
    url, shared = settings.log, is_shared(settings.log)
    start = StartWait(kafka_of(url)[1].start_seconds if shared else 0, reporter.warn)
    with closing(awaited(lambda: open_log(url, create=not shared), start, signals)) as log:
        yield log


def awaited(attempt: Callable[[], T], start: StartWait, signals: Signals | None = None) -> T:
    """Return what an attempt gives, made again as long as `start` says.

    Raises:
        StoppedError: `signals` say so between two attempts.
        LogError: of the last attempt.
    """
    while True:
        try:
            return attempt()
        except LogUnavailableError as error:
            seconds = start.pause(error)
        (time.sleep if signals is None else signals.wait)(seconds)
        if signals is not None and signals.stopped:
            raise StoppedError


def kafka_of(url: str) -> tuple[type[KafkaLog], KafkaSettings]:
    """Return what opens a log on Kafka, and the settings to open it with.

    Raises:
        LogUnavailableError: this installation has no client for Kafka.
        ValueError: a setting does not fit.
    """
    try:
        from streams.log import KafkaLog  # noqa: PLC0415  an extra that most installations do without
        from streams.settings import KafkaSettings  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise not_installed(url, missing) from None
    return KafkaLog, KafkaSettings.of_url(url)
