"""Who is given notice: the fewest whole jobs without which a privileged job fits; and whether they are still needed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import combinations
from math import comb
from typing import Final

from engine.scheduling.cluster.amounts import CPU
from engine.scheduling.cluster.entities import Job, PodClass, Task
from engine.scheduling.cluster.notices import PLACED, Notice
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.ordering import Ordered
from engine.scheduling.outcome import NoticeReview
from engine.scheduling.placement import Placement
from engine.scheduling.preemption.hopeless_searches import HopelessSearches
from engine.scheduling.preemption.run_times import least_run_before_notice
from engine.scheduling.preemption.victims import may_preempt
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement

__all__ = ["give_notice"]

_MAY_BE_GIVEN_NOTICE: Final = frozenset({"Running", "Pending"})
"""Phases of victims: a job that runs may be Pending again, while it waits for more pods."""
MOST_NOTICES: Final = 64
"""Notices of a cluster that are open, or have a place reserved, at one time: each round looks at all of them."""
_SINGLE: Final = 1_000
"""Jobs that are tried one by one, whether one alone frees enough."""
_EXACT: Final = 64
"""Sets of several victims that are tried one by one; where there are more of a size, larger sets are narrowed instead."""

Fits = Callable[[Sequence[Job]], bool]
Rank = tuple[int, int]
"""Priority of the tenant, then of the job."""


def give_notice(session: Session, placement: Placement, waiting: dict[str, list[Job]]) -> None:
    """Review open notices, and choose victims for the first privileged job that starves and can be helped so.

    What one notice is to free is taken for the next, and what it leaves over is nobody's, for it may be withdrawn. In the end all
    is as it was, for nobody is evicted yet.

    Args:
        session: the session.
        placement: finds nodes.
        waiting: the starving jobs of queues that give notice, by queue.
    """
    if not waiting and not session.cluster.notices:
        return
    plan = Statement(session)
    reviewed = [notice for notice in session.cluster.notices.values() if notice.reserved is None]
    for notice in reviewed[1:]:  # what is needed while no other notice frees anything
        _review(session, placement, notice, plan)
        plan.discard()
    for notice in reviewed:
        _review(session, placement, notice, plan)
    if len(session.cluster.notices) >= MOST_NOTICES:
        plan.discard()
        return
    search, hopeless = _Search(session, placement), HopelessSearches(session)
    queues: Ordered[Queue] = Ordered(session.cluster, session.queue_key, [session.cluster.queues[name] for name in waiting])
    while queues and session.outcome.notice is None:
        queue = queues.pop()
        jobs: Ordered[Job] = Ordered(session.cluster, session.job_key, waiting[queue.name])
        while jobs and session.outcome.notice is None:
            job = jobs.pop()
            if search.may_give_notice(job) and not hopeless.includes(job):
                _choose(search, queue, job, plan)
                if session.outcome.notice is None:
                    hopeless.add(job)
    plan.discard()


def _review(session: Session, placement: Placement, notice: Notice, plan: Statement) -> None:
    """Find out which victims of a notice are still needed, if those that are left free enough.

    A second review spares nobody whom the first one did not.
    """
    jobs, first = session.cluster.jobs, session.outcome.reviews.get(notice.id, NoticeReview([*notice.victims]))
    if not first.enough:
        return
    preemptor, queue = jobs.get(notice.preemptor), session.cluster.queues.get(notice.queue)
    if preemptor is None or queue is None or preemptor.held or preemptor.preemption.left:
        return
    victims = [job for ident in notice.victims if (job := jobs.get(ident)) is not None and not job.preemption.left]
    if session.is_too_large(preemptor):
        session.outcome.reviews[notice.id] = NoticeReview(enough=False)
        return
    if not session.job_starving(preemptor):  # its gang has its places, or is promised them
        session.outcome.reviews[notice.id] = NoticeReview([*notice.victims])
        return
    # Who has acknowledged is ready to go; of the others the most important is spared first.
    order = sorted(victims, key=lambda job: (not notice.victims[job.key], _cost(session, job)), reverse=True)
    moves = _places(session, placement, queue, preemptor, order)
    if moves is None:
        session.outcome.reviews[notice.id] = NoticeReview(enough=False)
        return
    moves.discard()
    stay = notice.victims.keys() - first.spared
    beside, always = _ways(session, placement, queue, preemptor, plan)
    needed = _spare(session, order, beside, stay)
    if stay and len(needed) > len(stay):  # for those that others' promises ask for, some of the rest may go
        needed = _spare(session, needed, always)
    kept = _places(session, placement, queue, preemptor, needed)
    if kept is not None:
        plan.merge(kept)
    kept_victims = {job.key for job in needed}
    session.outcome.reviews[notice.id] = NoticeReview([ident for ident in notice.victims if ident not in kept_victims])
    session.explain(preemptor, "NoticeGiven", subject=queue.name)


class _Search:
    """What choosing victims takes."""

    def __init__(self, session: Session, placement: Placement) -> None:
        self.session = session
        self.placement = placement
        self._running: dict[str, list[Job]] = {}
        for job in session.cluster.jobs.values():
            runs = job.preemption.since and job.preemption.phase in _MAY_BE_GIVEN_NOTICE
            if runs and not job.held and job.key not in session.cluster.noticed:
                self._running.setdefault(job.queue, []).append(job)

    def may_give_notice(self, job: Job) -> bool:
        """Return whether others may be given notice for a job that starves."""
        return job.preemption.phase == "Pending" and job.key not in self.session.cluster.noticed and self.session.is_privileged(job)

    def victims(self, queue: Queue, job: Job) -> list[Job]:
        """Return who may be given notice for a job; who has not run long enough may be later."""
        own, found = rank(self.session, job), []
        for other in self._running.get(queue.name, ()):
            if rank(self.session, other) < own and _is_preemptable(other):
                from_then = other.preemption.since + least_run_before_notice(self.session, other, _placed(other))
                if from_then <= self.session.now:
                    found.append(other)
                else:
                    self.session.look_again(from_then)
        return found


def rank(session: Session, job: Job) -> Rank:
    """Return what decides who gives way: only jobs of a lower rank do."""
    tenant = session.cluster.tenants.get(job.preemption.tenant)
    return 0 if tenant is None else tenant.priority, job.priority


def _placed(job: Job) -> list[Task]:
    return [task for status in PLACED for task in job.with_status(status).values()]


def _is_preemptable(job: Job) -> bool:
    tasks = _placed(job)
    return bool(tasks) and all(task.pod_class.preemptable for task in tasks)


def _cost(session: Session, job: Job) -> tuple[Rank, float, float, str]:
    """Return what stopping a job costs: its rank, then the work that is lost with it (GPUs, then CPU, times how long it ran)."""
    ran, tasks = session.now - job.preemption.since, _placed(job)
    cpu = sum(task.pod_class.request.get(CPU, 0) for task in tasks)
    return rank(session, job), sum(task.pod_class.gpus for task in tasks) * ran, cpu * ran, job.key


def _choose(search: _Search, queue: Queue, job: Job, plan: Statement) -> None:
    session, placement = search.session, search.placement
    candidates = search.victims(queue, job)
    beside, always = _ways(session, placement, queue, job, plan)
    chosen = _fewest(session, candidates, beside)
    if chosen is not None and not always(chosen):  # it counts on what other notices leave over
        chosen = _fewest(session, candidates, always)
    moves = None if chosen is None else _places(session, placement, queue, job, chosen)
    if chosen is None or moves is None:
        if job.key not in session.outcome.explained:
            session.explain(job, "NoVictims", subject=queue.name)
        return
    plan.merge(moves)
    session.outcome.notice = (job, chosen)
    session.explain(job, "NoticeGiven", subject=queue.name)


def _freed(job: Job) -> tuple[float, float]:
    """Return how much a job holds: GPUs, then CPU."""
    return sum(task.pod_class.gpus for task in _placed(job)), job.allocated.get(CPU, 0)


def _fewest(session: Session, candidates: Sequence[Job], fits: Fits) -> list[Job] | None:
    """Return the fewest victims without which a job fits; of sets of one size the one that costs least.

    Exact while there are few sets of a size. Where there are many, the largest jobs are taken until it fits, and of those whoever
    is not needed is spared, the most costly first.

    Args:
        session: the session.
        candidates: whom it may be.
        fits: whether the job would fit without some of them; without more of them it fits at least as well.

    Returns:
        The victims, or `None` if it does not fit without all of them, or fits without any.
    """
    if not candidates or not fits(candidates) or fits(()):
        return None

    def cost(job: Job) -> tuple[Rank, float, float, str]:
        return _cost(session, job)

    def costs(some: Sequence[Job]) -> tuple[list[Rank], float, float, list[str]]:
        parts = [cost(job) for job in some]
        return (
            sorted((part[0] for part in parts), reverse=True),
            sum(part[1] for part in parts),
            sum(part[2] for part in parts),
            sorted(part[3] for part in parts),
        )

    for number in range(1, len(candidates) + 1):
        if comb(len(candidates), number) > (_SINGLE if number == 1 else _EXACT):
            break
        for some in sorted(combinations(candidates, number), key=costs):
            if fits(some):
                return sorted(some, key=lambda job: job.key)  # whatever the order in which this process came to know them
    order = sorted(candidates, key=lambda job: (tuple(-amount for amount in _freed(job)), cost(job)))
    low, high = 1, len(order)
    while low < high:
        middle = (low + high) // 2
        if fits(order[:middle]):
            high = middle
        else:
            low = middle + 1
    return _spare(session, sorted(order[:high], key=cost, reverse=True), fits)


def _spare(session: Session, victims: Sequence[Job], fits: Fits, stay: Container[str] = ()) -> list[Job]:
    """Return the victims that are needed, or have to stay in the notice by their key; those that come first are spared first.

    All are evicted once, and each comes back for a moment: so it costs in proportion to them.
    """
    gone = {victim.key: _evict(session, victim) for victim in victims}
    needed = []
    for victim in victims:
        gone[victim.key].discard()
        if victim.key in stay or not fits(()):
            gone[victim.key] = _evict(session, victim)
            needed.append(victim)
    for victim in needed:
        gone[victim.key].discard()
    return needed


def _evict(session: Session, victim: Job) -> Statement:
    statement = Statement(session)
    for task in _placed(victim):
        statement.evict(task)
    return statement


def _fits(session: Session, placement: Placement, queue: Queue, job: Job, victims: Sequence[Job]) -> bool:
    moves = _places(session, placement, queue, job, victims)
    if moves is None:
        return False
    moves.discard()
    return True


def _ways(session: Session, placement: Placement, queue: Queue, job: Job, plan: Statement) -> tuple[Fits, Fits]:
    """Return whether a job fits without some jobs: as other notices are carried out, and both so and while none of them is."""

    def beside(some: Sequence[Job]) -> bool:
        return _fits(session, placement, queue, job, some)

    def always(some: Sequence[Job]) -> bool:
        if not beside(some):
            return False
        with plan.undone():
            return beside(some)

    return beside, always


def _places(session: Session, placement: Placement, queue: Queue, job: Job, victims: Iterable[Job]) -> Statement | None:
    """Evict jobs whole and promise a gang its places; return the moves that have been made, or `None` if it does not fit."""
    statement = Statement(session)
    for victim in victims:
        statement.merge(_evict(session, victim))
    tasks = [task for task in session.in_order(job.with_status("Pending").values()) if may_preempt(task)]
    hopeless: set[PodClass] = set()
    for task in tasks:
        if not session.job_starving(job):
            break
        if task.pod_class in hopeless or not session.allocatable(queue, task):
            continue
        best = placement.best(task)
        if best is None:
            hopeless.add(task.pod_class)
        else:
            statement.pipeline(task, best[0])
    if session.job_starving(job) or not session.job_pipelined(job):
        statement.discard()
        return None
    return statement
