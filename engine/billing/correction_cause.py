"""The event that a correction by a timer follows, by what it corrects."""

from __future__ import annotations

from collections.abc import Sequence

from engine.billing.state import Attempt, JobAccount, Run, State
from engine.billing.usage_segments import fact_about, kind_of_node, place_in

__all__ = ["correction_cause"]


def correction_cause(state: State, account: JobAccount, attempt: Attempt, run: Run, void: Sequence[Run]) -> str:
    """Return the id of the event that a correction follows.

    That is the fact about the node of what was recorded, if its type or model is another one now; else the event that gave its job
    other terms; else the price book by which it has another price version; else what a review of all of the job's attempts is for.

    Args:
        state: of the shard.
        account: of the job.
        attempt: the one that is corrected.
        run: what is taken back, or recorded instead.
        void: all that is taken back.

    Returns:
        The id; empty: it is not known.
    """
    job, book = account.job, state.book
    taken = next((one for one in void if one.start < run.end and run.start < one.end), None)
    if taken is None:
        return _of_review(state, account)
    facts = state.facts_of(job, attempt)
    fact = fact_about(attempt, facts)
    if fact is not None and kind_of_node(attempt, facts) != (taken.node_type, taken.gpu_model):
        return fact.id
    _, told, terms = job.since[place_in(job.since, taken.start)]
    if terms != taken.terms:
        return told
    version, _ = book.at(taken.start)
    if (None if version is None else version.version) != taken.price_version:
        return state.sweep_cause
    return _of_review(state, account)


def _of_review(state: State, account: JobAccount) -> str:
    """Return what the last review of all attempts that is pending is for, of those that no fact about a node asked for alone."""
    job = account.job
    due = [(job.review_at, job.review_cause)] if job.review >= 0 and job.review_cause else []
    if state.awaits_sweep(job):
        due.append((state.sweep_at, state.sweep_cause))
    return max(due, default=(0, ""))[1]
