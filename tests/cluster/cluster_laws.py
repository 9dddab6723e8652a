"""What must hold of every run, whatever happened in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from api_server import Object, uid_of
from engine_shard import Taking
from simulated_time import SECOND
from simulated_world import World

from engine.events import Data, Event
from engine.events.actions import EffectRequested
from engine.events.attempts import AttemptEnded, AttemptLateFact, AttemptObjectChanged
from engine.events.inputs import EffectReported, PodDeleted, PodObserved
from engine.events.outcomes import Anomaly, JobParked
from engine.events.times import parse_time
from engine.lifecycle.job import Attempt, Job
from statemachines.vocabulary import FINISHED_JOB_PHASES

_TERMINAL = frozenset({"Succeeded", "Failed"})


class Names:
    """No pod is asked for while the engine knows of an object with its name that it has not seen go.

    A second pod that a repeated request made of an attempt (an anomaly) is left out: the engine asks for its deletion, and for its
    own pod again when it hears AlreadyExists. The same holds for the pod of an old request that was executed late.
    """

    def __init__(self, world: World) -> None:
        self._standing: dict[str, set[str]] = defaultdict(set)
        self._asked: set[tuple[str | None, int | None]] = set()
        world.listeners.append(self)

    def __call__(self, taking: Taking) -> None:
        """Follow what the engine sees, and judge what it asks for."""
        data = taking.input.data if taking.input is not None else None
        if isinstance(data, PodObserved) and not any(isinstance(event.data, Anomaly) for event in taking.made):
            self._standing[data.name].add(data.uid)
        elif isinstance(data, PodDeleted):
            self._standing[data.last.name].discard(data.last.uid)
        for event in taking.made:
            made = event.data
            if _gives_up(taking, made):
                self._standing.clear()
            elif isinstance(made, EffectRequested) and made.effect == "create_pod" and (made.pod, made.attempt) not in self._asked:
                self._asked.add((made.pod, made.attempt))
                assert not self._standing[made.pod or ""], f"{made} while {self._standing[made.pod or '']} stand"


def _gives_up(taking: Taking, made: Data) -> bool:
    """Tell whether an event says that an object counts as gone that nobody saw go: after a time-out, or by the server's word."""
    if isinstance(made, AttemptObjectChanged):
        return made.object == "gone" and bool(made.why)
    unseen = taking.input is None or isinstance(taking.input.data, EffectReported)
    return isinstance(made, AttemptEnded) and made.object == "gone" and unseen


def check_rest(world: World) -> None:
    """Check what must hold when everything has come to rest."""
    assert not any(isinstance(event.data, JobParked) for event in world.engine.events), "a job is parked"
    jobs = [world.engine.job(ident) for ident in world.job_ids]
    for job in jobs:
        assert not unfinished(world, job), (job.id, job.phase, unfinished(world, job))
    _same_pods_live(world, jobs)
    for job in jobs:
        for attempt in job.attempts:
            _times_are_true(world, attempt)


# --- every job ends, or says what it waits for -----------------------------------------------------------------------------


def unfinished(world: World, job: Job) -> str | None:
    """Say what is wrong with a job that has not ended; `None`: it has, or it waits for something that others hold."""
    if job.phase in FINISHED_JOB_PHASES or job.phase == "Aborted" or next(_holds(world, job), None) is not None:
        return None
    return f"it is {job.phase} and nothing holds it: {job.counts}"


def _holds(world: World, job: Job) -> Iterator[str]:
    """Yield what a job may wait for, computed from the cluster alone."""
    for pod in _pods_of(world, job):
        node = world.cluster.nodes.get(pod["spec"].get("nodeName", ""))
        if pod["metadata"].get("finalizers") and "deletionTimestamp" in pod["metadata"]:
            yield "a finalizer"
        if node is not None and node.silent:
            yield "a silent node"
        if node is None and not any(world.cluster.takes(name) for name in world.cluster.nodes):
            yield "no node takes pods"
    if job.spec.total_replicas == 0:
        yield "the job has no replicas"
    for task in job.spec.tasks:
        # Volcano: a task whose dependencies are not ready gets no pods, and the job waits for them.
        for other in (one for one in job.spec.tasks if task.depends_on is not None and one.name in task.depends_on.names):
            if job.tasks[other.name].ready < (other.min_available or 0):
                yield f"task {task.name} waits for task {other.name}"


