"""A notice names victims that suffice by themselves: what other open notices leave over is not counted, what they promise is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from importlib import import_module
from random import Random
from typing import Any

import pytest
from deployment import Deployment, task, vcjob
from hypothesis import given, settings
from hypothesis import strategies as st
from notice_world import CONFIGURATION
from planted import Plant
from test_notice_protocol import phase

from engine.events.preemptions import NoticeOpened, NoticeWithdrawn
from engine.scheduling.cluster.amounts import CPU
from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.notices import PLACED
from engine.scheduling.preemption import give_notice
from engine.scheduling.session import Session
from engine.scheduling.stage import SchedulingStage
from engine.scheduling.statement import Statement

PREEMPT = import_module("engine.scheduling.actions.preempt")
DELAY = 600
SEEDS = range(60)
Held = dict[str, list[tuple[int, int]]]


def made(*cpus: int) -> Deployment:
    """Nodes with so many CPUs, and two queues that give notice."""
    deployment = Deployment(stage=lambda: SchedulingStage(CONFIGURATION))
    for number, cpu in enumerate(cpus):
        deployment.node(f"n{number}", cpu=cpu, pods=50)
    for queue in ("q", "r"):
        deployment.apply("Queue", queue, preemption="notice", preemptionDelaySeconds=DELAY)
    deployment.apply("Tenant", "default", priority=0, mayPreempt=True)
    deployment.apply("PriorityClass", "high", value=1000)
    return deployment


def submit(deployment: Deployment, name: str, queue: str, cpu: int, pods: int = 1, *, urgent: bool = False) -> None:
    more: dict[str, Any] = {"priorityClassName": "high"} if urgent else {}
    manifest = vcjob(name, task("w", pods, cpu=cpu), minAvailable=pods, queue=queue, **more)
    deployment.submit(name, {**manifest, "lahar": {"preempt": True}} if urgent else manifest)
    deployment.settle()
    deployment.wait(2)


def victims(deployment: Deployment) -> dict[str, list[str]]:
    """Preemptor → victims of its first notice."""
    return {event.data.preemptor: list(event.data.victims) for event in reversed(deployment.events(NoticeOpened))}


def two_notices() -> Deployment:
    """The first notice leaves 2 CPUs over; with one of the victims at hand that is enough for the second preemptor."""
    deployment = made(8)
    submit(deployment, "low", "q", cpu=4)
    submit(deployment, "small", "r", cpu=1)
    submit(deployment, "large", "r", cpu=3)
    submit(deployment, "urgent", "q", cpu=2, urgent=True)
    submit(deployment, "rush", "r", cpu=3, urgent=True)
    return deployment


def test_what_the_victims_of_another_notice_leave_over_is_not_counted() -> None:
    assert victims(two_notices()) == {"urgent": ["low"], "rush": ["large"]}


def test_a_notice_frees_enough_after_the_other_one_is_withdrawn() -> None:
    deployment = two_notices()
    deployment.command("urgent", "AbortJob")
    deployment.settle()
    deployment.wait(DELAY + 4)
    assert [phase(deployment, job) for job in ("rush", "low", "small")] == ["Running"] * 3


def test_no_notice_is_given_that_needs_what_another_notice_leaves_over() -> None:
    deployment = made(6)
    submit(deployment, "low", "q", cpu=4)
    submit(deployment, "small", "r", cpu=2)
    submit(deployment, "urgent", "q", cpu=2, urgent=True)
    submit(deployment, "rush", "r", cpu=3, urgent=True)
    assert victims(deployment) == {"urgent": ["low"]}
    deployment.wait(2 * DELAY + 10)
    assert victims(deployment) == {"urgent": ["low"], "rush": ["small"]}
    assert phase(deployment, "rush") == "Running"


def test_a_notice_is_not_narrowed_by_what_another_notice_leaves_over() -> None:
    deployment = made(8)
    submit(deployment, "low", "q", cpu=4)
    submit(deployment, "brief", "default", cpu=1)
    submit(deployment, "large", "r", cpu=3)
    submit(deployment, "urgent", "q", cpu=2, urgent=True)
    submit(deployment, "rush", "r", cpu=3, urgent=True)
    deployment.end("brief-w-0-1")
    deployment.wait(4)
    assert (victims(deployment)["rush"], phase(deployment, "large")) == (["large"], "WillEvicted")
    assert deployment.events(NoticeWithdrawn) == []


def free(session: Session) -> list[int]:
    """What nodes have left once everybody who leaves has left."""
    return [int(cpu) for cpu in session.cluster.table.future_of(CPU)]


def held(session: Session) -> Held:
    """What each job holds: node and CPU of its pods that have a place."""
    placed = {
        job.key: [pod for status in PLACED for pod in job.with_status(status).values()] for job in session.cluster.jobs.values()
    }
    return {key: [(pod.node.row, pod.pod_class.request[CPU]) for pod in pods if pod.node] for key, pods in placed.items()}


class Watch:
    """Faults of the notices that sessions give and review, by counting pods into what each node has left."""

    def __init__(self, patch: Callable[..., None]) -> None:
        self.faults: list[str] = []
        self.beside_others = 0
        """Notices given while others were open."""
        self._alone: list[int] = []
        self._held: Held = {}
        whole, choose, review = give_notice.give_notice, give_notice.choose_victims, give_notice.review_notice

        def give(session: Session, *more: Any) -> None:
            self._alone, self._held = free(session), held(session)
            whole(session, *more)

        def chosen(search: Any, queue: Any, job: Job, plan: Statement) -> None:
            beside = free(search.session)
            choose(search, queue, job, plan)
            if search.session.outcome.notice is not None:
                self._check(job, beside, {victim.key for victim in search.session.outcome.notice[1]})
                self.beside_others += bool(search.session.cluster.notices)

        def reviewed(session: Session, placement: Any, notice: Any, plan: Statement) -> None:
            beside, preemptor = free(session), session.cluster.jobs.get(notice.preemptor)
            starving = preemptor is not None and session.job_starving(preemptor)
            review(session, placement, notice, plan)
            found = session.outcome.reviews.get(notice.id)
            if preemptor is not None and starving and found is not None and found.enough:
                self._check(preemptor, beside, notice.victims.keys() - found.spared)

        patch(PREEMPT, "give_notice", give)
        patch(give_notice, "choose_victims", chosen)
        patch(give_notice, "review_notice", reviewed)

    def _has_room(self, job: Job, left: Sequence[int], gone: Iterable[str]) -> bool:
        """Whether a gang of like pods fits without some jobs."""
        freed, pods = list(left), list(job.tasks.values())
        for node, cpu in [pod for other in gone for pod in self._held.get(other, ())]:
            freed[node] += cpu
        return sum(cpu // pods[0].pod_class.request[CPU] for cpu in freed) >= len(pods)

    def _check(self, job: Job, beside: list[int], named: set[str]) -> None:
        def fits(some: set[str]) -> bool:
            return all(self._has_room(job, left, some) for left in (self._alone, beside))

        names = f"{job.key} for {sorted(named)}"
        if not fits(named):
            self.faults.append(f"{names}: they do not suffice")
        self.faults += [f"{names}: {one} is not needed" for one in sorted(named) if fits(named - {one})]


def watched(seed: int) -> Watch:
    """A cluster in which low jobs come and go, and privileged ones of two queues find no place."""
    chance = Random(seed)  # noqa: S311 - a story, not a secret
    with pytest.MonkeyPatch.context() as patched:
        watch = Watch(patched.setattr)
        low = [chance.randint(1, 5) for _ in range(chance.randint(3, 6))]
        deployment = made(*(sum(low[start::2]) + 2 for start in range(2)) if chance.random() < 0.3 else (sum(low) + 4,))
        for number in range(4):
            submit(deployment, f"brief{number}", "default", cpu=1)
        for number, cpu in enumerate(low):
            submit(deployment, f"low{number}", chance.choice("qr"), cpu=cpu)
        for number in range(3):
            queue = chance.choice("qr")
            submit(deployment, f"urgent{number}", queue, cpu=chance.randint(1, 4), pods=chance.randint(1, 2), urgent=True)
        for number in range(4):
            deployment.end(f"brief{number}-w-0-1")
            deployment.settle()
            deployment.wait(2)
    return watch


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6))
def test_victims_of_each_notice_suffice_alone_and_together_and_are_needed(seed: int) -> None:
    assert watched(seed).faults == []


def test_many_notices_are_given_while_others_are_open() -> None:
    assert sum(watched(seed).beside_others for seed in range(12)) > 5


def test_planted_leftovers_of_other_notices_are_seen(plant: Plant) -> None:
    plant(Statement, "undone", lambda _: nullcontext())
    assert any("do not suffice" in fault for seed in SEEDS for fault in watched(seed).faults)


def test_planted_narrowing_by_leftovers_is_seen(plant: Plant) -> None:
    right: Any = plant(give_notice, "_spare", lambda session, victims, fits, _=(): right(session, victims, fits))
    assert any("do not suffice" in fault for seed in SEEDS for fault in watched(seed).faults)


def test_a_planted_victim_too_many_is_seen(plant: Plant) -> None:
    plant(give_notice, "_fewest", lambda _, candidates, fits: [*candidates] if candidates and fits(candidates) else None)
    assert any("is not needed" in fault for seed in SEEDS for fault in watched(seed).faults)
