"""Opening the log that `--log` names. Kafka's client is loaded only for a log on Kafka."""

from __future__ import annotations

from typing import Final

from engine.history.transfer import Exportable
from engine.log.errors import LogUnavailableError
from engine.log.url import open_log as open_embedded
from engine.processor.partitions import width

__all__ = ["KAFKA", "is_shared", "not_installed", "open_log"]

KAFKA: Final = "kafka://"


def is_shared(url: str) -> bool:
    """Tell whether a log is processed by workers of its own: commands then only append to it."""
    return url.startswith(KAFKA)


def not_installed(url: str, missing: ModuleNotFoundError) -> LogUnavailableError:
    """Return the error for a log that this installation has no client for.

    Args:
        url: names the log.
        missing: what importing the client raised.
    """
    package = (missing.name or "").partition(".")[0]
    return LogUnavailableError(f"{url}: {package} is not installed; install lahar[kafka]")


def open_log(url: str, partitions: int | None = None, *, create: bool = True, readonly: bool = False) -> Exportable:
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
    try:
        from streams.log import KafkaLog  # noqa: PLC0415  an extra that most installations do without
        from streams.settings import KafkaSettings  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise not_installed(url, missing) from None
    log = KafkaLog(KafkaSettings.of_url(url), readonly=readonly)
    if partitions is not None and partitions != (found := width(log)):
        log.close()
        raise ValueError(f"{url} has {found} partitions a topic, not {partitions}; make the topics with that number")
    return log
