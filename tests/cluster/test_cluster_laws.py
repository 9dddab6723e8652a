"""Random programs on a simulated cluster: every job ends, names are free, times are true, phases are the reference's."""

from __future__ import annotations

import pytest
from cluster_laws import Names, check_rest
from cluster_programs import Program, Step, disturbances, programs, vcjob
from hypothesis import HealthCheck, given, settings
from pod_actuator import Fault
from pod_lives import Life
from reference_check import ReferenceCheck
from simulated_world import World

from engine.lifecycle.stage import LifecycleStage

QUICK = settings(max_examples=120, suppress_health_check=list(HealthCheck))
DEEP = settings(max_examples=6000, derandomize=False, suppress_health_check=list(HealthCheck))
GENTLE = settings(QUICK, max_examples=60)


def lawful(program: Program, stage: LifecycleStage | None = None, *, compared: bool = True) -> World:
    """Run a program under all laws, compared with the reference or not."""
    world = World(program, stage)
    Names(world)
    if compared:
        ReferenceCheck(world)
    world.play()
    check_rest(world)
    return world


@given(programs())
@settings(QUICK)
def test_no_program_breaks_a_law(program):
    lawful(program)


@pytest.mark.slow
@given(programs(steps=20))
@settings(DEEP)
def test_no_long_program_breaks_a_law(program):
    lawful(program)


def test_a_pod_created_in_vain_on_a_silent_node_breaks_no_law():
    """Its attempt was given up, as the API server knew no such pod; that never changes, but its object is followed."""
    manifest = vcjob({"replicas": 2, "policies": [{"event": "PodFailed", "action": "AbortJob"}]})
    lives = [Life(runs=3, code=1), Life(scheduled_after=0, started_after=0, grace=5)]
    silence = [Step(10, "silence", (0,)), Step(0, "silence", (1,))]
    world = lawful(Program([manifest], lives, [Fault(), Fault(delay=45)], silence))
    (job,) = map(world.engine.job, world.job_ids)
    assert [(attempt.reason, attempt.object) for attempt in job.attempts] == [("AppFailed", "exists"), ("NeverStarted", "deleting")]
    assert job.phase == "Aborted"


def undisturbed(program: Program, stage: LifecycleStage | None = None, *, compared: bool = True) -> None:
    """Run a program whose pods would all succeed, whatever is done to them: no job fails, no retry is burnt."""
    world = lawful(program, stage, compared=compared)
    for ident in world.job_ids:
        job = world.engine.job(ident)
        assert (job.phase, job.retry_count) == ("Completed", 0), (job.phase, job.reason, job.retry_count)


@given(disturbances())
@settings(GENTLE)
def test_nothing_that_is_done_to_pods_makes_a_job_fail_or_burns_a_retry(program):
    undisturbed(program)


@pytest.mark.slow
@given(disturbances(steps=20))
@settings(DEEP)
def test_no_prolonged_disturbance_of_pods_fails_a_job_or_uses_a_retry(program):
    undisturbed(program)
