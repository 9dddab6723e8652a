"""Fast path for an open attempt without changes at an hour mark: its last run is continued instead of computed anew.

`continued` returns the same result as `runs_of` and `difference`, or `None` if anything may have changed.
"""

from __future__ import annotations

from msgspec.structs import replace

from engine.billing.state import Attempt, JobAccount, Node, Run, State
from engine.billing.usage_segments import LONGEST, kind_of_node
from engine.events.times import Micros


def continued(state: State, account: JobAccount, attempt: Attempt, node: Node | None, until: Micros) -> Run | None:
    """Return the run that records an attempt up to an hour mark, if nothing has changed since the last mark.

    Facts since the last mark are compared with the records when they are absorbed, or by a pending review.

    Args:
        state: state of the shard.
        account: account of the attempt's job.
        attempt: attempt due at the mark.
        node: its node, if known.
        until: hour mark (microseconds).

    Returns:
        The run; `None`: something may have changed.
    """
    last = attempt.recorded[-1] if attempt.recorded else None
    if (
        last is None
        or until <= attempt.marked
        or last.kind != "running"
        or last.end != attempt.marked
        or attempt.end is not None
        or attempt.terminating is not None
        or attempt.fault is not None
        or account.job.review >= 0
        or state.awaits_sweep(account.job)
        or (node is not None and node.review is not None)
        or until - attempt.created.time > LONGEST
        or state.book.in_force(last.end, until) != (last.price_version, last.month)
        or _begun(account, attempt, last) != last.begun
        or attempt.node != last.node
        or kind_of_node(attempt, () if node is None else node.facts) != (last.node_type, last.gpu_model)
    ):
        return None
    return replace(last, start=last.end, end=until, length=until - last.end, inferred_start=False)


def _begun(account: JobAccount, attempt: Attempt, last: Run) -> str | None:
    """Return the event that began the current phase or size; `None` if that was after the begin of the last run."""
    running, bound = attempt.running, attempt.bound
    size, terms = attempt.sizes[-1], account.job.since[-1]
    if running is None or size[2] != last.size or terms[2] != last.terms:
        return None
    begun, since = running.id, max(running.time, attempt.created.time, running.time if bound is None else bound.time)
    for change in (size, terms):
        if change[0] > since:
            since, begun = change[:2]
    return begun if since <= last.start else None
