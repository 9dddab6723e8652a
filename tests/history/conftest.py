"""Stories told by hand: job events as the lifecycle stage writes them, with times in whole seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import pytest

from engine.events import Data, Event
from engine.events.actions import ActionTaken, EventRaised
from engine.events.attempts import AttemptBound, AttemptEnded, AttemptRunning, AttemptStarted, AttemptTerminating
from engine.events.ids import output_id
from engine.events.inputs import PodObserved
from engine.events.jobs import JobOpened, JobPhaseChanged, TaskPhaseChanged
from engine.events.times import SECOND
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor
from engine.simulation.traces import sample_trace
from engine.simulation.traces.facts import Facts
from engine.simulation.traces.files import read_lines
from engine.simulation.traces.importing import FORMATS
from engine.simulation.traces.rows import read_rows
from statemachines.spec import JobSpec, Requests, TaskSpec

Slot = tuple[str, int, int]


class Story:
    """The events of one job. `time` is when a thing happened, `known` when it was recorded; both default to the last `known`."""

    def __init__(self, job: str = "6f1c0d7e-0000-5000-8000-000000000001", cluster: str = "seren") -> None:
        self.job = job
        self.cluster = cluster
        self.events: list[Event[Data]] = []
        self.known = 0
        self.phase = "Pending"
        self.task_phases: dict[str, str] = {}
        self.attempts: dict[Slot, dict[str, Any]] = {}

    def add(self, data: Data, time: int | None = None, known: int | None = None, cause: str = "") -> Event[Data]:
        """Append an event; the recorded time is at least its time and never falls."""
        self.known = max(self.known, time or 0) if known is None else known
        number = len(self.events) + 1
        event: Event[Data] = Event(
            id=output_id("lifecycle", self.job, number),
            source="lahar/lifecycle",
            type=data.TYPE,
            subject=self.job,
            time=(self.known if time is None else time) * SECOND,
            recordedtime=self.known * SECOND,
            sequence=number,
            correlationid=self.job,
            causationid=cause,
            clusterid=self.cluster,
            data=data,
        )
        self.events.append(event)
        return event

    def opened(self, time: int, tasks: dict[str, int] | None = None, queue: str = "default", **given: Any) -> Event[Data]:
        sizes = tasks or {"main": 1}
        spec = JobSpec(queue=queue, tasks=tuple(TaskSpec(name, replicas) for name, replicas in sizes.items()))
        self.task_phases = dict.fromkeys(sizes, "Pending")
        known, cause = given.pop("known", None), given.pop("cause", "")
        values = {"kind": "VCJob", "name": "train", "managed": False, "spec": spec, "tenant": "default"} | given
        return self.add(JobOpened(**values), time, known, cause)

    def job_phase(self, phase: Any, time: int, **given: Any) -> Event[Data]:
        known, cause = given.pop("known", None), given.pop("cause", "")
        previous, self.phase = self.phase, phase
        return self.add(JobPhaseChanged(phase=phase, previous=previous, **given), time, known, cause)  # type: ignore[arg-type]

    def task_phase(self, task: str, phase: Any, time: int, **given: Any) -> Event[Data]:
        known, cause = given.pop("known", None), given.pop("cause", "")
        previous, self.task_phases[task] = self.task_phases[task], phase
        return self.add(TaskPhaseChanged(task=task, phase=phase, previous=previous, **given), time, known, cause)  # type: ignore[arg-type]

    def started(self, time: int, slot: Slot = ("main", 0, 1), requests: Requests | None = None, **given: Any) -> Event[Data]:
        known, cause = given.pop("known", None), given.pop("cause", "")
        asked = requests or Requests(gpu=1)
        self.attempts[slot] = {"phase": "Pending", "requests": asked, "started": None}
        pod = f"train-{slot[0]}-{slot[1]}"
        return self.add(
            AttemptStarted(*slot, uid=f"uid-{slot[0]}-{slot[1]}-{slot[2]}", pod=pod, requests=asked, **given), time, known, cause
        )

    def bound(self, time: int, slot: Slot = ("main", 0, 1), node: str = "node-1", **given: Any) -> Event[Data]:
        known, cause = given.pop("known", None), given.pop("cause", "")
        return self.add(AttemptBound(*slot, node=node, previous=self._move(slot, "Bound"), **given), time, known, cause)

    def running(self, time: int, slot: Slot = ("main", 0, 1), **given: Any) -> Event[Data]:
        known, cause = given.pop("known", None), given.pop("cause", "")
        self.attempts[slot]["started"] = time * SECOND
        return self.add(AttemptRunning(*slot, previous=self._move(slot, "Running"), **given), time, known, cause)

    def terminating(self, time: int, slot: Slot = ("main", 0, 1), **given: Any) -> Event[Data]:
        known, cause = given.pop("known", None), given.pop("cause", "")
        return self.add(AttemptTerminating(*slot, previous=self._move(slot, "Terminating"), **given), time, known, cause)

    def ended(self, time: int, slot: Slot = ("main", 0, 1), phase: Any = "Succeeded", **given: Any) -> Event[Data]:
        known, cause = given.pop("known", None), given.pop("cause", "")
        attempt = self.attempts[slot]
        began = attempt["started"]
        data = AttemptEnded(
            *slot,
            phase=phase,
            previous=self._move(slot, phase),
            started=began,
            ran=0 if began is None else time * SECOND - began,
            requests=attempt["requests"],
            **given,
        )
        return self.add(data, time, known, cause)

    def _move(self, slot: Slot, phase: str) -> Any:
        before = self.attempts[slot]["phase"]
        self.attempts[slot]["phase"] = phase
        return before


@pytest.fixture(scope="session")
def story() -> Callable[..., Story]:
    return Story


def finished(job: str, submit: int, wait: int, run: int, requests: Iterable[Requests], **given: Any) -> Story:
    """A job whose pods start and end together."""
    told = Story(job)
    phase, end = given.pop("phase", "Completed"), given.pop("end", ("Succeeded", None))
    pods = list(requests)
    told.opened(submit, {"main": len(pods)}, **given)
    for index, asked in enumerate(pods):
        told.started(submit, ("main", index, 1), asked)
    for index in range(len(pods)):
        told.running(submit + wait, ("main", index, 1))
    told.job_phase("Running", submit + wait)
    for index in range(len(pods)):
        told.ended(submit + wait + run, ("main", index, 1), end[0], reason=end[1])
    told.job_phase(phase, submit + wait + run)
    return told


@pytest.fixture(scope="session")
def whole() -> Callable[..., Story]:
    return finished


def restarted_training() -> Story:
    """A ps/worker training whose second worker is OOM-killed, restarted by policy, and then completes."""
    told = Story()
    told.opened(0, {"ps": 1, "worker": 2}, name="bert", queue="research", managed=True, user="ann", cause="submission")
    ps, first, second, again = ("ps", 0, 1), ("worker", 0, 1), ("worker", 1, 1), ("worker", 1, 2)
    for slot in (ps, first, second):
        told.started(0, slot)
    for number, slot in enumerate((ps, first, second)):
        told.bound(20, slot, node=f"node-{number}")
    for slot in (ps, first, second):
        told.running(30, slot)
    told.job_phase("Running", 30)
    for task in ("ps", "worker"):
        told.task_phase(task, "Running", 30)
    killed = told.ended(300, second, "Failed", reason="OomKilled", exit_code=137, node="node-2", cause="observation")
    raised = told.add(EventRaised("PodFailed", task="worker", index=1, attempt=1, exit_code=137), cause=killed.id)
    policy = "spec.tasks[1].policies[0]"
    taken = told.add(ActionTaken("RestartTask", policy=policy, event="PodFailed", task="worker", index=1), cause=raised.id)
    told.task_phase("worker", "Restarting", 300)
    told.started(302, again, cause=taken.id)
    told.bound(310, again, node="node-3")
    told.running(320, again)
    told.task_phase("worker", "Running", 320)
    for slot in (first, again, ps):
        last = told.ended(1000, slot, exit_code=0)
    for task in ("worker", "ps"):
        told.task_phase(task, "Completed", 1000)
    told.job_phase("Completed", 1000, cause=last.id)
    return told


@pytest.fixture(scope="session")
def training() -> Story:
    return restarted_training()


@pytest.fixture
def played() -> Callable[..., MemoryLog]:
    """A log on which the lifecycle stage has processed the first rows of the sample trace."""

    def play(rows: int = 60, partitions: int = 1) -> MemoryLog:
        log = MemoryLog(partitions)
        with sample_trace() as path:
            found = list(islice(read_rows(FORMATS["philly-status"]({}), read_lines(path)), rows))
        for message in Facts(found, "philly-status", "philly"):
            log.append("pods" if message.type == PodObserved.TYPE else "jobs", [message])
        process(log)
        return log

    return play


def process(log: Any) -> None:
    """Let the lifecycle stage take what waits, on every shard."""
    for number in range(log.partitions("job-events")):
        processor = Processor(log, LifecycleStage(), number)
        processor.open()
        processor.run_until_quiet()
        processor.close()


@pytest.fixture(scope="session", name="process")
def process_fixture() -> Callable[[Any], None]:
    return process
