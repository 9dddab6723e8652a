"""Whatever order and number of observations the engine gets of a pod, its attempt ends the same way and has run as long."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from api_server import ApiServer, Object, WatchEvent, uid_of
from cluster_programs import vcjob
from control_plane import Cluster
from engine_shard import EngineShard
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pod_lives import Life, new_pod
from simulated_time import SECOND, Timeline

from engine.kubernetes.observation.pods import observe_pod
from engine.lifecycle.job import Attempt

QUICK = settings(max_examples=150, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Recorded:
    """All that happened to one pod and to the nodes."""

    job: Object
    pod: list[WatchEvent]
    nodes: list[WatchEvent]
    started: int | None
    finished: int | None
    """What its container did (microseconds); of a pod that had no node, nothing."""


_lives = st.builds(
    Life,
    scheduled_after=st.sampled_from([0, 5]),
    started_after=st.sampled_from([0, 5]),
    runs=st.sampled_from([0, 10, 100]),
    code=st.sampled_from([0, 1]),
    on_term=st.sampled_from(["obeys", "succeeds", "ignores"]),
    term_takes=st.sampled_from([0, 3]),
    grace=st.sampled_from([0, 5, 30]),
    finalizer=st.booleans(),
)
_steps = st.lists(
    st.tuples(
        st.sampled_from([0, 0.5, 3, 8, 50, 150]),
        st.sampled_from(["delete", "delete", "force", "evict", "evict_by_kubelet", "taint", "silence", "restore", "remove_node"]),
    ),
    max_size=3,
)


def record(life: Life, steps: list[tuple[float, str]], *, ours: bool) -> Recorded:
    """Let one pod live, with nobody but others acting on it.

    Args:
        life: how it fares.
        steps: (seconds to wait, what happens then).
        ours: it is a pod of a job that the engine manages.
    """
    timeline = Timeline()
    cluster = Cluster(timeline, lambda: life, nodes=1)
    api = cluster.api
    job = api.create(vcjob({}))
    annotations = {"lahar/job": uid_of(job), "lahar/task": "t0", "lahar/index": "0", "lahar/attempt": "1"} if ours else {}
    pod = api.create(new_pod(name="train-t0-0", namespace="research", owner=job, annotations=annotations, life=life))
    cluster.made(pod, life)
    for wait, what in steps:
        until = timeline.now + round(wait * SECOND)
        while timeline.due is not None and timeline.due <= until:
            timeline.step()
        timeline.now = until
        _do(cluster, api, what, uid_of(pod))
    while timeline.due is not None:
        timeline.step()
    truth = cluster.containers().get(uid_of(pod))
    return Recorded(
        job,
        [event for event in api.history if uid_of(event.object) == uid_of(pod)],
        [event for event in api.history if event.kind == "Node"],
        truth.started if truth else None,
        truth.finished if truth else None,
    )


def _do(cluster: Cluster, api: ApiServer, what: str, uid: str) -> None:
    stands = api.find("Pod", "research", "train-t0-0") is not None
    if what in {"delete", "force"} and stands:
        api.delete("Pod", "research", "train-t0-0", grace=0 if what == "force" else None)
    elif what == "evict" and stands:
        api.evict("research", "train-t0-0")
    elif what == "evict_by_kubelet":
        cluster.nodes["n0"].evict(uid)
    elif what in {"taint", "silence", "restore", "remove_node"} and not cluster.nodes["n0"].gone:
        getattr(cluster, what)("n0")


def outcome(recorded: Recorded, told: list[WatchEvent], *, ours: bool) -> dict[str, Any]:
    """Tell the engine some of what happened, in some order; return what it makes of the pod."""
    timeline = Timeline()
    engine = EngineShard(lambda: timeline.now)
    for event in recorded.nodes:
        engine.see(event.change, event.object)
    if ours:
        engine.see("ADDED", recorded.job)
    for event in told:
        timeline.now += SECOND // 10
        engine.see(event.change, event.object)
        list(engine.run())
    return _shown(engine.job(uid_of(recorded.job)).attempts[0], recorded)


def _shown(attempt: Attempt, recorded: Recorded) -> dict[str, Any]:
    """Return what must not depend on the order. An end without evidence does: it is the last proof of life."""
    # Which of two causes a taint had depends on what was known of its node when it was seen.
    lost = attempt.reason in {"NodeLost", "EvictedByTaint"}
    last = recorded.pod[-1].object["status"].get("containerStatuses", [{"state": {}}])[0]["state"]
    shows_end = last.get("terminated", {}).get("finishedAt") is not None
    return {
        "phase": "Lost" if lost else attempt.phase,
        "reason": "NodeLost" if lost else attempt.reason,
        "running": _second(attempt.running),
        "ended": _second(attempt.ended) if shows_end else attempt.ended is not None,
    }


def _ended_and_deleted_in_one_second(recorded: Recorded) -> bool:
    """Tell whether the pod had ended when its deletion was asked for in the same second: no object can tell which came first."""
    for before, after in pairwise(event.object for event in recorded.pod):
        if before["status"]["phase"] in {"Succeeded", "Failed"} and "deletionTimestamp" in after["metadata"]:
            ended = recorded.finished
            asked = observe_pod(after).proof
            return ended is not None and asked is not None and asked // SECOND == ended // SECOND
    return False


def _second(time: int | None) -> int | None:
    return None if time is None else time // SECOND


@given(_lives, _steps, st.booleans(), st.data())
@settings(QUICK)
def test_the_order_and_number_of_observations_change_no_outcome(life, steps, ours, data):
    recorded = record(life, steps, ours=ours)
    assume(not _ended_and_deleted_in_one_second(recorded))
    *before, last = recorded.pod
    full = outcome(recorded, recorded.pod, ours=ours)
    assert outcome(recorded, [last], ours=ours) == full
    some = data.draw(st.lists(st.sampled_from(before), max_size=8)) if before else []
    assert outcome(recorded, [*some, last, *some], ours=ours) == full
    if full["running"] is not None and recorded.started is not None:
        assert full["running"] == recorded.started // SECOND
