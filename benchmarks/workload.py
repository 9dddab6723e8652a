"""Synthetic pods, for measuring: their lives as a watch would show them, projected as the edge projects them.

A life has ten observations: queued, unschedulable, bound, pulling, running, ready, a heartbeat, deleting, ended, gone quiet. Seven
of them change something; three show nothing new, as in a real watch.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Final, NamedTuple

from engine.events import Event, Message, encode
from engine.events.ids import observation_id
from engine.events.inputs import PodObserved
from engine.events.times import SECOND
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.state import ShardState
from engine.log.memory import MemoryLog
from engine.log.port import ShardId
from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor
from engine.runtime.gc_control import freeze_live_objects
from statemachines.spec import Requests
from statemachines.vocabulary import AttemptPhase

BEGIN: Final = 1_700_000_000_000_000
SHARD: Final = ShardId("lifecycle", 0)

OBSERVATIONS = 10
"""Observations of one pod's life."""

_GIB = 1 << 30


class _Step(NamedTuple):
    """One observation of a life."""

    after: int
    """Since the pod's creation (microseconds)."""
    phase: AttemptPhase
    reason: str | None = None
    ready: bool = False


_STEPS = (
    _Step(0, "Pending", "Queued"),
    _Step(SECOND // 2, "Pending", "Unschedulable"),
    _Step(SECOND, "Bound", "Starting"),
    _Step(2 * SECOND, "Bound", "Starting"),
    _Step(3 * SECOND, "Running"),
    _Step(4 * SECOND, "Running", ready=True),
    _Step(5 * SECOND, "Running", ready=True),
    _Step(60 * SECOND, "Terminating"),
    _Step(61 * SECOND, "Succeeded"),
    _Step(62 * SECOND, "Succeeded"),
)


def job_name(number: int) -> str:
    """Return the id of the `number`-th job, in the form of a uid."""
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def life(job: int, replica: int, created: int, *, until: int = OBSERVATIONS) -> Iterator[Message]:
    """Yield the observations of one pod.

    Args:
        job: number of its job.
        replica: its index within the job.
        created: when it begins (microseconds).
        until: how many observations; 7 leave it running.
    """
    requests = Requests(4000, 16 * _GIB, 1)
    node = f"node-{(job * 7 + replica) % 5000:04d}"

    uid = f"{job:08x}-{replica:04x}-4000-9000-{job:012x}"
    for number, step in enumerate(_STEPS[:until], start=1):
        at = created + step.after
        pod = PodObserved(
            uid=uid,
            job=job_name(job),
            name=f"train-{job}-worker-{replica}",
            phase=step.phase,
            created=created,
            namespace="research",
            version=str(1_000_000 + number),
            kind="Job",
            owner=f"train-{job}",
            task="worker",
            index=replica,
            reason=step.reason,
            exit_code=0 if step.phase == "Succeeded" else None,
            node=None if step.phase == "Pending" else node,
            ready=step.ready,
            requests=requests,
            bound=None if step.phase == "Pending" else created + SECOND,
            running=created + 3 * SECOND if number >= 5 else None,
            terminating=created + 60 * SECOND if number >= 8 else None,
            ended=created + 61 * SECOND if number >= 9 else None,
            proof=at,
        )
        identity = observation_id(uid, f"{1_000_000 + number}", deleted=False)
        yield encode(Event(identity, "kubernetes/bench", pod.TYPE, pod.job, at, at, 0, pod.job, "", "bench", pod))


def lives(
    jobs: range, replicas: int, begin: int, *, spacing: int = 1000, first: int = 0, until: int = OBSERVATIONS
) -> Iterator[Message]:
    """Yield the lives of many pods, interleaved: the first observation of each, then the second of each, and so on.

    Args:
        jobs: numbers of the jobs.
        replicas: pods of each.
        begin: when the first pod is created (microseconds).
        spacing: between two pods' creations (microseconds).
        first: observations left out at the beginning of each life.
        until: observations of each life, counted from its beginning.
    """
    streams = [
        list(life(job, replica, begin + (number * replicas + replica) * spacing, until=until))
        for number, job in enumerate(jobs)
        for replica in range(replicas)
    ]
    for step in range(first, until):
        for stream in streams:
            yield stream[step]


def run(log: MemoryLog | SqliteLog, pauses: list[float] | None = None) -> Processor[ShardState]:
    """Process what waits in a log as `lahar run` does; note how long each step took."""
    processor = Processor(log, LifecycleStage(), 0)
    processor.open()
    with freeze_live_objects() as collector:
        while True:
            began = perf_counter()
            if not processor.step():
                return processor
            collector.tick()
            if pauses is not None:
                pauses.append(perf_counter() - began)
