"""Closed lists of names: phases, reasons, events, actions.

They are plain strings (typed as `Literal`), because they are dictionary keys on the hottest path and appear verbatim in the log.
Sources: Volcano's API types for job phases, events and actions; Lahar's lifecycle page for the rest.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Level = Literal["job", "task", "replica"]
"""The three levels at which a transition can happen."""

AttemptPhase = Literal["Pending", "Bound", "Running", "Terminating", "Succeeded", "Failed", "Lost"]
"""Phase of one attempt (one pod) of a replica.

Pending: requested, the pod may not exist yet. Bound: has a node, no container has started. Running: a container has started.
Terminating: deletion requested, still holds its node. Succeeded, Failed, Lost: terminal; Lost means that the node or the object
vanished without evidence of an end.
"""

TerminalPhase = Literal["Succeeded", "Failed", "Lost"]

TaskPhase = Literal["Waiting", "Pending", "Running", "Restarting", "Completed", "Failed"]
"""Phase of a task. Waiting: a `dependsOn` is not satisfied. Restarting: its attempts are being replaced."""

JobPhase = Literal[
    "Pending",
    "Running",
    "Restarting",
    "Aborting",
    "Aborted",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
    "Privileged",
    "WillEvicted",
]
"""Volcano's ten job phases and the two of Octopus: Privileged (a Pending job whose victims have been given notice) and
WillEvicted (a Running job that has been given notice)."""

BusEvent = Literal[
    "*",
    "PodPending",
    "PodRunning",
    "PodFailed",
    "PodEvicted",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    "OutOfSync",
    "CommandIssued",
    "JobUpdated",
]
"""Volcano's lifecycle events."""

Action = Literal[
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
    "SyncJob",
    "EnqueueJob",
    "RequeueJob",
    "NoAction",
]
"""Actions that a policy or a command can request. The last four are internal."""

FailureClass = Literal["transient", "user", "permanent", "none"]
"""Class of an end: `transient` uses no retry, `user` uses one, `permanent` is never retried, `none` is no failure."""

EffectFailure = Literal["AlreadyExists", "NotFound", "Conflict"]
"""Why an API server refused an effect: the name is taken, there is no such object, or the object is another one."""

ObjectState = Literal["absent", "asked", "made", "exists", "deleting", "gone"]
"""State of the pod object of an attempt, which may outlive the attempt.

`absent`: not requested, or its creation failed. `asked`: its creation was requested. `made`: its creation was reported done.
`exists`: it was observed. `deleting`: its deletion was requested or observed. `gone`: observed gone, given up, or never made: only
then is its name free.
"""

Rank = Literal["node", "scheduler", "watcher", "inferred"]
"""Source of the end of an attempt, most trusted first."""

JOB_PHASES: Final[tuple[JobPhase, ...]] = get_args(JobPhase)
TASK_PHASES: Final[tuple[TaskPhase, ...]] = get_args(TaskPhase)
ATTEMPT_PHASES: Final[tuple[AttemptPhase, ...]] = get_args(AttemptPhase)
BUS_EVENTS: Final[tuple[BusEvent, ...]] = get_args(BusEvent)
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)

TERMINAL_ATTEMPT_PHASES: Final[frozenset[str]] = frozenset(get_args(TerminalPhase))
LIVE_ATTEMPT_PHASES: Final[tuple[AttemptPhase, ...]] = ("Pending", "Bound", "Running", "Terminating")
FINISHED_JOB_PHASES: Final[frozenset[str]] = frozenset({"Completed", "Failed", "Terminated"})
"""Phases that a job never leaves (Volcano: Aborted is not finished, it can be resumed)."""

INTERNAL_EVENTS: Final[frozenset[str]] = frozenset({"OutOfSync", "CommandIssued", "PodRunning"})
"""Events that no policy may name, and that always lead to SyncJob (Volcano)."""
POLICY_EVENTS: Final[frozenset[str]] = frozenset(BUS_EVENTS) - INTERNAL_EVENTS

USER_ACTIONS: Final[frozenset[str]] = frozenset(ACTIONS[:8])
INTERNAL_ACTIONS: Final[frozenset[str]] = frozenset(ACTIONS[8:])

RANKS: Final[dict[str, int]] = {"node": 0, "scheduler": 1, "watcher": 2, "inferred": 3}
"""Source of an end → rank; smaller is more trusted."""

FAILED_REASONS: Final[frozenset[str]] = frozenset(
    {
        "AppFailed",
        "OomKilled",
        "KilledBySignal",
        "StartError",
        "TimedOut",
        "EvictedByNode",
        "EvictedByApi",
        "EvictedByTaint",
        "NodeShutdown",
        "RejectedByNode",
        "PreemptedByScheduler",
        "PreemptedByKubelet",
        "PreemptedByNotice",
        "DeletedByApi",
        "KilledByAction",
        "StoppedByUser",
        "NeverStarted",
    }
)
LOST_REASONS: Final[frozenset[str]] = frozenset({"NodeLost", "ExitUnknown", "EndUnknown"})

REASONS: Final[frozenset[str]] = (
    FAILED_REASONS
    | LOST_REASONS
    | {"Queued", "Gated", "Unschedulable", "SchedulerError", "Initializing", "Starting", "CrashLooping", "ImagePullBackOff"}
)
"""Reasons of attempts by Lahar's own tables. Jobs, and waiting containers, may have others: those of their controllers."""

_TRANSIENT: Final[frozenset[str]] = LOST_REASONS | {
    "EvictedByNode",
    "EvictedByApi",
    "EvictedByTaint",
    "NodeShutdown",
    "RejectedByNode",
    "PreemptedByScheduler",
    "PreemptedByKubelet",
    "PreemptedByNotice",
    "DeletedByApi",
}
_NO_FAILURE: Final[frozenset[str]] = frozenset({"KilledByAction", "StoppedByUser", "NeverStarted"})


def failure_class(reason: str | None, exit_code: int | None = None, permanent: frozenset[int] | None = None) -> FailureClass:
    """Return the class of an end's cause.

    Args:
        reason: reason of a Failed or Lost attempt; `None` (a success) is no failure.
        exit_code: exit code of the deciding container, if known.
        permanent: the spec's `permanentExitCodes`; a user failure with one of them is never retried.
    """
    if reason is None or reason in _NO_FAILURE:
        return "none"
    if reason in _TRANSIENT:
        return "transient"
    if permanent and exit_code in permanent:
        return "permanent"
    return "user"


def volcano_phase(phase: JobPhase) -> JobPhase:
    """Return the Volcano phase of a job phase: Privileged is Pending, WillEvicted is Running."""
    if phase == "Privileged":
        return "Pending"
    if phase == "WillEvicted":
        return "Running"
    return phase
