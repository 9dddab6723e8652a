"""A scheduling process that is restarted among open notices decides as one that is not; one that forgets something is found out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from chaos_notices import Notices, unanswered, wrongly_ended
from deployment import Deployment
from log_checker import faults_of
from notice_world import CONFIGURATION
from oracle import judge
from stage_stories import told
from test_stage_laws import make

from engine.events.preemptions import NoticeExecuted
from engine.lifecycle.stage import LifecycleStage
from engine.scheduling.stage import SchedulingStage

Records = Iterable[tuple[str, bytes]]
SEED = 1
SECONDS = 60


def run(restart_every: int) -> Deployment:
    """Let jobs be given notice for a while, and restart the scheduling stage now and then; what is open then has time to end."""
    deployment = Deployment(lambda: SchedulingStage(CONFIGURATION), partitions=4, every=50)
    notices = Notices(deployment, SEED, lanes=8)
    for second in range(1, 2 * SECONDS + 1):
        notices.more = second <= SECONDS
        deployment.wait()
        notices.act()
        deployment.settle()
        if second % restart_every == 0:
            deployment.restart()
    return deployment


def differences(deployment: Deployment) -> list[str]:
    """Return where the log differs from what the stages decide again."""
    shards = [(SchedulingStage(CONFIGURATION), 0), *((LifecycleStage(), number) for number in range(4))]
    judged = [judge(deployment.log, stage, number, rested=deployment.now) for stage, number in shards]
    return [difference for verdict in judged for difference in verdict.differences]


def test_restarts_change_no_record() -> None:
    deployment = run(restart_every=7)
    topics = "scheduling", "decisions", "preemptions"
    assert deployment.messages(*topics) == run(restart_every=10 * SECONDS).messages(*topics)
    assert (wrongly_ended(deployment.log), unanswered(deployment.log), faults_of(deployment.log)) == ([], [], [])
    assert differences(deployment) == []
    assert len(deployment.events(NoticeExecuted)) > 20


def without_notices(stored: Records, state: Any, load: Callable[[Any, Records], None]) -> None:
    """Open notices are forgotten."""
    load(state, [(record, content) for record, content in stored if not record.startswith("notice/")])


def without_executions(stored: Records, state: Any, load: Callable[[Any, Records], None]) -> None:
    """Notices that were executed are taken for open ones."""
    load(state, stored)
    for cluster in state.clusters.values():
        for notice in cluster.model.notices.values():
            notice.reserved = None


@pytest.mark.parametrize("bug", [without_notices, without_executions])
def test_a_process_that_forgets_is_found_out(monkeypatch: pytest.MonkeyPatch, bug: Callable[..., None]) -> None:
    right = SchedulingStage.load
    monkeypatch.setattr(SchedulingStage, "load", staticmethod(lambda state, stored: bug(stored, state, right)))
    deployment = run(restart_every=7)
    assert wrongly_ended(deployment.log) != []
    assert faults_of(deployment.log) != []
    assert differences(deployment) != []


@pytest.mark.parametrize("seed", [5, 12, 17, 24])
def test_the_oracle_agrees_with_stories_whose_changes_wait_for_a_job(seed: int) -> None:
    assert judge(told(seed, make).log, make(), 0).differences == []
