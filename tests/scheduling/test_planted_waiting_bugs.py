"""The laws of jobs that wait in lines see bugs that are planted in what is kept of them."""

from __future__ import annotations

from typing import Any

import pytest
from planted import Plant
from test_waiting_lines import CONFIGURATIONS, coming, crowd, made_anew, returning

from engine.scheduling.inqueue_resources import InqueueResources
from engine.scheduling.pending import pending_reasons
from engine.scheduling.pending.explanations import margin
from engine.scheduling.pending.queue import EquivalenceClass, PendingQueue
from engine.scheduling.scheduler import Scheduler

UPDATE = PendingQueue.update
FILE = PendingQueue._file
TAKE = InqueueResources._take
SHIFT = PendingQueue._shift


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (pending_reasons, "margin", lambda place, told: margin(place, told) + 2),
        (EquivalenceClass, "remove", lambda kind, job: kind.members.pop()),
        (PendingQueue, "update", lambda lines, alike: UPDATE(lines, lambda job: "all are alike")),
        (InqueueResources, "_take", lambda admitted, job: job.key in admitted._of or TAKE(admitted, job)),
        (pending_reasons, "_seen", lambda waiting, outcome: pending_reasons._Seen(len(waiting), [])),
        (pending_reasons.PendingReasons, "_figures", lambda *_: None),
        (pending_reasons, "_moved", lambda queue, own, ranks: {kind for kind in ranks if ranks[kind] != queue.ranks.get(kind)}),
    ],
    ids=["places", "members", "kinds", "admitted requests", "nothing new", "figures", "overtaken"],
)
def test_a_planted_bug_is_seen(plant: Plant, owner: Any, name: str, bug: Any) -> None:
    configured = CONFIGURATIONS["fairshare" if name == "_moved" else "default"]
    right = [crowd(seed, configured, made_anew) for seed in range(6)]
    plant(owner, name, bug)
    assert any(crowd(seed, configured, lambda _: None) != right[seed] for seed in range(6))


def test_a_job_that_comes_back_to_the_end_of_its_line_is_seen(plant: Plant) -> None:
    right = returning(made_anew)
    plant(PendingQueue, "_shift", lambda lines, queue, newest=False: SHIFT(lines, queue, newest=True))
    assert returning(lambda _: None) != right


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (PendingQueue, "update", lambda lines, alike: UPDATE(lines, alike) or True),
        (PendingQueue, "_file", lambda lines, key, alike: FILE(lines, key, alike) or True),
        (Scheduler, "_others", lambda _: 0),
    ],
    ids=["whoever comes", "whoever changes", "whatever changes"],
)
def test_a_round_that_is_reused_though_more_than_the_line_changed_is_seen(plant: Plant, owner: Any, name: str, bug: Any) -> None:
    right = coming(made_anew)
    reused: list[bool] = []

    def noted(*given: Any) -> bool:
        reused.append(only_more_wait(*given))
        return reused[-1]

    only_more_wait = plant(Scheduler, "_only_more_wait", noted)
    assert coming(lambda _: None) == right
    assert reused.count(True) > 3
    plant(owner, name, bug)
    assert coming(lambda _: None) != right