def _pods_of(world: World, job: Job) -> list[Object]:
    return [pod for pod in world.cluster.pods() if pod["metadata"]["annotations"]["lahar/job"] == job.id]


# --- the engine and the cluster agree ----------------------------------------------------------------------------------------


def _same_pods_live(world: World, jobs: list[Job]) -> None:
    """At rest the same pods are live in both; and a job that is over leaves nothing alive."""
    # What was made in vain, as the engine has found: for an attempt that is another pod, or that was given up before it was made.
    in_vain = {
        event.data.uid for event in world.engine.events if isinstance(event.data, EffectRequested) and event.data.attempt is None
    } | {one.uid for job in jobs for one in job.attempts if (one.reason, one.object) == ("NeverStarted", "deleting")}
    there = {
        uid_of(pod): pod["metadata"]["name"]
        for pod in world.cluster.pods()
        if pod["status"]["phase"] not in _TERMINAL
        # on a silent node its deletion comes to no end
        and not (uid_of(pod) in in_vain and "deletionTimestamp" in pod["metadata"])
    }
    known = {attempt.uid: attempt.pod for job in jobs for attempt in job.attempts if attempt.live and attempt.uid is not None}
    assert known == there
    for job in jobs:
        for attempt in job.attempts:
            if attempt.live and attempt.uid is None:
                assert job.phase not in FINISHED_JOB_PHASES, f"{attempt} of a job that is {job.phase} was never made"


def _times_are_true(world: World, attempt: Attempt) -> None:
    """What the engine says of a run is what the container did, to the second, wherever an object that was delivered showed it."""
    if attempt.uid is None:
        return
    shown = world.engine.shown.get(attempt.uid, [])
    started = finished = None
    for one in shown:
        for status in one.object["status"].get("containerStatuses", []):
            state = next(iter(status["state"].values()))
            started = _moment(state.get("startedAt")) or started
            finished = _moment(state.get("finishedAt")) or finished
    truth = world.cluster.containers().get(attempt.uid)
    if attempt.reason == "NeverStarted" and started is not None:  # a request executed later than that could not be foreseen
        created = _moment(shown[0].object["metadata"]["creationTimestamp"])
        assert created is not None
        assert created > _closed(world, attempt), f"{attempt} ran from {started}"
    if started is not None:
        assert truth is not None
        assert truth.started is not None
        assert started == truth.started // SECOND * SECOND
        assert _same_second(started, attempt.running, _late(world, attempt, "started")), (started, attempt)
    if finished is not None:
        assert truth is not None
        assert truth.finished is not None
        assert finished == truth.finished // SECOND * SECOND
        assert _same_second(finished, attempt.ended, _late(world, attempt, "ended")), (finished, attempt)


def _same_second(time: int, *told: int | None) -> bool:
    """Tell whether one of the times is the one shown. The engine's own times, to which others are raised, have fractions."""
    return any(one is not None and one // SECOND == time // SECOND for one in told)


def _closed(world: World, attempt: Attempt) -> int:
    """Return when the engine closed an attempt (recorded time, microseconds)."""
    return next(
        event.recordedtime
        for event in world.engine.events
        if isinstance(event.data, AttemptEnded) and _is_of(world, event, attempt)
    )


def _is_of(world: World, event: Event[Any], attempt: Attempt) -> bool:
    data = event.data
    return world.engine.job(event.subject).attempt(data.task, data.index, data.attempt) is attempt


def _moment(text: str | None) -> int | None:
    return None if text is None else parse_time(text)


def _late(world: World, attempt: Attempt, field: str) -> Any:
    """Return what the last late fact about an attempt says."""
    told = [
        event.data for event in world.engine.events if isinstance(event.data, AttemptLateFact) and _is_of(world, event, attempt)
    ]
    return getattr(told[-1], field) if told else None
