"""Each law finds the bug that it is for: stages that are wrong on purpose, and the small programs that show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cluster_programs import Program, Step, vcjob
from pod_actuator import Fault
from pod_lives import Life
from test_cluster_laws import lawful, undisturbed
from volcano_reference import DifferenceError

from engine.events import Event
from engine.events.actions import EffectSettled
from engine.events.attempts import AttemptEnded
from engine.events.inputs import PodDeleted
from engine.events.jobs import JobPhaseChanged
from engine.lifecycle import evolve, evolve_jobs, lost_pods
from engine.lifecycle.job import Task
from engine.lifecycle.stage import LifecycleStage

Twist = Callable[[Event[Any]], Event[Any] | None]


class Planted(LifecycleStage):
    """A stage whose events are changed, or left out, before they count."""

    def __init__(self, twist: Twist) -> None:
        super().__init__()
        self._twist = twist

    def _twisted(self, decision):
        try:
            while True:
                event = self._twist(next(decision))
                if event is not None:
                    yield event
        except StopIteration as stop:
            return stop.value

    def decide(self, state, event, now):
        return (yield from self._twisted(super().decide(state, event, now)))

    def fire(self, state, now, error=None):
        yield from self._twisted(super().fire(state, now, error))


class Deaf(LifecycleStage):
    """A stage that takes no notice of deletions that only a relist shows."""

    def decide(self, state, event, now):
        if isinstance(event.data, PodDeleted) and event.data.inferred:
            return "unchanged"
        return (yield from super().decide(state, event, now))


def changes(kind: type[Any], **fields: Any) -> Twist:
    """Change the events of one type."""
    return lambda event: replace(event, data=replace(event.data, **fields)) if isinstance(event.data, kind) else event


def swallow_restarts(event: Event[Any]) -> Event[Any]:
    data = event.data
    if isinstance(data, JobPhaseChanged) and data.phase == "Restarting":
        return replace(event, data=replace(data, retry_count=0))
    return event


EVICTED = Program([vcjob({"replicas": 2})], [Life(runs=60)] * 2, steps=[Step(10, "evict_by_kubelet", (0,))])
DELETED = Program([vcjob({"replicas": 2})], [Life(runs=60)] * 2, steps=[Step(10, "delete_pod", (0, None))])
FORCED = Program([vcjob({"replicas": 2})], [Life(runs=60)] * 2, steps=[Step(10, "delete_pod", (0, 0))])
UNSEEN = Program(
    [vcjob({})],
    [Life(scheduled_after=0, started_after=0, runs=100)],
    [Fault(), Fault(delay=6.0)],
    [Step(0.3, "command", (0, "AbortJob", "t0", 0))],
    {"Pod": 2.5},
)
LOST = Program(
    [vcjob({"replicas": 2})],
    [Life(runs=60)] * 2,
    steps=[Step(10, "sever", ("Pod", 20)), Step(3, "delete_pod", (0, 0))],
)
RETRIES = Program([vcjob({"policies": [{"event": "PodFailed", "action": "RestartJob"}]}, maxRetry=2)], [Life(runs=5, code=1)] * 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "stage", "found"),
    [
        pytest.param(DELETED, Planted(changes(AttemptEnded, object="gone")), "while", id="the name counts as free at the end"),
        pytest.param(LOST, Deaf(), "nothing holds it", id="a lost deletion is never noticed"),
        pytest.param(FORCED, Planted(changes(AttemptEnded, replaceable=False)), "Failed", id="a deletion is a failure of the job"),
    ],
)
def test_a_planted_bug_breaks_a_law(program, stage, found):
    lawful(program)
    with pytest.raises(AssertionError, match=found):
        undisturbed(program, stage, compared=False)


@pytest.mark.slow
def test_retries_that_are_not_counted_differ_from_the_reference():
    lawful(RETRIES)
    with pytest.raises(DifferenceError, match="retries after"):
        lawful(RETRIES, Planted(swallow_restarts))


def test_an_evicted_pod_whose_deletion_nobody_asks_for_is_not_replaced(plant):
    undisturbed(EVICTED)
    plant(Task, "left", property(lambda task: {}, lambda task, value: None))
    with pytest.raises(AssertionError, match="Failed"):
        undisturbed(EVICTED, compared=False)


def test_a_pod_that_ran_unseen_is_not_said_never_to_have_started(plant):
    lawful(UNSEEN)
    plant(lost_pods, "SIGHT_WAIT", 1)
    plant(evolve._HANDLERS, EffectSettled, evolve_jobs._marks_input)  # what is reported is not heard
    with pytest.raises(AssertionError, match="NeverStarted"):
        lawful(UNSEEN)
