"""How an open attempt goes on at an hour mark where nothing has changed: with its last run, which need not be computed anew.

The usual case by far. `continued` says what `runs_of` and `difference` would, or nothing, wherever that takes a closer look.
"""

from __future__ import annotations

from msgspec.structs import replace

from engine.billing.state import Attempt, JobAccount, Node, Run, State
from engine.billing.usage_segments import LONGEST, kind_of_node
from engine.events.times import Micros

__all__ = ["continued"]


def continued(state: State, account: JobAccount, attempt: Attempt, node: Node | None, until: Micros) -> Run | None:
    """Return what an attempt that runs is recorded by up to an hour mark, if all else that stands recorded of it is right.

    What was learnt since the last mark was compared with what stands when it was learnt, or is by a review that goes on.

    Args:
        state: of the shard.
        account: of the attempt's job.
        attempt: one that waits for the mark.
        node: where it is, if that is known.
        until: the mark (microseconds).

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
    """Return the event by which what a run goes on with has begun; `None`: it has begun behind the run's beginning."""
    running, bound = attempt.running, attempt.bound
    size, terms = attempt.sizes[-1], account.job.since[-1]
    if running is None or size[2] != last.size or terms[2] != last.terms:
        return None
    begun, since = running.id, max(running.time, attempt.created.time, running.time if bound is None else bound.time)
    for change in (size, terms):
        if change[0] > since:
            since, begun = change[:2]
    return begun if since <= last.start else None
