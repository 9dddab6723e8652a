"""Opening a log by its URL, as `--log` and `LAHAR_LOG` give it."""

from __future__ import annotations

from collections.abc import Callable

from engine.log.errors import LogUnavailableError
from engine.log.memory import MemoryLog
from engine.log.producer_time import wall_clock
from engine.log.sqlite import SqliteLog

__all__ = ["must_name_no_login", "open_log"]


def must_name_no_login(url: str) -> None:
    """Check that a log's URL holds no user and password; messages may then repeat it. A file may be named as it likes.

    Raises:
        ValueError: it does; the text does not repeat it.
    """
    if "@" in url and not url.startswith("sqlite:"):
        raise ValueError(
            "'@' may stand in the name of a file alone (sqlite:PATH), not in kafka://… or beside a broker; "
            "set KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"
        )


def open_log(
    url: str,
    partitions: int | None = None,
    *,
    create: bool = True,
    readonly: bool = False,
    clock: Callable[[], int] = wall_clock,
) -> MemoryLog | SqliteLog:
    """Open the log that a URL names.

    Args:
        url: `sqlite:PATH` or `memory:`.
        partitions: of each topic, except of `cluster` and `scheduling`, which have one; `None`: as the log has it, 1 in a new
            one.
        create: make the file if it is not there.
        readonly: only read.
        clock: gives the time at which something is appended (microseconds).

    Raises:
        ValueError: the URL is of no known form or holds a password, or the number of partitions is below 1.
        LogUnavailableError: the log cannot be opened, or is a Kafka log.
        LogError: as `SqliteLog` raises it.
    """
    if partitions is not None and partitions < 1:
        raise ValueError(f"a log has 1 or more partitions a topic, not {partitions}")
    must_name_no_login(url)
    scheme, colon, rest = url.partition(":")
    if colon and scheme == "sqlite" and rest:
        return SqliteLog(rest, partitions, create=create, readonly=readonly, clock=clock)
    if colon and scheme == "memory" and not rest:
        return MemoryLog(partitions or 1, clock=clock)
    if url.startswith("kafka://"):
        raise LogUnavailableError(f"{url}: a log on Kafka is opened by the command alone; use sqlite:PATH")
    raise ValueError(f"{url!r} names no log; write sqlite:PATH (a file), memory: (nothing is kept) or kafka://HOST:PORT")
