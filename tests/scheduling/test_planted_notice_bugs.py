"""The checks of notices from a log alone see a bug that is planted; stories in which each is seen, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from deployment import task, vcjob
from log_checker import faults_of
from notice_world import CONFIGURATION
from stage_stories import told
from test_notice_protocol import DELAY, made, submit, urgent
from test_stage_laws import make

from engine.events.decisions import DecidedNoticeEnded
from engine.events.preemptions import NoticeExecuted, NoticeOpened, NoticeWithdrawn, ReservationEnded
from engine.events.times import SECOND
from engine.lifecycle.pods import evict
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.notices import Notice
from engine.scheduling.configuration import Configuration
from engine.scheduling.outcome import NoticeReview
from engine.scheduling.preemption import give_notice, notice_controller, notice_fold
from engine.scheduling.preemption.notice_controller import _Part
from statemachines.notice import next_state

SEEDS = range(60)
EVOLVE = import_module("engine.scheduling.evolve")
PREEMPT = import_module("engine.scheduling.actions.preempt")
LIFECYCLE = import_module("engine.lifecycle.decisions")
PODS = import_module("engine.lifecycle.pods")
Patch = Callable[[Any, str, Any], None]


def two_notices(patch: Patch) -> None:
    """Open notices do not count when others are given notice."""

    def everybody(search: Any, session: Any, placement: Any) -> None:
        search.session, search.placement, search._running = session, placement, {}
        for job in session.cluster.jobs.values():
            if job.preemption.since and not job.held:
                search._running.setdefault(job.queue, []).append(job)

    patch(give_notice, "_review", lambda *_: None)
    patch(give_notice._Search, "__init__", everybody)


def without_end(patch: Patch) -> None:
    """A notice that is withdrawn stays open by the state."""
    right = EVOLVE.evolve_notice
    patch(EVOLVE, "evolve_notice", lambda state, event: None if isinstance(event.data, NoticeWithdrawn) else right(state, event))


def unanswered(patch: Patch) -> None:
    """Silence counts as an acknowledgement."""
    patch(_Part, "_answer", lambda part, _, answer: part.cause if answer == "acknowledged" else None)


def one_too_few(patch: Patch) -> None:
    """The record of an execution lacks a victim."""
    patch(notice_controller, "NoticeExecuted", lambda change, victims, reserved: NoticeExecuted(change, victims[1:], reserved))


def before_the_deadline(patch: Patch) -> None:
    """The deadline is kept two seconds too early."""
    patch(notice_fold, "Notice", lambda ident, job, victims, queue, due: Notice(ident, job, victims, queue, due - 2 * SECOND))


def after_the_deadline(patch: Patch) -> None:
    """No deadline ends a notice."""
    patch(
        notice_controller, "next_state", lambda change, facts: "Open" if change == "DeadlinePassed" else next_state(change, facts)
    )


def too_early(patch: Patch) -> None:
    """Every victim counts as one that has acknowledged."""
    patch(notice_controller, "next_state", lambda change, facts: next_state(change, replace(facts, acknowledged=facts.victims)))


def everywhere(patch: Patch) -> None:
    """Every queue gives notice."""
    patch(PREEMPT, "_queues_that", lambda session, waiting, mode: waiting if mode == "notice" else {})
    patch(Configuration, "gives_notice", lambda configuration, queue: True)


def at_once(patch: Patch) -> None:
    """Every queue evicts at once."""
    patch(PREEMPT, "_queues_that", lambda session, waiting, mode: waiting if mode == "immediate" else {})


def stopped_all_the_same(patch: Patch) -> None:
    """Who is spared is stopped."""

    def tell(part: Any, known: Any, outcome: str, cause: str, *more: Any, **named: Any) -> Any:
        event = right(part, known, outcome, cause, *more, **named)
        return replace(event, data=replace(event.data, outcome="executed", preemptor=event.data.preemptor or "x"))

    right = _Part._tell
    patch(_Part, "_tell", tell)


def nothing_kept(patch: Patch) -> None:
    patch(Cluster, "with_reservations", lambda _: [])


def kept_no_longer(patch: Patch, outcome: Any) -> None:
    """The place is given back with the next round."""
    patch(_Part, "reserved", lambda part: iter([part._record(ReservationEnded(outcome), part.cause)]))


def kept_for_ever(patch: Patch) -> None:
    patch(_Part, "reserved", lambda _: iter(()))


def half_stopped(patch: Patch) -> None:
    """One pod of a victim is stopped."""

    def take_end(turn: Any, job: Any, data: DecidedNoticeEnded) -> Any:
        if data.outcome == "executed" and job.phase == "WillEvicted":
            yield from evict(turn, job, [attempt for attempt in job.attempts if attempt.live][:1])
        else:
            yield from right(turn, job, data)

    right = LIFECYCLE.take_end
    patch(LIFECYCLE, "take_end", take_end)


def placed_elsewhere(patch: Patch) -> None:
    """Victims are stopped though the preemptor has its places."""

    def review(session: Any, placement: Any, notice: Any, plan: Any) -> None:
        right(session, placement, notice, plan)
        preemptor = session.cluster.jobs.get(notice.preemptor)
        if preemptor is not None and not session.job_starving(preemptor):
            session.outcome.reviews[notice.id] = NoticeReview()

    right = give_notice._review
    patch(give_notice, "_review", review)
    patch(_Part, "_has_place", lambda _: False)


def once_more(patch: Patch) -> None:
    """Who has had a notice withdrawn by command is given another."""
    right = notice_fold._leave
    patch(notice_fold, "_leave", lambda *about, **_: right(*about))


def spare_nobody(patch: Patch) -> None:
    patch(give_notice, "_is_preemptable", lambda job: bool(give_notice._placed(job)))


def without_rank(patch: Patch) -> None:
    patch(give_notice, "rank", lambda session, job: (0, job.preemption.privileged))


def without_right(patch: Patch) -> None:
    patch(Cluster, "may_preempt", lambda _, job: job.preemption.privileged)


def wrong_reason(patch: Patch) -> None:
    """Pods that are evicted at once end as if they had been given notice."""
    patch(PODS, "EVICTED", "PreemptedByNotice")


@pytest.mark.parametrize(
    ("bug", "said"),
    [
        (two_notices, "is in two open notices"),
        (without_end, "which is not open"),
        (unanswered, "has not acknowledged c1/"),
        (one_too_few, ", and names ["),
        (before_the_deadline, "is executed before its deadline"),
        (after_the_deadline, "outlives its time"),
        (too_early, "before its deadline, and has not acknowledged"),
        (everywhere, "is opened in a queue with preemption"),
        (at_once, "is preempted at once in a queue with preemption"),
        (stopped_all_the_same, "which was not executed for it"),
        (nothing_kept, "takes the place that is kept for"),
        (lambda patch: kept_no_longer(patch, "bound"), "and nodes have not taken"),
        (lambda patch: kept_no_longer(patch, "expired"), "is given back before its time"),
        (lambda patch: kept_no_longer(patch, "void"), "waits for it"),
        (kept_for_ever, "outlives its time"),
        (half_stopped, "runs on, and its job is stopped by a notice"),
        (placed_elsewhere, "which has its places"),
        (once_more, "after one that was withdrawn by command"),
        (spare_nobody, "or is not preemptable"),
        (without_rank, "which has no higher rank"),
        (without_right, "may not preempt"),
        (wrong_reason, "is stopped by no notice"),
    ],
)
def test_a_planted_bug_is_seen(monkeypatch: pytest.MonkeyPatch, bug: Callable[[Patch], None], said: str) -> None:
    bug(monkeypatch.setattr)
    assert any(said in fault for seed in SEEDS for fault in faults_of(told(seed, make).log))


def test_a_victim_that_was_not_told_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for lifecycle to confirm the phases. In stories it is rarely deaf from the notice to its deadline."""
    monkeypatch.setattr(notice_controller, "next_state", lambda change, facts: next_state(change, replace(facts, unconfirmed=0)))
    deployment = made(nodes=1)
    submit(deployment, "low")
    urgent(deployment, wait=1)
    deployment.deaf = True
    deployment.wait(DELAY + 2)
    (notice,) = deployment.events(NoticeOpened)
    assert faults_of(deployment.log) == [f"low is stopped by {notice.subject} without having been told"]


def test_a_victim_of_another_queue_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of all queues are given notice. In stories a queue is seldom let have what others hold."""

    def everywhere(search: Any, session: Any, placement: Any) -> None:
        right(search, session, placement)
        everybody = [job for jobs in search._running.values() for job in jobs]
        search._running = dict.fromkeys(session.cluster.queues, everybody)

    right = give_notice._Search.__init__
    monkeypatch.setattr(give_notice._Search, "__init__", everywhere)
    deployment = made(nodes=1, configuration=CONFIGURATION)
    deployment.submit("theirs", vcjob("theirs", task("w", 1, cpu=4)))
    deployment.settle()
    deployment.wait(4)
    urgent(deployment)
    assert faults_of(deployment.log) == ["theirs is given notice for a job of another queue"]
