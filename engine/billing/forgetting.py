"""Jobs that the lifecycle stage has forgotten, so that their bills are final.

A job with unpriced usage is kept until a price book prices all of it; beyond a maximum number of such jobs the oldest is removed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

from engine.billing.nodes import forget_nodes
from engine.billing.persist import job_records
from engine.billing.state import JobAccount, State
from engine.billing.timers import first_sweep
from engine.events.times import Micros

_UNPRICED: Final = 100_000
"""Maximum number of forgotten jobs with unpriced usage per shard: about 70 MB."""


def forgotten(state: State, account: JobAccount, at: Micros) -> None:
    """Mark a job as forgotten."""
    job = account.job
    if job.forgotten is None:
        job.forgotten = at
        insort(state.unsettled, (at, job.id))
    settle(state, account)


def settle(state: State, account: JobAccount) -> None:
    """Remove a forgotten job if all of its usage is priced and no review of it is pending."""
    job = account.job
    if job.forgotten is not None and (job.open or (job.review < 0 and not _lacks_price(account))):
        forget(state, account)


def _lacks_price(account: JobAccount) -> bool:
    return any(run.price_version is None for attempt in account.attempts for run in attempt.recorded)


def forget(state: State, account: JobAccount) -> None:
    """Remove a job."""
    job = account.job
    state.touched.update(dict.fromkeys(job_records(job.id, job.count)))
    for attempt in account.attempts:
        state.set_due(job.id, attempt, None)
    forget_nodes(state, account)
    if job.forgotten is not None:
        del state.unsettled[bisect_left(state.unsettled, (job.forgotten, job.id))]
    del state.jobs[job.id]


def first_superfluous(state: State) -> tuple[Micros, str] | None:
    """Return when the next job to remove was forgotten, and its id; `None` if there are not too many, or a review is pending."""
    if len(state.unsettled) <= _UNPRICED or first_sweep(state) is not None:
        return None
    return state.unsettled[0]
