"""The latest time that an object shows."""

from __future__ import annotations

import pytest

from engine.events.times import parse_time
from engine.kubernetes.observation.latest_time import shown_time

T1, T2 = "2026-03-04T14:00:00Z", "2026-03-04T15:20:40Z"


@pytest.mark.parametrize(
    "part",
    [
        {"metadata": {"creationTimestamp": T1, "deletionTimestamp": T2}},
        {"spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "timeAdded": T2}]}},
        {"status": {"conditions": [{"type": "Ready", "lastTransitionTime": T2, "lastHeartbeatTime": T1}]}},
        {"status": {"conditions": [{"type": "Ready", "lastTransitionTime": T1, "lastHeartbeatTime": T2}]}},
        {"status": {"startTime": T1, "completionTime": T2}},
        *({"status": {"startTime": T1, time: T2}} for time in ("endTime", "finishedAt", "stoppedAt", "terminationTime")),
        {"status": {"state": {"phase": "Running", "lastTransitionTime": T2}}},
    ],
)
def test_it_may_stand_anywhere(part):
    assert shown_time({"metadata": {"creationTimestamp": T1}, **part}) == parse_time(T2)


@pytest.mark.parametrize(
    "content", [{}, {"metadata": {}}, {"metadata": {"creationTimestamp": "soon"}}, {"status": {"conditions": 3}}]
)
def test_an_object_without_a_time_has_none(content):
    assert shown_time(content) is None
