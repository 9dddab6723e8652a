"""Inputs from the rows of a trace, in time order.

A row yields up to five kinds of facts: its job is submitted; each pod waits, runs, ends; the job ends. `recordedtime` is the time
in the trace. Facts are generated from the rows one by one, which keeps memory small for traces of 100,000 rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final
from uuid import UUID, uuid5

from engine.events import Data, Event, Message, encode
from engine.events.ids import import_id, imported_job_id
from engine.events.inputs import JobObserved, PodObserved, RowUnreadable
from engine.simulation.traces.rows import BadRow, TraceRow
from statemachines.vocabulary import AttemptPhase

TASK: Final = "main"
KIND: Final = "Trace"


class _Step(IntEnum):
    """Kinds of facts, in their order at the same time in a run."""

    SUBMITTED = 0
    WAITING = 1
    RUNNING = 2
    ENDED = 3
    FINISHED = 4


_Place = tuple[int, int, int, int, int]
"""Sort key of a fact: time, row number, run number, step, pod number.

A run ends before the next one waits or runs at the same time, because they share slots. Pod numbers begin with the last run, run
numbers with the first one.
"""


class Facts:
    """Facts of one trace, in order of time and row.

    Args:
        rows: rows in file order.
        source_format: name of the format; part of every id.
        cluster: name of the cluster; part of every id.
    """

    def __init__(self, rows: Sequence[TraceRow | BadRow], source_format: str, cluster: str) -> None:
        self._rows = rows
        self._format = source_format
        self._cluster = cluster
        self._places = sorted(place for number, row in enumerate(rows) for place in _places(number, row))

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Message]:
        for time, number, _, step, pod in self._places:
            row = self._rows[number]
            yield self._rejected(row) if isinstance(row, BadRow) else self._fact(row, time, _Step(step), pod)

    def _rejected(self, row: BadRow) -> Message:
        data = RowUnreadable(format=self._format, line=row.line, reason=row.reason)
        return self._message(f"line {row.line}", "rejected", self._cluster, row.time, data)

    def _fact(self, row: TraceRow, time: int, step: _Step, pod: int) -> Message:
        job = imported_job_id(self._cluster, self._format, row.key)
        if step in {_Step.SUBMITTED, _Step.FINISHED}:
            return self._message(row.key, step.name.lower(), job, time, _job(row, finished=step is _Step.FINISHED))
        return self._message(row.key, f"pod {pod} {step.name.lower()}", job, time, _pod(row, job, step, pod))

    def _message(self, key: str, fact: str, subject: str, time: int, data: Data) -> Message:
        return encode(
            Event(
                id=import_id(self._cluster, self._format, key, fact),
                source=f"import/{self._format}/{self._cluster}",
                type=data.TYPE,
                subject=subject,
                time=time,
                recordedtime=time,
                sequence=0,
                correlationid=subject,
                causationid="",
                clusterid=self._cluster,
                data=data,
            )
        )


def _places(number: int, row: TraceRow | BadRow) -> Iterator[_Place]:
    if isinstance(row, BadRow):
        yield row.time, number, 0, 0, 0
        return
    last = len(row.earlier) + 1
    yield row.submit, number, 0, _Step.SUBMITTED, 0
    for run in range(last):
        turn = run or last
        created, start, end = _run(row, run)
        for pod in range(run * len(row.pods), (run + 1) * len(row.pods)):
            if start != created:
                yield created, number, turn, _Step.WAITING, pod
            # A pod that starts and ends at the same time yields one fact: ended, with both times.
            if start is not None and start != end:
                yield start, number, turn, _Step.RUNNING, pod
            yield end, number, turn, _Step.ENDED, pod
    yield row.end, number, last, _Step.FINISHED, 0


def _run(row: TraceRow, run: int) -> tuple[int, int | None, int]:
    """Return when the pods of a run were requested, started and ended. Run 0 is the last run; earlier runs count from 1."""
    if run:
        return (row.earlier[run - 2][1] if run > 1 else row.submit, *row.earlier[run - 1])
    return (row.earlier[-1][1] if row.earlier else row.submit), row.start, row.end


def _job(row: TraceRow, *, finished: bool) -> JobObserved:
    return JobObserved(
        name=row.name,
        kind=KIND,
        phase=row.phase if finished else None,
        reason=row.reason if finished else None,
        created=row.submit,
        ended=row.end if finished else None,
        queue=row.queue,
        user=row.user or None,
        tenant=row.tenant or None,
        min_available=len(row.pods),
        tasks={TASK: len(row.pods)},
        without_end=finished and row.without_end,
    )


def _pod(row: TraceRow, job: str, step: _Step, pod: int) -> PodObserved:
    phase: AttemptPhase = "Pending" if step is _Step.WAITING else "Running"
    reason = None
    run, index = divmod(pod, len(row.pods))
    created, start, end = _run(row, run)
    if step is _Step.ENDED:
        phase, reason = ("Lost", "ExitUnknown") if run else _end(row)
    return PodObserved(
        uid=str(uuid5(UUID(job), f"{TASK}/{pod}")),
        job=job,
        name=f"{row.name}-{TASK}-{index}",
        phase=phase,
        reason=reason,
        created=created,
        kind=KIND,
        owner=row.name,
        task=TASK,
        index=index,
        requests=row.pods[index],
        # A start time in a trace is the time at which the scheduler bound the pod.
        bound=None if step is _Step.WAITING else start,
        running=None if step is _Step.WAITING else start,
        ended=end if step is _Step.ENDED else None,
        rank="inferred" if row.without_end else "scheduler",
        queue=row.queue,
        user=row.user or None,
        tenant=row.tenant or None,
    )


def _end(row: TraceRow) -> tuple[AttemptPhase, str | None]:
    if row.start is None:
        return "Failed", "NeverStarted"
    if row.without_end:
        return "Lost", "EndUnknown"
    if row.exit_unknown:
        return "Lost", "ExitUnknown"
    if row.phase == "Completed":
        return "Succeeded", None
    return "Failed", "AppFailed" if row.phase == "Failed" else "StoppedByUser"
