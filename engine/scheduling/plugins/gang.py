"""Gang: a job runs with at least its minimum of pods or not at all.

Extension points: `job_order`, `sub_group_ready`, `job_valid`, `job_ready`, `job_pipelined`, `job_starving`, `preemptable`,
`reclaimable`.
"""

from __future__ import annotations

from typing import ClassVar

from engine.scheduling.cluster.entities import Job, Status, Task
from engine.scheduling.cluster.sub_groups import SubGroups
from engine.scheduling.plugin_results import PERMIT, REJECT, Invalid, Vote
from engine.scheduling.session import Plugin

_VALID: tuple[Status, ...] = ("Pending", "Pipelined", "Allocated", "Binding", "Bound", "Running", "Succeeded")


class Gang(Plugin):
    """All or nothing (Volcano `gang`)."""

    NAME: ClassVar[str] = "gang"
    COUNTS_VICTIMS_BY = "job"

    def job_valid(self, job: Job) -> Invalid | None:
        """Return why a job cannot become ready: too few pods, pods of a task, or sub-groups."""
        if job.role_minimum or job.sub_groups is not None:
            invalid = _invalid_part(job)
            if invalid is not None:
                return invalid
        valid = job.ready + len(job.with_status("Pending")) + len(job.with_status("Pipelined"))
        return Invalid("NotEnoughPods", "") if valid < job.min_member else None

    def alike(self, job: Job) -> bool:
        """Return whether the gang needs no pod: jobs without pods differ in nothing else."""
        return is_ready(job)

    def job_order(self, job: Job) -> float:
        """Order by readiness: jobs that are not ready come first."""
        return float(is_ready(job))

    def job_ready(self, job: Job) -> bool:
        """Return whether enough tasks have a node, in all and of each role."""
        return is_ready(job)

    def sub_group_ready(self, job: Job) -> bool:
        """Return whether enough sub-groups are complete."""
        return _has_sub_groups(job)

    def job_pipelined(self, job: Job) -> Vote:
        """Permit a job to keep its promised nodes if it would be ready with them."""
        if job.ready + job.count("Pipelined") + job.waiting_best_effort < job.min_member:
            return REJECT
        if job.min_member >= job.role_minimum_total:
            promised = _promised(job)
            for role, minimum in job.role_minimum.items():
                if _occupied(job, role) + promised.get(role, 0) < minimum:
                    return REJECT
        return PERMIT

    def job_starving(self, job: Job) -> bool:
        """Return whether fewer tasks than the minimum have a node or are promised one."""
        return job.ready + job.count("Pipelined") < job.min_member

    def preemptable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return the surplus of gangs: candidates beyond their job's minimum."""
        del task
        return surplus(candidates)

    def reclaimable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return the same as `preemptable`."""
        return self.preemptable(task, candidates)


def _invalid_part(job: Job) -> Invalid | None:
    """Return the role or sub-group of a job that has too few pods."""
    if job.min_member >= job.role_minimum_total:
        promised = _promised(job)
        for role, minimum in job.role_minimum.items():
            if job.role_ready.get(role, 0) + job.role_pending.get(role, 0) + promised.get(role, 0) < minimum:
                return Invalid("NotEnoughPodsOfTask", role)
    if job.sub_groups is not None:
        groups = SubGroups(job.sub_groups.policies)
        for task in [task for status in _VALID for task in job.with_status(status).values()]:
            groups.count(task.role, task.index, task.pod_class.labels, 0, 1)
        if lacking := groups.lacking():
            return Invalid("NotEnoughSubGroups", lacking)
    return None


def is_ready(job: Job) -> bool:
    """Return whether enough of a job's tasks have a node; pending best-effort tasks count as placed (Volcano)."""
    if job.ready + job.waiting_best_effort < job.min_member:
        return False
    if job.min_member < job.role_minimum_total:
        return True
    return all(_occupied(job, role) >= minimum for role, minimum in job.role_minimum.items())


def is_whole(job: Job) -> bool:
    """Return whether a job is ready with all its sub-groups; a job that is not, and runs in part, is Unknown."""
    return is_ready(job) and _has_sub_groups(job)


def _has_sub_groups(job: Job) -> bool:
    return job.sub_groups is None or job.sub_groups.enough()


def _promised(job: Job) -> dict[str, int]:
    """Return the number of promised tasks by role."""
    promised: dict[str, int] = {}
    for task in job.with_status("Pipelined").values():
        promised[task.role] = promised.get(task.role, 0) + 1
    return promised


def _occupied(job: Job, role: str) -> int:
    return job.role_ready.get(role, 0) + job.role_best_effort.get(role, 0)


def surplus(candidates: list[Task]) -> list[Task]:
    """Return candidates whose jobs stay ready without them, counted down one by one."""
    left: dict[str, int] = {}
    found = []
    for victim in candidates:
        job = victim.job
        ready = left.setdefault(job.key, job.ready)
        if ready > job.min_member:
            left[job.key] = ready - 1
            found.append(victim)
    return found


def only_terminating(job: Job) -> bool:
    """Return whether a job is short only of releasing tasks (Volcano: it is not Unschedulable then)."""
    leaving = sum(task.node is not None for task in job.with_status("Releasing").values())
    return leaving > 0 and not job.count("Pending", "Pipelined") and job.ready + leaving >= job.min_member
