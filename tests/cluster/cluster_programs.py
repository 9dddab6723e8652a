"""Random programs: jobs, how their pods fare, what goes wrong on the way to the engine and back, what people and machines do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from api_server import Object
from hypothesis import strategies as st
from pod_actuator import Fault
from pod_lives import Life

ACTIONS = ("AbortJob", "RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob", "ResumeJob")


@dataclass(frozen=True, slots=True)
class Step:
    """Something that somebody does."""

    wait: float
    """Seconds before it."""
    what: str
    """Name of a method of `World`."""
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Program:
    """Everything that a run depends on."""

    jobs: list[Object]
    """Manifests."""
    lives: list[Life] = field(default_factory=list)
    """How the first pods fare, in the order of their creation; those after them succeed."""
    faults: list[Fault] = field(default_factory=list)
    """What goes wrong with the first requests; the later ones are carried out."""
    steps: list[Step] = field(default_factory=list)
    lags: dict[str, float] = field(default_factory=dict)
    """Kind → seconds by which its watch is behind."""
    doubled: list[bool] = field(default_factory=list)
    """Which deliveries of watches come twice."""


def vcjob(*tasks: Object, name: str = "train", **spec: Any) -> Object:
    """Return the manifest of a vcjob that Lahar controls; what its tasks leave out is filled in."""
    container = {"name": "c", "image": "busybox:1.36", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "research"},
        "spec": {
            "managedBy": "lahar/engine",
            "tasks": [{"name": f"t{number}", "replicas": 1, "template": template, **task} for number, task in enumerate(tasks)],
            **spec,
        },
    }


_lives = (
    st.builds(
        Life,
        scheduled_after=st.sampled_from([0, 1, 20]),
        started_after=st.sampled_from([0, 2, 15]),
        runs=st.sampled_from([0, 1, 7, 30, 120]),
        ending=st.just("exit"),
        code=st.sampled_from([0, 0, 0, 1, 2, 3]),
        on_term=st.sampled_from(["obeys", "succeeds", "ignores"]),
        term_takes=st.sampled_from([0, 1, 3]),
        grace=st.sampled_from([0, 5, 30]),
        finalizer=st.sampled_from([False, False, True]),
        rejected=st.sampled_from([False, False, False, True]),
    )
    | st.builds(Life, runs=st.sampled_from([3, 20]), ending=st.just("oom"), code=st.just(137))
    | st.builds(Life, runs=st.sampled_from([3, 20]), ending=st.just("signal"), code=st.sampled_from([137, 139, 143]))
)

_faults = st.builds(
    Fault, kind=st.sampled_from(["none", "none", "repeated", "lost_answer"]), delay=st.sampled_from([0.2, 0.2, 0.2, 3.0, 45.0])
)

_policies = st.lists(
    st.fixed_dictionaries(
        {
            "event": st.sampled_from(["PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "*"]),
            "action": st.sampled_from(ACTIONS),
        },
        optional={"timeout": st.sampled_from(["5s", "40s"])},
    )
    | st.fixed_dictionaries({"exitCode": st.sampled_from([1, 2, 3, 137]), "action": st.sampled_from(ACTIONS)}),
    max_size=2,
    unique_by=lambda policy: policy.get("event", policy.get("exitCode")),
).filter(
    lambda found: len([policy for policy in found if "event" in policy]) < 2 or all(policy.get("event") != "*" for policy in found)
)


@st.composite
def _jobs(draw: st.DrawFn, name: str) -> Object:
    tasks = draw(
        st.lists(
            st.fixed_dictionaries({"replicas": st.integers(1, 3), "policies": _policies}, optional={"minAvailable": st.just(1)}),
            min_size=1,
            max_size=2,
        )
    )
    if len(tasks) == 2 and draw(st.integers(0, 3)) == 0:
        tasks[1]["dependsOn"] = {"name": ["t0"]}
    spec = draw(
        st.fixed_dictionaries(
            {"policies": _policies, "maxRetry": st.integers(1, 4)},
            optional={
                "minAvailable": st.integers(1, 2),
                "minSuccess": st.integers(1, 2),
                "ttlSecondsAfterFinished": st.sampled_from([0, 20]),
            },
        )
    )
    return vcjob(*tasks, name=name, **spec)


_which, _node = st.integers(0, 20), st.integers(0, 1)


def _at_some_time(what: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(lambda wait, step: Step(wait, *step), st.sampled_from([0.0, 0.5, 3, 3, 10, 40, 100]), what)


_done_to_pods = (
    st.tuples(st.just("delete_pod"), st.tuples(_which, st.sampled_from([None, None, 0, 3])))
    | st.tuples(st.sampled_from(["evict_pod", "evict_by_kubelet"]), st.tuples(_which))
    | st.tuples(st.sampled_from(["silence", "restore", "remove_node", "taint"]), st.tuples(_node))
    | st.tuples(st.just("sever"), st.tuples(st.sampled_from(["Pod", "Pod", "Node", "Job"]), st.sampled_from([5, 60])))
    | st.tuples(st.just("restart"), st.just(()))
)
_to_pods = _at_some_time(_done_to_pods)


def _steps(jobs: int) -> st.SearchStrategy[Step]:
    job = st.integers(0, jobs - 1)
    target = st.sampled_from(["t0", "t1"])
    return _at_some_time(
        _done_to_pods
        | st.tuples(st.just("command"), st.tuples(job, st.sampled_from(ACTIONS), target, st.integers(0, 2)))
        | st.tuples(st.just("scale"), st.tuples(job, st.integers(0, 4)))
        | st.tuples(st.just("delete_job"), st.tuples(job))
    )


def _lags(draw: st.DrawFn) -> dict[str, float]:
    return {kind: draw(st.sampled_from([0.0, 0.1, 2.5])) for kind in ("Pod", "Node", "Job")}


@st.composite
def programs(draw: st.DrawFn, *, steps: int = 8) -> Program:
    """Draw a program.

    Args:
        draw: Hypothesis'.
        steps: how many steps it may have.
    """
    jobs = [draw(_jobs(f"j{number}")) for number in range(draw(st.integers(1, 2)))]
    return Program(
        jobs,
        draw(st.lists(_lives, max_size=8)),
        draw(st.lists(_faults, max_size=8)),
        draw(st.lists(_steps(len(jobs)), max_size=steps)),
        _lags(draw),
        draw(st.lists(st.booleans(), max_size=6)),
    )


@st.composite
def disturbances(draw: st.DrawFn, *, steps: int = 8) -> Program:
    """Draw a program in which pods would all succeed if they were let alone, and no policy says what to do with them.

    Args:
        draw: Hypothesis'.
        steps: how many steps it may have.
    """
    tasks = draw(st.lists(st.fixed_dictionaries({"replicas": st.integers(1, 3)}), min_size=1, max_size=2))
    lives = st.builds(
        Life,
        started_after=st.sampled_from([0, 2, 15]),
        runs=st.sampled_from([1, 7, 60]),
        on_term=st.sampled_from(["obeys", "succeeds", "ignores"]),
        term_takes=st.sampled_from([0, 1, 3]),
        grace=st.sampled_from([0, 5, 30]),
        finalizer=st.booleans(),
    )
    return Program(
        [vcjob(*tasks, maxRetry=1)],
        draw(st.lists(lives, max_size=8)),
        draw(st.lists(_faults, max_size=8)),
        # A node that was cut off speaks again, so that nothing waits for it.
        [*draw(st.lists(_to_pods, max_size=steps)), Step(400, "restore", (0,)), Step(0, "restore", (1,))],
        _lags(draw),
        draw(st.lists(st.booleans(), max_size=6)),
    )
