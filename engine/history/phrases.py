"""Common phrases: an attempt's name and end, its exit code, quoted messages, the purpose of a timer."""

from __future__ import annotations

import signal
from typing import Final

from engine.events.actions import TimerKind
from engine.events.attempts import AttemptEvent, AttemptMoved
from engine.events.billing import Usage

_FATES: Final[dict[str, str]] = {
    "AppFailed": "failed",
    "OomKilled": "was OOM-killed",
    "KilledBySignal": "was killed by a signal",
    "StartError": "could not be started",
    "TimedOut": "ran out of its time limit",
    "EvictedByNode": "was evicted by its node",
    "EvictedByApi": "was evicted through the API",
    "EvictedByTaint": "was evicted by a taint of its node",
    "NodeShutdown": "went down with its node's shutdown",
    "RejectedByNode": "was rejected by its node",
    "PreemptedByScheduler": "was preempted by the scheduler",
    "PreemptedByKubelet": "was preempted by its node",
    "PreemptedByNotice": "was stopped by a preemption notice",
    "DeletedByApi": "was deleted through the API",
    "KilledByAction": "was stopped by an action on the job",
    "StoppedByUser": "was stopped by its user",
    "NeverStarted": "ended without ever having run",
    "NodeLost": "was lost with its node",
    "ExitUnknown": "ended with its exit status lost",
    "EndUnknown": "has no known end and was closed",
}
_OWN_CODE: Final = frozenset({"AppFailed", "OomKilled", "KilledBySignal", "StartError"})
"""Reasons for which the exit code is relevant."""


def fate(phase: str, reason: str | None) -> str:
    """Return how an attempt ended: `was OOM-killed`."""
    if phase == "Succeeded":
        return "succeeded"
    return _FATES.get(reason or "", f"ended as {phase}" + (f" ({reason})" if reason else ""))


def exit_words(reason: str | None, code: int | None) -> str:
    """Return the exit code in brackets with its signal; `exit code unknown` where it is relevant; otherwise an empty text."""
    if code is None:
        return " (exit code unknown)" if reason in _OWN_CODE else ""
    if reason == "KilledBySignal" and code > 128:
        try:
            return f" (exit {code}, {signal.Signals(code - 128).name})"
        except ValueError:
            return f" (exit {code}, signal {code - 128})"
    return f" (exit {code})" if code or reason in _OWN_CODE else ""


def attempt_of(data: AttemptEvent | Usage) -> str:
    """Return an attempt's name: `worker[2] attempt 1`."""
    return f"{data.task}[{data.index}] attempt {data.attempt}"


def moved(data: AttemptMoved) -> str:
    """Return a description of a pod's move, and of how it became known."""
    how = "its owners were read up to that job" if data.reason == "chain" else "the pod that controls it belongs to that job"
    return f"pod {data.pod} ({attempt_of(data)}) moved to {data.owner}, job {data.to}: {how}"


def quoted(message: str) -> str:
    """Return a message as the end of a clause; empty if there is none."""
    return f": “{message}”" if message else ""


def limit(timer: TimerKind, node: str | None) -> str:
    """Return the purpose of a timer."""
    limits: dict[TimerKind, str] = {
        "active_deadline": "the active deadline",
        "ttl": "the time to live",
        "orphan_wait": "the wait for the pod's job",
        "effect": "the wait before a failed request is repeated",
        "policy": "the delay of an action",
        "step": "the wait before the next step of a large job",
        "lost": f"the wait for pods of node {node}, which is gone," if node else "the wait for pods that are no longer seen",
    }
    return limits[timer]
