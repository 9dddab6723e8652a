"""Policy matching (Volcano): the action of an event, and its delay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from statemachines.spec import JobSpec, Policy
from statemachines.vocabulary import INTERNAL_EVENTS, Action

MAIN_EVENT: Final = "MainTaskEvent"
"""Raised when a task with `main: true` completes."""
MAIN_FAILED_EVENT: Final = "MainTaskFailedEvent"
"""Raised when a task with `main: true` fails."""

MAIN_ACTIONS: Final[dict[str, Action]] = {MAIN_EVENT: "CompleteJob", MAIN_FAILED_EVENT: "AbortJob"}
"""Default actions of these two events, where no policy matches."""


@dataclass(slots=True)
class Request:
    """Request to be matched against policies."""

    event: str | None = None
    """Lifecycle event, built-in or custom; `None`: none (Volcano: a PodGroup's change)."""
    action: Action | None = None
    """An explicit action, which wins over policies."""
    task: str | None = None
    exit_code: int = 0
    """Exit code of the pod's first container, 0 if it has not terminated."""
    version: int = 0
    """Job version for which the pod was made. Volcano gives events of a PodGroup 0, so they match only before the first kill of the
    whole job."""
    job_uid: str | None = None
    """Uid of the job for which the pod was made; `None`: unknown."""


class Match(NamedTuple):
    """Result of matching."""

    action: Action
    delay: int | None = None
    """Microseconds; `None`: at once."""
    policy: str | None = None
    """Path of the policy, `spec.tasks[1].policies[0]`; `None`: none matched."""


_SYNC: Final = Match("SyncJob")


def match(request: Request, spec: JobSpec, *, version: int = 0, job_uid: str | None = None) -> Match:
    """Return the action for a request; the first match in Volcano's order wins.

    1. An explicit action. 2. OutOfSync, CommandIssued and PodRunning: SyncJob. 3. Another job's uid, or 4. an older version:
    SyncJob. 5. Policies of the request's task, in order. 6. Policies of the job, in order. 7. The default action of a main task's
    event, else SyncJob.

    Args:
        request: the request.
        spec: the specification.
        version: the job's current version.
        job_uid: the job's uid; `None` counts as empty.
    """
    if request.action:
        return Match(request.action)
    if request.event in INTERNAL_EVENTS:
        return _SYNC
    if request.job_uid and request.job_uid != (job_uid or ""):
        return _SYNC
    if request.version < version:
        return _SYNC
    if request.task:
        for number, task in enumerate(spec.tasks):
            if task.name == request.task:
                found = _first(task.policies, request)
                if found is not None:
                    policy = task.policies[found]
                    return Match(policy.action, policy.timeout, f"spec.tasks[{number}].policies[{found}]")
                break
    found = _first(spec.policies, request)
    if found is not None:
        policy = spec.policies[found]
        return Match(policy.action, policy.timeout, f"spec.policies[{found}]")
    if request.event in MAIN_ACTIONS and any(task.main for task in spec.tasks):
        return Match(MAIN_ACTIONS[request.event])
    return _SYNC


def _first(policies: Sequence[Policy], request: Request) -> int | None:
    event = request.event
    for number, policy in enumerate(policies):
        # Every new pod raises PodPending, so only a policy with a timeout matches it.
        if event and (event in policy.events or "*" in policy.events) and (event != "PodPending" or policy.timeout is not None):
            return number
        if policy.exit_code is not None and policy.exit_code == request.exit_code:
            return number
    return None
