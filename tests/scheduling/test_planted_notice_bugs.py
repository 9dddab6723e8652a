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
from planted import Plant
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


def two_notices(plant: Plant) -> None:
    """Open notices do not count when others are given notice."""

    def everybody(search: Any, session: Any, placement: Any) -> None:
        search.session, search.placement, search._running = session, placement, {}
        for job in session.cluster.jobs.values():
            if job.preemption.since and not job.held:
                search._running.setdefault(job.queue, []).append(job)

    plant(give_notice, "review_notice", lambda *_: None)
    plant(give_notice._Search, "__init__", everybody)


def without_end(plant: Plant) -> None:
    """A notice that is withdrawn stays open by the state."""
    right = EVOLVE.evolve_notice
    plant(EVOLVE, "evolve_notice", lambda state, event: None if isinstance(event.data, NoticeWithdrawn) else right(state, event))


def unanswered(plant: Plant) -> None:
    """Silence counts as an acknowledgement."""
    plant(_Part, "_answer", lambda part, _, answer: part.cause if answer == "acknowledged" else None)


def one_too_few(plant: Plant) -> None:
    """The record of an execution lacks a victim."""
    plant(notice_controller, "NoticeExecuted", lambda change, victims, reserved: NoticeExecuted(change, victims[1:], reserved))


def before_the_deadline(plant: Plant) -> None:
    """The deadline is kept two seconds too early."""
    plant(notice_fold, "Notice", lambda ident, job, victims, queue, due: Notice(ident, job, victims, queue, due - 2 * SECOND))


def after_the_deadline(plant: Plant) -> None:
    """No deadline ends a notice."""
    plant(
        notice_controller, "next_state", lambda change, facts: "Open" if change == "DeadlinePassed" else next_state(change, facts)
    )


def too_early(plant: Plant) -> None:
    """Every victim counts as one that has acknowledged."""
    plant(notice_controller, "next_state", lambda change, facts: next_state(change, replace(facts, acknowledged=facts.victims)))


def everywhere(plant: Plant) -> None:
    """Every queue gives notice."""
    plant(PREEMPT, "_queues_that", lambda session, waiting, mode: waiting if mode == "notice" else {})
    plant(Configuration, "gives_notice", lambda configuration, queue: True)


def at_once(plant: Plant) -> None:
    """Every queue evicts at once."""
    plant(PREEMPT, "_queues_that", lambda session, waiting, mode: waiting if mode == "immediate" else {})


def stopped_all_the_same(plant: Plant) -> None:
    """Who is spared is stopped."""

    def tell(part: Any, known: Any, outcome: str, cause: str, *more: Any, **named: Any) -> Any:
        event = right(part, known, outcome, cause, *more, **named)
        return replace(event, data=replace(event.data, outcome="executed", preemptor=event.data.preemptor or "x"))

    right = _Part._tell
    plant(_Part, "_tell", tell)


def nothing_kept(plant: Plant) -> None:
    plant(Cluster, "with_reservations", lambda _: [])


def kept_no_longer(plant: Plant, outcome: Any) -> None:
    """The place is given back with the next round."""
    plant(_Part, "reserved", lambda part: iter([part._record(ReservationEnded(outcome), part.cause)]))


def kept_for_ever(plant: Plant) -> None:
    plant(_Part, "reserved", lambda _: iter(()))


def half_stopped(plant: Plant) -> None:
    """One pod of a victim is stopped."""

    def take_end(turn: Any, job: Any, data: DecidedNoticeEnded) -> Any:
        if data.outcome == "executed" and job.phase == "WillEvicted":
            yield from evict(turn, job, [attempt for attempt in job.attempts if attempt.live][:1])
        else:
            yield from right(turn, job, data)

    right = LIFECYCLE.take_end
    plant(LIFECYCLE, "take_end", take_end)


def placed_elsewhere(plant: Plant) -> None:
    """Victims are stopped though the preemptor has its places."""

    def review(session: Any, placement: Any, notice: Any, plan: Any) -> None:
        right(session, placement, notice, plan)
        preemptor = session.cluster.jobs.get(notice.preemptor)
        if preemptor is not None and not session.job_starving(preemptor):
            session.outcome.reviews[notice.id] = NoticeReview()

    right = give_notice.review_notice
    plant(give_notice, "review_notice", review)
    plant(_Part, "_has_place", lambda _: False)


def once_more(plant: Plant) -> None:
    """Who has had a notice withdrawn by command is given another."""
    right = notice_fold._leave
    plant(notice_fold, "_leave", lambda *about, **_: right(*about))


def spare_nobody(plant: Plant) -> None:
    plant(give_notice, "_is_preemptable", lambda job: bool(give_notice._placed(job)))


def without_rank(plant: Plant) -> None:
    plant(give_notice, "rank", lambda session, job: (0, job.preemption.privileged))


def without_right(plant: Plant) -> None:
    plant(Cluster, "may_preempt", lambda _, job: job.preemption.privileged)


def wrong_reason(plant: Plant) -> None:
    """Pods that are evicted at once end as if they had been given notice."""
    plant(PODS, "EVICTED", "PreemptedByNotice")


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
        (lambda plant: kept_no_longer(plant, "bound"), "and nodes have not taken"),
        (lambda plant: kept_no_longer(plant, "expired"), "is given back before its time"),
        (lambda plant: kept_no_longer(plant, "void"), "waits for it"),
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
def test_a_planted_bug_is_seen(plant: Plant, bug: Callable[[Plant], None], said: str) -> None:
    bug(plant)
    assert any(said in fault for seed in SEEDS for fault in faults_of(told(seed, make).log))


def test_a_victim_that_was_not_told_is_seen(plant: Plant) -> None:
    """Nobody waits for lifecycle to confirm the phases. In stories it is rarely deaf from the notice to its deadline."""
    plant(notice_controller, "next_state", lambda change, facts: next_state(change, replace(facts, unconfirmed=0)))
    deployment = made(nodes=1)
    submit(deployment, "low")
    urgent(deployment, wait=1)
    deployment.deaf = True
    deployment.wait(DELAY + 2)
    (notice,) = deployment.events(NoticeOpened)
    assert faults_of(deployment.log) == [f"low is stopped by {notice.subject} without having been told"]


def test_a_victim_of_another_queue_is_seen(plant: Plant) -> None:
    """Jobs of all queues are given notice. In stories a queue is seldom let have what others hold."""

    def everywhere(search: Any, session: Any, placement: Any) -> None:
        right(search, session, placement)
        everybody = [job for jobs in search._running.values() for job in jobs]
        search._running = dict.fromkeys(session.cluster.queues, everybody)

    right = give_notice._Search.__init__
    plant(give_notice._Search, "__init__", everywhere)
    deployment = made(nodes=1, configuration=CONFIGURATION)
    deployment.submit("theirs", vcjob("theirs", task("w", 1, cpu=4)))
    deployment.settle()
    deployment.wait(4)
    urgent(deployment)
    assert faults_of(deployment.log) == ["theirs is given notice for a job of another queue"]
