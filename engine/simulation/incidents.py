"""Incidents of a simulated cluster: nodes are lost, drained and restored; jobs are resized, stopped and fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal, cast, get_args

from engine.events.inputs import NodeObserved
from engine.events.times import LATEST, SECOND, Micros
from engine.simulation.cluster import SimulatedCluster
from engine.simulation.errors import RowError, TraceError
from engine.simulation.event_queue import EventQueue
from engine.simulation.traces.files import read_lines
from engine.simulation.traces.rows import Fields, csv_fields
from engine.simulation.workload import Workload

_COLUMNS: Final = ("seconds", "what", "name", "replicas")

What = Literal["lose", "drain", "restore", "resize", "stop", "fail"]
"""lose, drain and restore concern a node; resize, stop and fail concern a job."""
_OF_NODES: Final = frozenset({"lose", "drain", "restore"})


@dataclass(frozen=True, slots=True)
class Incident:
    """One row of an incidents file."""

    line: int
    after: Micros
    """Time after the first submission (microseconds)."""
    what: What
    name: str
    """Name of the node, or of the job in the trace."""
    replicas: int | None = None
    """For `resize`: new number of replicas of the job's first task. For `fail`: number of pods that fail; `None`: all."""


def read_incidents(path: Path) -> list[Incident]:
    """Read a CSV file `seconds,what,name,replicas`, plain or gzip'd.

    Raises:
        TraceError: the file cannot be read, has another header, or has an invalid row; the message names the line.
    """
    found = []
    try:
        for fields in csv_fields(read_lines(path), "incidents", _COLUMNS):
            try:
                found.append(_incident(fields))
            except RowError as error:
                raise TraceError(f"line {fields.line}: {error}") from None
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None
    return found


def _incident(fields: Fields) -> Incident:
    what = fields.text("what")
    if what not in get_args(What):
        raise RowError(f"what is none of {', '.join(get_args(What))}: {what[:40]!r}")
    counted = what == "resize" or (what == "fail" and fields.text("replicas"))
    replicas = fields.count("replicas", least=1) if counted else None
    return Incident(fields.line, fields.seconds("seconds"), cast("What", what), fields.key("name"), replicas)


def arrange(
    incidents: Iterable[Incident],
    event_queue: EventQueue,
    cluster: SimulatedCluster,
    nodes: Sequence[NodeObserved],
    workload: Workload,
) -> None:
    """Schedule incidents in the event queue of a cluster.

    Raises:
        TraceError: an incident names an unknown node or job, precedes the submission of its job, or comes after the year 9999.
    """
    by_name = {node.name: node for node in nodes}
    ids = {job.row.name: job for job in workload.jobs}
    for incident in incidents:
        known = by_name if incident.what in _OF_NODES else ids
        if incident.name not in known:
            kind = "node" if known is by_name else "job"
            raise TraceError(f"incidents: line {incident.line}: the simulation has no {kind} {incident.name!r}")
        time = workload.start + incident.after
        if time > LATEST:
            raise TraceError(f"incidents: line {incident.line}: {incident.what} {incident.name} comes after the year 9999")
        if known is ids and time < (submit := ids[incident.name].submit):
            least = -((workload.start - submit) // SECOND)
            raise TraceError(
                f"incidents: line {incident.line}: {incident.what} {incident.name} comes before the job is submitted; "
                f"its seconds are {least:,} or more"
            )
        match incident.what:
            case "lose":
                event_queue.at(time, partial(cluster.lose_node, incident.name))
            case "drain":
                event_queue.at(time, partial(cluster.drain_node, incident.name))
            case "restore":
                event_queue.at(time, partial(cluster.add_node, by_name[incident.name]))
            case "stop":
                event_queue.at(time, partial(cluster.stop_job, ids[incident.name]))
            case "fail":
                event_queue.at(time, partial(cluster.fail_job, ids[incident.name].id, incident.replicas))
            case "resize":
                job = ids[incident.name]
                event_queue.at(time, partial(cluster.resize_job, job, job.tasks()[0][0], incident.replicas or 1))
