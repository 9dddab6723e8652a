"""Pauses of a job: it is held after a refusal, and evicts nobody for a while after evictions."""

from __future__ import annotations

from typing import Final

from engine.events.times import SECOND, Micros
from engine.scheduling.cluster.job_records import JobRecord
from engine.scheduling.state.model_sync import sync_job
from engine.scheduling.state.record_names import head_record
from engine.scheduling.state.shard import State

_MOST_REFUSALS: Final = 7
"""Refusals in a row that lead to the longest pause, 64 s."""
_LONGEST_PAUSE: Final = 40
"""Binary logarithm of seconds: 35,000 years, the longest that a record holds."""
_CALM: Final = 128 * SECOND
"""Evictions for a job within this time of each other count as in a row, however short its last pause was."""


def _pause(times: int) -> Micros:
    """Return the pause after a number of failures in a row: 1 s, doubled with each."""
    return SECOND << min(times - 1, _LONGEST_PAUSE)


def back_off(state: State, key: str, now: Micros) -> None:
    """Suspend evictions for a job for a second, and twice as long after each further round that evicts for it.

    The pause has no cap, and is forgotten only after twice its length: the number of useless evictions for a job grows with
    the logarithm of time.
    """
    job = state.jobs.get(key)
    if job is None or now == job.head.evicted:
        return
    head = job.head
    in_a_row = head.evictions and now - head.evicted <= max(_CALM, 2 * _pause(head.evictions))
    if now >= head.preemption_backoff:  # otherwise an earlier release decided, whose pauses had a cap
        head.evictions = head.evictions + 1 if in_a_row else 1
    head.evicted, head.preemption_backoff = now, now + _pause(head.evictions)
    state.touched[head_record(key)] = None
    sync_job(state, job)


def pause(head: JobRecord, moment: Micros) -> None:
    """Hold a job for a second after a refusal or a failed binding, and twice as long after each further one."""
    head.refusals += 1
    head.retry = moment + _pause(min(head.refusals, _MOST_REFUSALS))
