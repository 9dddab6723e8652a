"""Opening of the log in `--log`. Kafka's client is loaded only for a log on Kafka."""

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
from engine.signals import Signals

if TYPE_CHECKING:
    from streams.log import KafkaLog
    from streams.settings import KafkaSettings

KAFKA: Final = "kafka://"
UNOPENED: Final = "the log is not open yet"
"""Reason why a starting process is not ready."""

T = TypeVar("T")


class StoppedError(Exception):
    """Raised when a process is stopped while it waits for its log."""


def is_shared(url: str) -> bool:
    """Return true if workers process the log, so that commands only append to it."""
    return url.startswith(KAFKA)


def not_installed(url: str, missing: ModuleNotFoundError) -> LogUnavailableError:
    """Return the error for a log whose client is not installed.

    Args:
        url: URL of the log.
        missing: import error of the client.
    """
    package = (missing.name or "").partition(".")[0]
    return LogUnavailableError(f"{url}: {package} is not installed; install lahar[kafka]")


def open_log(
    url: str, partitions: int | None = None, *, create: bool = True, readonly: bool = False, patient: bool = True
) -> SearchableLog:
    """Open the log at a URL.

    Args:
        url: `sqlite:PATH`, `memory:` or `kafka://HOST:PORT`.
        partitions: partitions of each topic that has several; `None`: as in the log, 1 in a new one. On Kafka `lahar topics apply`
            creates the topics with their partitions.
        create: create the file if it does not exist.
        readonly: reject writes.
        patient: appends on Kafka wait for unavailable brokers (`KAFKA_DELIVERY_SECONDS`), not only for one request; for callers
            without retries of their own.

    Raises:
        ValueError: the URL is malformed, or a setting of Kafka is invalid.
        LogUnavailableError: the log cannot be reached, or the client for Kafka is not installed.
        LogError: the log is of another kind or damaged.
    """
    if not is_shared(url):
        return open_embedded(url, partitions, create=create, readonly=readonly)
    make, settings = kafka_of(url)
    if not patient:
        settings = settings.model_copy(update={"delivery_seconds": settings.request_seconds})
    log = make(settings, readonly=readonly)
    if partitions is not None and partitions != (found := partition_count(log)):
        log.close()
        raise ValueError(f"{url} has {found} partitions a topic, not {partitions}; create the topics with that number")
    return log


@contextmanager
def opened(settings: Settings, *, create: bool = False, readonly: bool = True) -> Iterator[SearchableLog]:
    """Open the log of the settings for a `with` block.

    Args:
        settings: settings with the log.
        create: create the file if it does not exist.
        readonly: reject writes.

    Raises:
        LogError: it cannot be opened; the message has the remedy.
        ValueError: the URL is malformed.
    """
    log = open_log(settings.log, create=create, readonly=readonly)
    try:
        yield log
    finally:
        log.close()


@contextmanager
def opened_at_start(settings: Settings, reporter: Reporter, signals: Signals | None = None) -> Iterator[SearchableLog]:
    """Open the log of a process for a `with` block; waits for a log on Kafka that does not exist yet.

    Args:
        settings: settings with the log.
        reporter: receives the reason for a wait.
        signals: end the wait; `None`: signals end the process.

    Raises:
        StoppedError: the process was stopped meanwhile.
        LogError: the log cannot be opened, and waiting did not or cannot help.
        ValueError: the URL is malformed, or a setting of Kafka is invalid.
    """
    url, shared = settings.log, is_shared(settings.log)
    start = StartWait(kafka_of(url)[1].start_seconds if shared else 0, reporter.warn)
    with closing(awaited(lambda: open_log(url, create=not shared, patient=False), start, signals)) as log:
        yield log


def awaited(attempt: Callable[[], T], start: StartWait, signals: Signals | None = None) -> T:
    """Return the result of a function, retried as long as `start` allows.

    Raises:
        StoppedError: `signals` requested it between two attempts.
        LogError: error of the last attempt.
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
    """Return the class of logs on Kafka, and its settings.

    Raises:
        LogUnavailableError: the client for Kafka is not installed.
        ValueError: a setting is invalid.
    """
    try:
        from streams.log import KafkaLog  # noqa: PLC0415  an optional extra
        from streams.settings import KafkaSettings  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise not_installed(url, missing) from None
    return KafkaLog, KafkaSettings.of_url(url)
