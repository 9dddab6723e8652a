"""No pod object, however malformed, raises anything but the one clear error."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pod_builders import DELETING, condition, disrupted, owner, pod, running, terminated, waiting

from engine.events import decode
from engine.events.inputs import PodDeleted, PodObserved
from engine.kubernetes.edge import Ignored, Refused, Taken, to_inputs
from engine.kubernetes.errors import ProjectionError
from engine.kubernetes.observation.inspection import inspect_job, inspect_pod
from engine.kubernetes.observation.pods import delete_pod, observe_pod
from engine.kubernetes.reading.documents import Document
from statemachines.vocabulary import FAILED_REASONS, LOST_REASONS, TERMINAL_ATTEMPT_PHASES

TELLING = st.sampled_from(
    [
        "Pending", "Running", "Succeeded", "Failed", "Unknown", "True", "False", "Always", "Evicted", "NodeLost", "OOMKilled",
        "ContainerStatusUnknown", "StartError", "CrashLoopBackOff", "DisruptionTarget", "DeletionByPodGC", "TerminationByKubelet",
        "PodScheduled", "Initialized", "SchedulingGated", "2026-03-01T10:00:00Z", "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00", "1m", "1e99", "-1", "99999999999", "\ud800", "",
    ]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TELLING | st.text(max_size=8)
KEYS = TELLING | st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "state",
        "lastState",
        "terminated",
        "running",
        "containerStatuses",
        "conditions",
        "type",
        "resources",
    ]
)
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5)

REAL: list[dict[str, Any]] = [
    pod(
        "Failed",
        terminated(
            137, "OOMKilled", restartCount=2, lastState={"terminated": {"exitCode": 1, "startedAt": "2026-03-01T10:00:05Z"}}
        ),
        running(),
        conditions=(condition("PodScheduled"), condition("Initialized"), disrupted("TerminationByKubelet")),
        metadata={
            **DELETING,
            **owner("Job", "batch.volcano.sh/v1alpha1"),
            "annotations": {"volcano.sh/task-spec": "w", "lahar/index": "1", "lahar/attempt": "2", "volcano.sh/job-version": "3"},
            "labels": {"batch.kubernetes.io/job-completion-index": "4", "lahar/tenant": "t", "kueue.x-k8s.io/queue-name": "q"},
        },
        spec={
            "initContainers": [{"restartPolicy": "Always", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": 1}}}],
            "overhead": {"memory": "1Mi"},
        },
        reason="Evicted",
        startTime="2026-03-01T10:00:03Z",
        initContainerStatuses=[terminated(0), waiting("CrashLoopBackOff")],
    ),
    pod(
        "Pending", waiting("ImagePullBackOff"), node=None, conditions=(condition("PodScheduled", "False", reason="Unschedulable"),)
    ),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of everything within a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] + [place for key, entry in inner for place in places(entry, (*path, key))]


PLACES = [places(content) for content in REAL]


@st.composite
def mutated(draw: Callable[..., Any]) -> Any:
    """A real-looking pod of which some parts are replaced, or left out."""
    which = draw(st.integers(0, len(REAL) - 1))
    content = deepcopy(REAL[which])
    for path, value in draw(st.lists(st.tuples(st.sampled_from(PLACES[which][1:]), st.just(...) | ANYTHING), max_size=4)):
        target = content
        with suppress(KeyError, IndexError, TypeError):  # a replaced part may not lead there any more
            for step in path[:-1]:
                target = target[step]
            if value is ...:
                del target[path[-1]]
            else:
                target[path[-1]] = value
    return content


def check_total(content: Any) -> None:
    for project in (observe_pod, delete_pod, lambda pod: delete_pod(pod, inferred=True)):
        try:
            fact = project(content)
        except ProjectionError as error:
            assert str(error)  # noqa: PT017  # most objects raise it, some do not: both are fine
            continue
        seen = fact.last if isinstance(fact, PodDeleted) else fact
        check_sound(seen)
        if fact is not seen:
            assert seen.phase in TERMINAL_ATTEMPT_PHASES
    if not isinstance(content, dict):
        return
    for change in (None, "DELETED"):
        document = Document(1, "", {"kind": "Pod", **content}, change)
        inspect_pod(document)
        inspect_job(document)
        outcome = to_inputs(document, "c", 5)
        assert isinstance(outcome, Taken | Ignored | Refused)
        if isinstance(outcome, Taken):
            for message in outcome.messages:
                assert isinstance(decode(message).data, PodObserved | PodDeleted)


def check_sound(seen: PodObserved) -> None:
    """Times never fall from phase to phase, reasons are of the vocabulary."""
    times = [time for time in (seen.created, seen.bound, seen.running, seen.terminating, seen.ended) if time is not None]
    assert times == sorted(times)
    if seen.phase == "Failed":
        assert seen.reason in FAILED_REASONS
    elif seen.phase == "Lost":
        assert seen.reason in LOST_REASONS
    elif seen.phase == "Succeeded":
        assert (seen.reason, seen.exit_code) == (None, 0)
    if seen.phase not in TERMINAL_ATTEMPT_PHASES:
        assert seen.ended is None
    assert min(seen.requests.cpu_milli, seen.requests.memory_bytes, seen.requests.gpu, seen.restarts, seen.init_restarts) >= 0


@settings(max_examples=500)
@given(mutated() | ANYTHING)
def test_malformed_pods(content: Any) -> None:
    check_total(content)


@pytest.mark.slow
@settings(max_examples=100_000)
@given(mutated() | ANYTHING)
def test_very_many_malformed_pods(content: Any) -> None:
    check_total(content)
