"""Results of a simulation: JSON document, CSV of jobs, HTML report."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from engine.events import Event, decode
from engine.events.inputs import ObjectApplied
from engine.events.scheduling import JobExplained
from engine.events.times import SECOND, Micros, format_time
from engine.exact_numbers import distribution, seconds
from engine.history.reading import cluster_facts
from engine.history.resource_use import Use
from engine.history.waiting import Waiting
from engine.log.port import Searchable
from engine.simulation.figures import Figures, figures_of, machines_of
from engine.simulation.page import page
from engine.simulation.plots import Bar
from engine.simulation.results_fold import ResultsFold
from engine.simulation.workload import PlannedJob, Workload

_BUSIEST: Final = 6
"""Number of nodes whose pods are plotted."""
_UNEXPLAINED: Final = "no stage has written down why"
_UNSUBMITTED: Final = "the simulation ended before its submission"
_COLUMNS: Final = (
    "job", "name", "line", "queue", "user", "pods", "gpus", "phase", "submitted", "started", "ended",
    "wait_seconds", "run_seconds", "attempts", "preempted",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Results:
    """Results of a simulation."""

    document: dict[str, Any]
    """Results for JSON; seconds are exact decimals, shares have six decimals."""
    figures: Figures
    jobs: list[tuple[object, ...]]
    """One row per job, in order of submission."""
    busiest: dict[str, tuple[int, list[Bar]]]

    def table(self) -> str:
        """Return the jobs as CSV."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows(self.jobs)
        return text.getvalue()

    def page(self, title: str) -> str:
        """Return the report as an HTML page."""
        return page(title, self.document, self.figures, self.busiest)


def results_of(
    log: Searchable, results: ResultsFold, workload: Workload, end: Micros, livelock: Mapping[str, int], obstacle: str = ""
) -> Results:
    """Return the results of a finished simulation.

    Args:
        log: log of the simulation.
        results: fold of all job events.
        workload: simulated jobs.
        end: time of the last event in the cluster (microseconds).
        livelock: stops by job id, if a livelock ended the simulation (`Livelock`); otherwise empty.
        obstacle: reason why no pod can get a node under this scheduler configuration; empty if they can.
    """
    begin = workload.start
    facts = [event for event in cluster_facts(log) if event.recordedtime <= end]
    machines = list(machines_of(((event.recordedtime, event.data) for event in facts), end))
    weights = dict(_weights(facts))
    sizes = Counter(pod.gpu for job in workload.jobs for pod in job.row.pods if pod.gpu)
    figures = figures_of(results.placements, results.jobs.values(), machines, sizes, weights, (begin, end))
    preempted = Counter(placement.job for placement in results.placements if placement.preempted)
    waiting = _waiting(log, results, workload, livelock, obstacle or _UNEXPLAINED)
    summary = results.result()
    present = {machine.name: machine.gpu for machine in machines}
    rejected = [(job, results.rejections[job.id]) for job in workload.jobs if job.id in results.rejections]
    document = {
        "begin": format_time(begin),
        "end": format_time(end),
        "simulated_seconds": seconds(end - begin),
        "totals": {
            "jobs": len(workload.jobs),
            "finished": sum(job.ended is not None for job in results.jobs.values()),
            "rejected": len(rejected),
            "waiting": len(waiting),
            "nodes": len(present),
            "gpus": sum(present.values()),
            "preemptions": preempted.total(),
        },
        "left_out": _first([(row.line, row.reason) for row in workload.left_out]),
        "rejected": _first([(job.row.line, fault) for job, fault in rejected]),
        "means": {
            "utilisation": figures.mean_utilisation,
            "imbalance": figures.mean_imbalance,
            "fragmentation": figures.mean_fragmentation,
            "fairness": figures.mean_fairness,
        },
        "gpu_seconds_held": figures.gpu_seconds_held,
        "gpu_seconds_lost": figures.gpu_seconds_lost,
        "summary": summary,
        "queues": _queues(results, workload, weights),
        "livelock": dict(livelock),
        "waiting": waiting,
        "series": {name: value for name, value in asdict(figures).items() if isinstance(value, list | dict)},
    }
    rows = [_row(job, results, preempted[job.id]) for job in workload.jobs]
    return Results(document, figures, rows, _busiest(results, present, begin, end))


