"""Import of a whole trace: every fact becomes an input of the log, through the same edge as live ones."""

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

__all__ = ["FORMATS", "ImportReport", "import_rows", "import_trace", "must_be_format", "read_trace"]

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
    """What an import appended."""

    rows: int
    """Rows of the file, rejected ones included; blank lines and headers are none."""
    facts: int
    """Inputs appended, those for rejected rows included."""
    rejected: int
    """Rows that make no sense; each is an input of its own."""


def import_trace(
    log: Log, path: Path, source_format: str, cluster: str, on_progress: Callable[[int, int], None] | None = None
) -> ImportReport:
    """Append every fact of a trace to the log, in order of (time, row).

    Job facts go to `jobs`, pod facts to `pods`, a batch of both at a time and jobs first, so that beside a running engine
    a pod seldom comes before its job. Importing twice is harmless: the ids are the same, each fact is then a duplicate. The file is
    read whole before anything is appended.

    Args:
        log: where to append; nothing is processed.
        path: the file, plain or gzip'd.
        source_format: a key of `FORMATS`.
        cluster: name of the cluster, part of all ids (`cluster_of(path)` is the usual one).
        on_progress: called with (facts appended, facts in all) after each batch.

    Raises:
        TraceError: the format is unknown, or the file is missing, unreadable or of another format; nothing was appended.
        LogUnavailableError: the log cannot be written; import again to complete it.
    """
    return import_rows(log, read_trace(path, source_format), source_format, cluster, on_progress)


def must_be_format(name: str) -> None:
    """Check the name of a format.

    Raises:
        TraceError: there is no such format.
    """
    if name not in FORMATS:
        raise TraceError(f"unknown trace format {name!r}; known are {', '.join(FORMATS)}{hint(name, FORMATS)}")


def read_trace(path: Path, source_format: str, columns: Mapping[str, str] = MappingProxyType({})) -> list[TraceRow | BadRow]:
    """Read a trace whole.

    Args:
        path: the file, plain or gzip'd.
        source_format: a key of `FORMATS`.
        columns: column of the format → its name in the file, where they differ.

    Raises:
        TraceError: the format or one of its columns is unknown, or the file is missing, unreadable, too large or of another format.
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
    """Append every fact of a trace that was read; see `import_trace`.

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
