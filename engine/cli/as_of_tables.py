"""The cluster at a past moment as tables: jobs, queues and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from engine.cli.output import Output
from engine.cli.render import whole_table
from engine.events.times import parse_time
from engine.formatting import amount, moment, stamp

_NONE: Final = "-"


def show_cluster(output: Output, document: Mapping[str, Any]) -> None:
    """Show jobs, queues and nodes at a moment."""
    jobs = document["jobs"]
    many = ", ".join(f"{count} {phase}" for phase, count in document["jobs_by_phase"].items()) or "no jobs"
    known = ", by what was known then" if document["by"] == "recordedtime" else ""
    output.console.print(f"as of {moment(parse_time(document['as_of']))}{known}: {many}", soft_wrap=True)
    several = len({job["cluster"] for job in jobs}) > 1
    rows = [
        (
            f"{job['cluster'] + '/' if several else ''}{job['namespace']}/{job['name']}",
            job["phase"],
            job["reason"] or _NONE,
            job["queue"],
            str(job["live"]),
            stamp(parse_time(job["since"])),
        )
        for job in jobs
    ]
    _show(output, ("JOB", "PHASE", "REASON", "QUEUE", "PODS", "SINCE"), rows, {"PODS"})
    show_queues(output, document["queues"])
    nodes = [
        (
            name,
            _NONE if node["ready"] is None else "yes" if node["ready"] else "no",
            str(node["attempts"]),
            *(_of(node["allocated"], node["capacity"], key) for key in _AMOUNTS),
        )
        for name, node in document["nodes"].items()
    ]
    _show(output, ("NODE", "READY", "PODS", "GPU", "CPU", "MEMORY"), nodes, {"PODS", "GPU", "CPU", "MEMORY"})


def show_queues(output: Output, queues: Mapping[str, Mapping[str, Any]]) -> None:
    """Show queues: their jobs, what these have, and what they wait for."""
    rows = [
        (
            name,
            ", ".join(f"{count} {phase}" for phase, count in queue["jobs_by_phase"].items()) or _NONE,
            *(_amount(queue[part], key) for part in ("allocated", "requested") for key in _AMOUNTS),
        )
        for name, queue in queues.items()
    ]
    headings = ("QUEUE", "JOBS", "GPU", "CPU", "MEMORY", "GPU WANTED", "CPU WANTED", "MEMORY WANTED")
    _show(output, headings, rows, set(headings[2:]))


_AMOUNTS: Final = {"gpu": 1000, "cpu_milli": 1, "memory_bytes": 1}
"""Amount of a document → its unit as `amount` takes it."""


def _amount(amounts: Mapping[str, int], key: str) -> str:
    return amount("memory" if key == "memory_bytes" else key, amounts[key] * _AMOUNTS[key])


def _of(allocated: Mapping[str, int], capacity: Mapping[str, int] | None, key: str) -> str:
    return f"{_amount(allocated, key)} of {_NONE if capacity is None else _amount(capacity, key)}"


def _show(output: Output, headings: Sequence[str], rows: Sequence[Sequence[str]], right: set[str]) -> None:
    if rows:
        output.console.print("", whole_table(output, headings, rows, {headings[0], "QUEUE", "REASON"}, right), soft_wrap=True)
