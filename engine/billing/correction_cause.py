"""Causes of corrections that a timer triggers."""

from __future__ import annotations

from collections.abc import Sequence

from engine.billing.state import Attempt, JobAccount, Run, State
from engine.billing.usage_segments import fact_about, kind_of_node, place_in


def correction_cause(state: State, account: JobAccount, attempt: Attempt, run: Run, void: Sequence[Run]) -> str:
    """Return the id of the event that caused a correction.

    In this order: the fact about the node, if its type or model has changed; the event that changed the job's terms; the price
    book, if the price version has changed; the cause of the pending review of all the job's attempts.

    Args:
        state: state of the shard.
        account: account of the job.
        attempt: corrected attempt.
        run: voided or added run.
        void: all voided runs.

    Returns:
        The id; empty if unknown.
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
    """Return the cause of the latest pending review of all attempts, without reviews for facts about nodes."""
    job = account.job
    due = [(job.review_at, job.review_cause)] if job.review >= 0 and job.review_cause else []
    if state.awaits_sweep(job):
        due.append((state.sweep_at, state.sweep_cause))
    return max(due, default=(0, ""))[1]