def _first(faults: Sequence[tuple[int, str]]) -> dict[str, Any]:
    """Return the number of faulty rows, and line and reason of the first one."""
    line, reason = faults[0] if faults else (None, None)
    return {"rows": len(faults), "line": line, "reason": reason}


def _weights(facts: Sequence[Event[Any]]) -> Iterator[tuple[str, float]]:
    """Yield queue weights in order of application; the last one of a queue is valid."""
    for event in facts:
        if isinstance(event.data, ObjectApplied) and event.data.kind == "Queue":
            yield event.data.name, float(event.data.spec.get("weight", 1))


def _waiting(
    log: Searchable, results: ResultsFold, workload: Workload, livelock: Mapping[str, int], otherwise: str
) -> list[dict[str, Any]]:
    """Return the jobs that neither ended nor were rejected, with their pending reasons; `otherwise` if no stage recorded one."""
    over = {ident for ident, job in results.jobs.items() if job.ended is not None}
    left = {job.id: job for job in workload.jobs if job.id not in over and job.id not in results.rejections}
    explained: dict[str, Event[JobExplained]] = {}
    for record in log.scan(("scheduling",), {JobExplained.TYPE}) if left else ():
        if record.message.subject in left:
            explained[record.message.subject] = decode(record.message)  # type: ignore[assignment]  # of that type only
    found = []
    for ident, job in left.items():
        reason, line = explained.get(ident), results.jobs.get(ident)
        if line is None:
            why = _UNSUBMITTED
        elif ident in livelock:
            why = f"it was stopped for others {livelock[ident]} times, and no pod got further meanwhile"
        else:
            why = otherwise if reason is None or not reason.data.reason else Waiting(reason, {}).sentences()[0]
        place = {"job": ident, "name": job.row.name, "line": job.row.line, "queue": job.row.queue, "gpus": job.gpus}
        phase = None if line is None else line.phase
        found.append({**place, "phase": phase, "reason": reason.data.reason if reason else None, "why": why})
    return found


def _queues(results: ResultsFold, workload: Workload, weights: Mapping[str, float]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    planned = Counter(job.row.queue for job in workload.jobs)
    for name in workload.queues:
        jobs = [job for job in results.jobs.values() if job.queue == name]
        waits = [job.first_running - job.submitted for job in jobs if job.first_running is not None]
        use = Use()
        for job in jobs:
            use.add(job.use)
        found[name] = {
            "weight": weights.get(name, 1.0),
            "jobs": planned[name],  # includes rejected and unsubmitted jobs, like the totals
            "wait_seconds": distribution(waits),
            "gpu_seconds": use.result()["gpu_seconds"],
        }
    return found


def _row(plan: PlannedJob, results: ResultsFold, preempted: int) -> tuple[object, ...]:
    row, job = plan.row, results.jobs.get(plan.id)
    known = (plan.id, row.name, row.line, row.queue, row.user, len(row.pods), plan.gpus)
    if job is None:
        phase = "Rejected" if plan.id in results.rejections else "Unsubmitted"
        return (*known, phase, format_time(plan.submit), "", "", "", "", 0, 0)
    began, ended = job.first_running, job.ended
    wait = "" if began is None else seconds(began - job.submitted)
    run = "" if began is None or job.last_end is None or ended is None else seconds(job.last_end - began)
    times = (format_time(job.submitted), "" if began is None else format_time(began), "" if ended is None else format_time(ended))
    return (*known, job.phase, *times, wait, run, job.attempts, preempted)


def _busiest(results: ResultsFold, present: Mapping[str, int], begin: Micros, end: Micros) -> dict[str, tuple[int, list[Bar]]]:
    """Return the nodes with the most GPU time, with their pods."""
    held: Counter[str] = Counter()
    for placement in results.placements:
        held[placement.node] += placement.gpu * ((end if placement.end is None else placement.end) - placement.bound)
    names = sorted((name for name in held if held[name]), key=lambda name: (-held[name], name))[:_BUSIEST]
    found: dict[str, tuple[int, list[Bar]]] = {name: (present[name], []) for name in names}
    for placement in results.placements:
        if placement.node in found:
            until = (end if placement.end is None else placement.end) - begin
            label = f"{results.jobs[placement.job].name}, queue {placement.queue}, {placement.gpu} GPUs"
            bar = Bar((placement.bound - begin) / SECOND, until / SECOND, placement.gpu, label, placement.queue)
            found[placement.node][1].append(bar)
    return found
