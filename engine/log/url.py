"""Log URLs, as `--log` and `LAHAR_LOG` accept them."""

from __future__ import annotations

from collections.abc import Callable

from engine.log.errors import LogUnavailableError
from engine.log.memory import MemoryLog
from engine.log.producer_time import wall_clock
from engine.log.sqlite import SqliteLog


def must_name_no_login(url: str) -> None:
    """Check that a log URL has no user and password, because messages repeat the URL. Paths of files may contain `@`.

    Raises:
        ValueError: the URL has a login; the message does not repeat it.
    """
    if "@" in url and not url.startswith("sqlite:"):
        raise ValueError(
            "'@' is allowed in a file path (sqlite:PATH), not in kafka://… or a broker's address; "
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
    """Open the log at a URL.

    Args:
        url: `sqlite:PATH` or `memory:`.
        partitions: partitions per topic; topics in `SINGLE_TOPICS` have one. `None`: the number in the log, 1 in a new one.
        create: create the file if it does not exist.
        readonly: open for reading only.
        clock: returns the append time (microseconds).

    Raises:
        ValueError: the URL has an unknown form or a login, or the number of partitions is below 1.
        LogUnavailableError: the log cannot be opened, or is a Kafka log.
        LogError: the errors of `SqliteLog`.
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
