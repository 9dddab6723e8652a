"""Choice of victims to be given notice, the fewest whole jobs without which a privileged job fits, and its review."""

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

_MAY_BE_GIVEN_NOTICE: Final = frozenset({"Running", "Pending"})
"""Job phases of victims: a running job may be Pending again, while it awaits more pods."""
MOST_NOTICES: Final = 64
"""Greatest number of notices of a cluster that are open or have a reservation: each round reviews all of them."""
_SINGLE: Final = 1_000
"""Greatest number of single jobs that are tried."""
_EXACT: Final = 64
"""Greatest number of sets of victims of one size that are tried; beyond it a larger set is reduced instead."""

Fits = Callable[[Sequence[Job]], bool]
Rank = tuple[int, int]
"""Priority of the tenant, then of the job."""


def give_notice(session: Session, placement: Placement, waiting: dict[str, list[Job]]) -> None:
    """Review open notices, and choose victims for the first starving privileged job that fits without them.

    Resources that one notice frees are taken for the next, and its surplus goes to nobody, since it may be withdrawn. At the end
    all moves are discarded: nothing is evicted yet.

    Args:
        session: the session.
        placement: finds nodes.
        waiting: starving jobs of queues that give notice, by queue.
    """
    if not waiting and not session.cluster.notices:
        return
    plan = Statement(session)
    reviewed = [notice for notice in session.cluster.notices.values() if notice.reserved is None]
    for notice in reviewed[1:]:  # victims that are needed while no other notice frees anything
        review_notice(session, placement, notice, plan)
        plan.discard()
    for notice in reviewed:
        review_notice(session, placement, notice, plan)
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
                choose_victims(search, queue, job, plan)
                if session.outcome.notice is None:
                    hopeless.add(job)
    plan.discard()


def review_notice(session: Session, placement: Placement, notice: Notice, plan: Statement) -> None:
    """Review which victims of a notice are still needed, if the remaining ones free enough.

    A second review spares only victims that the first one spared.
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
    if not session.job_starving(preemptor):  # its gang has its nodes, or is promised them
        session.outcome.reviews[notice.id] = NoticeReview([*notice.victims])
        return
    # Jobs that acknowledged are ready to stop; of the others the most important is spared first.
    order = sorted(victims, key=lambda job: (not notice.victims[job.key], _cost(session, job)), reverse=True)
    moves = _places(session, placement, queue, preemptor, order)
    if moves is None:
        session.outcome.reviews[notice.id] = NoticeReview(enough=False)
        return
    moves.discard()
    stay = notice.victims.keys() - first.spared
    beside, always = _ways(session, placement, queue, preemptor, plan)
    needed = _spare(session, order, beside, stay)
    if stay and len(needed) > len(stay):  # some of the rest may be needed for the promises of others
        needed = _spare(session, needed, always)
    kept = _places(session, placement, queue, preemptor, needed)
    if kept is not None:
        plan.merge(kept)
    kept_victims = {job.key for job in needed}
    session.outcome.reviews[notice.id] = NoticeReview([ident for ident in notice.victims if ident not in kept_victims])
    session.explain(preemptor, "NoticeGiven", subject=queue.name)


class _Search:
    """Arguments of a search for victims."""

    def __init__(self, session: Session, placement: Placement) -> None:
        self.session = session
        self.placement = placement
        self._running: dict[str, list[Job]] = {}
        for job in session.cluster.jobs.values():
            runs = job.preemption.since and job.preemption.phase in _MAY_BE_GIVEN_NOTICE
            if runs and not job.held and job.key not in session.cluster.noticed:
                self._running.setdefault(job.queue, []).append(job)

    def may_give_notice(self, job: Job) -> bool:
        """Return whether other jobs may be given notice for a starving job."""
        return job.preemption.phase == "Pending" and job.key not in self.session.cluster.noticed and self.session.is_privileged(job)

    def victims(self, queue: Queue, job: Job) -> list[Job]:
        """Return the jobs that may be given notice for a job; one that has not run long enough may be later."""
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
    """Return the rank of a job: only jobs of lower rank are victims."""
    tenant = session.cluster.tenants.get(job.preemption.tenant)
    return 0 if tenant is None else tenant.priority, job.priority


def _placed(job: Job) -> list[Task]:
    return [task for status in PLACED for task in job.with_status(status).values()]


def _is_preemptable(job: Job) -> bool:
    tasks = _placed(job)
    return bool(tasks) and all(task.pod_class.preemptable for task in tasks)


def _cost(session: Session, job: Job) -> tuple[Rank, float, float, str]:
    """Return the cost of stopping a job: its rank, then the lost work (GPUs, then CPU, times its run time)."""
    ran, tasks = session.now - job.preemption.since, _placed(job)
    cpu = sum(task.pod_class.request.get(CPU, 0) for task in tasks)
    return rank(session, job), sum(task.pod_class.gpus for task in tasks) * ran, cpu * ran, job.key


def choose_victims(search: _Search, queue: Queue, job: Job, plan: Statement) -> None:
    """Give notice to the fewest jobs without which a job fits, if there are any."""
    session, placement = search.session, search.placement
    candidates = search.victims(queue, job)
    beside, always = _ways(session, placement, queue, job, plan)
    chosen = _fewest(session, candidates, beside)
    if chosen is not None and not always(chosen):  # it depends on the surplus of other notices
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
    """Return the resources that a job holds: GPUs, then CPU."""
    return sum(task.pod_class.gpus for task in _placed(job)), job.allocated.get(CPU, 0)


def _fewest(session: Session, candidates: Sequence[Job], fits: Fits) -> list[Job] | None:
    """Return the fewest victims without which a job fits; of sets of one size the cheapest.

    Exact up to the first size with too many sets to try (`_SINGLE`, `_EXACT`). Beyond it the largest jobs are added until the job
    fits, then those that are not needed are spared, the most costly first.

    Args:
        session: the session.
        candidates: possible victims.
        fits: returns whether the job fits without some of them; if so, it also fits without more.

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
                return sorted(some, key=lambda job: job.key)  # independent of the order in which this process read them
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
    """Return the victims that are needed, or that must stay in the notice by their key; the first are spared first.

    All are evicted once, and each is restored for a trial: the cost is linear in their number.
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
    """Return checks whether a job fits without some jobs: with other notices executed; and both with and without them."""

    def beside(some: Sequence[Job]) -> bool:
        return _fits(session, placement, queue, job, some)

    def always(some: Sequence[Job]) -> bool:
        if not beside(some):
            return False
        with plan.undone():
            return beside(some)

    return beside, always


def _places(session: Session, placement: Placement, queue: Queue, job: Job, victims: Iterable[Job]) -> Statement | None:
    """Evict whole jobs and promise a gang its nodes; return the moves made, or `None` if it does not fit."""
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
