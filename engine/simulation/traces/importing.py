"""Import of a trace: every fact becomes an input of the log, validated like live inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

from engine.events import Message
from engine.events.bounds import TRACE_PODS, TRACE_ROWS
from engine.events.inputs import PodObserved
from engine.log.port import Log
from engine.simulation.errors import TraceError
from engine.simulation.traces.facts import Facts
from engine.simulation.traces.files import read_lines
from engine.simulation.traces.openb import Openb
from engine.simulation.traces.philly import Philly
from engine.simulation.traces.philly_status import PhillyStatus
from engine.simulation.traces.rows import BadRow, TraceFormat, TraceRow, read_rows
from engine.simulation.traces.swf import Swf
from statemachines.names import hint

FORMATS: Final[dict[str, Callable[[Mapping[str, str]], TraceFormat]]] = {
    "openb": Openb,
    "philly": Philly,
    "philly-status": PhillyStatus,
    "swf": Swf,
}
"""Known formats by name."""

_BATCH: Final = 4_000


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Counts of an import."""

    rows: int
    """Rows in the file, including rejected ones; blank lines and headers do not count."""
    facts: int
    """Inputs appended, including those for rejected rows."""
    rejected: int
    """Invalid rows; each is appended as an input of its own."""


def import_trace(
    log: Log, path: Path, source_format: str, cluster: str, on_progress: Callable[[int, int], None] | None = None
) -> ImportReport:
    """Append every fact of a trace to the log, in order of time and row.

    Job facts go to `jobs`, pod facts to `pods`, in batches with jobs first, so that beside a running engine a pod rarely precedes
    its job. Importing twice is harmless: the ids are equal, so the second import yields duplicates. The whole file is read before
    the first append.

    Args:
        log: log to append to; nothing is processed.
        path: trace file, plain or gzip'd.
        source_format: a key of `FORMATS`.
        cluster: name of the cluster, part of all ids (usually `cluster_of(path)`).
        on_progress: called with (facts appended, total facts) after each batch.

    Raises:
        TraceError: the format is unknown, or the file is missing, unreadable or of another format; nothing was appended.
        LogUnavailableError: the log cannot be written; import again to complete it.
    """
    return import_rows(log, read_trace(path, source_format), source_format, cluster, on_progress)


def must_be_format(name: str) -> None:
    """Check the name of a format.

    Raises:
        TraceError: the format is unknown.
    """
    if name not in FORMATS:
        raise TraceError(f"unknown trace format {name!r}; known are {', '.join(FORMATS)}{hint(name, FORMATS)}")


def read_trace(path: Path, source_format: str, columns: Mapping[str, str] = MappingProxyType({})) -> list[TraceRow | BadRow]:
    """Read all rows of a trace.

    Args:
        path: trace file, plain or gzip'd.
        source_format: a key of `FORMATS`.
        columns: name in the file by column of the format, where they differ.

    Raises:
        TraceError: the format or a column is unknown, or the file is missing, unreadable, too large or of another format.
    """
    must_be_format(source_format)
    try:
        return list(_bounded(read_rows(FORMATS[source_format](columns), read_lines(path))))
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def _bounded(rows: Iterator[TraceRow | BadRow]) -> Iterator[TraceRow | BadRow]:
    pods = 0
    for number, row in enumerate(rows, start=1):
        pods += len(row.pods) if isinstance(row, TraceRow) else 0
        if number > TRACE_ROWS or pods > TRACE_PODS:
            raise TraceError(f"line {row.line}: more than {TRACE_ROWS:,} rows or {TRACE_PODS:,} pods; split the file")
        yield row


def import_rows(
    log: Log,
    rows: Sequence[TraceRow | BadRow],
    source_format: str,
    cluster: str,
    on_progress: Callable[[int, int], None] | None = None,
) -> ImportReport:
    """Append every fact of the given rows; see `import_trace`.

    Raises:
        LogUnavailableError: the log cannot be written; import again to complete it.
    """
    facts = Facts(rows, source_format, cluster)
    done = 0
    for batch in _batches(iter(facts)):
        pods = [message for message in batch if message.type == PodObserved.TYPE]
        jobs = [message for message in batch if message.type != PodObserved.TYPE]
        if jobs:
            log.append("jobs", jobs)
        if pods:
            log.append("pods", pods)
        done += len(batch)
        if on_progress is not None:
            on_progress(done, len(facts))
    return ImportReport(rows=len(rows), facts=done, rejected=sum(isinstance(row, BadRow) for row in rows))


def _batches(messages: Iterator[Message]) -> Iterator[list[Message]]:
    while batch := list(islice(messages, _BATCH)):
        yield batch
