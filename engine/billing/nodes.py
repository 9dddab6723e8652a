"""Facts about nodes, and reviews of jobs when they change.

A job's record has the nodes whose facts are still unknown. If a fact about a node arrives after attempts were charged by older
facts (a late watch), the node's jobs are reviewed: one step per job, or per 64 of its attempts. The node's record has the progress.
After the last job the review is paused until another job is charged by the node.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from math import inf
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from engine.billing.persist import account_of, node_record, use_of
from engine.billing.state import Attempt, Job, JobAccount, Node, NodeFact, NodeReview, Place, State
from engine.billing.timers import REVIEW_AFTER, review
from engine.events import Event
from engine.events.billing import UsageReviewed
from engine.events.inputs import NodeDeleted, NodeObserved
from engine.events.times import EARLIEST, SECOND, Micros

_UNKNOWN: Final = 64
"""Maximum number of unknown nodes of a job that are stored by name."""
_FACTS: Final = 64
"""Maximum number of stored facts per node, one per change of type or model."""
_REPEATS: Final = 64
"""Maximum number of stored repetitions of facts. Without later repetitions, a fact that arrives late may be valid for too long."""
_since: Final = attrgetter("since")
_ANY: Final = "*"
_NONE: Final[Mapping[str, Micros]] = {}
_NEVER: Final = EARLIEST - 1
_GONE: Final = 400 * 86_400 * SECOND
"""Time for which a deleted node is remembered (microseconds)."""


def await_node(state: State, job: Job, attempt: Attempt) -> None:
    """Record that a job needs facts about an attempt's unknown node."""
    if attempt.node is None or (job.cluster, attempt.node) in state.nodes or attempt.node in job.unknown or _ANY in job.unknown:
        return
    name = attempt.node if len(job.unknown) < _UNKNOWN else _ANY
    job.unknown = [*job.unknown, name]
    state.unknown.setdefault((job.cluster, name), {})[job.id] = None


def _no_longer_unknown(state: State, job: Job, node: str) -> None:
    jobs = state.unknown.get((job.cluster, node))
    if jobs is not None:
        jobs.pop(job.id, None)
        if not jobs:
            del state.unknown[job.cluster, node]


def forget_nodes(state: State, account: JobAccount) -> None:
    """Remove a forgotten job from the indexes of nodes."""
    job = account.job
    for node in job.unknown:
        _no_longer_unknown(state, job, node)
    for place in {(job.cluster, attempt.node) for attempt in account.attempts if attempt.node is not None}:
        used, ids = state.used.get(place, {}), state.reviewing.get(place, [])
        if used.pop(job.id, None) is not None and not used:
            del state.used[place]
        if job.id in ids:
            ids.remove(job.id)
            heapify(ids)


def node_observed(state: State, event: Event[NodeObserved], offset: int | None) -> None:
    """Apply an observed node, and schedule reviews of the jobs that need its facts."""
    data, place = event.data, (event.clusterid, event.data.name)
    node = state.nodes.get(place)
    if node is None:
        node = state.nodes[place] = Node()
    if _takes(node, offset):
        node.gone = None
        state.touched[node_record(place)] = None
        since = _learn(node, NodeFact(event.time, data.type, data.gpu_model, event.id))
        if since is not None and len(node.facts) > 1:  # the first fact concerns only the jobs that need it
            _begin_review(state, place, node, since, event.recordedtime + REVIEW_AFTER)
    told = any(fact.id == event.id for fact in node.facts)
    for name in (data.name, _ANY) if told else (data.name,):
        for ident in list(state.unknown.get((event.clusterid, name), ())):
            account = account_of(state, ident)
            if account is None or not _takes(account.job, offset):
                continue
            if name != _ANY:  # under `*` a job may need further nodes
                account.job.unknown = [node for node in account.job.unknown if node != name]
                _no_longer_unknown(state, account.job, name)
            review(state, account, event.recordedtime)


def _takes(one: Node | Job, offset: int | None) -> bool:
    """Store the offset of a fact for a node or a job; return false if it was applied before, because recovery repeats facts."""
    if offset is not None:
        if offset <= one.taken:
            return False
        one.taken = offset
    return True


def _learn(node: Node, fact: NodeFact) -> Micros | None:
    """Add a fact about a node; return the time from which its facts differ, `None` if unchanged."""
    facts, since, kind = node.facts, fact.since, (fact.node_type, fact.gpu_model)
    place = bisect_right(facts, since, key=_since)
    before = facts[place - 1] if place else None
    if any((fact.node_type, fact.gpu_model) == kind for fact in facts if fact.since == since):
        return None
    if before is None:
        since = EARLIEST
    elif (before.node_type, before.gpu_model) == kind:
        if since not in node.repeats:
            insort(node.repeats, since)
            del node.repeats[:-_REPEATS]
        return None
    node.facts = [*facts[:place], *_repeated(node, before, since, since), fact]
    end = facts[place].since if place < len(facts) else inf
    node.facts += [*_repeated(node, before, since + 1, end), *facts[place:]]
    while len(node.facts) > _FACTS:  # the first fact is valid for all earlier time too
        begin, end = node.facts[1].since, node.facts[2].since
        node.repeats = [moment for moment in node.repeats if not begin <= moment < end]
        since = min(since, begin)
        del node.facts[1]
    return since


def _repeated(node: Node, fact: NodeFact | None, begin: Micros, end: float) -> Iterator[NodeFact]:
    """Yield a fact as valid from its first repetition between two times, with its original event id; remove that repetition."""
    moment = next((moment for moment in node.repeats if begin <= moment <= end), None)
    if fact is not None and moment is not None:
        node.repeats.remove(moment)
        yield NodeFact(moment, fact.node_type, fact.gpu_model, fact.id)


def node_gone(state: State, event: Event[NodeDeleted], offset: int | None) -> None:
    """Record that a node was deleted, and remove nodes that were deleted long ago and priced no job of the state."""
    place = (event.clusterid, event.data.name)
    node = state.nodes.get(place)
    if node is not None and _takes(node, offset):
        node.gone = event.recordedtime
        state.nodes[place] = state.nodes.pop(place)
        state.touched[node_record(place)] = None
    for other in list(_long_gone(state, event.recordedtime - _GONE)):
        del state.nodes[other]
        state.reviewing.pop(other, None)
        state.touched[node_record(other)] = None


def _long_gone(state: State, since: Micros) -> Iterator[Place]:
    """Yield the nodes that were deleted at or before a time and priced no job of the state."""
    for place, node in state.nodes.items():
        if node.gone is None:
            continue
        if node.gone > since:
            return
        if place not in state.used:
            yield place


# --- jobs charged by a node -----------------------------------------------------------------------------------------------------


def note_use(state: State, job: Job, attempt: Attempt) -> None:
    """Index an attempt that was charged by facts about its node."""
    if (use := use_of(attempt)) is None:
        return
    (name, since), ident = use, job.id
    place = job.cluster, name
    used = state.used.setdefault(place, {})
    last = used.get(ident, _NEVER)
    if last >= since:
        return
    used[ident] = since
    node, ids = state.nodes.get(place), state.reviewing.get(place)
    if node is None or node.review is None or ids is None:
        return
    if last < node.review.since <= since and node.review.awaits(ident):
        heappush(ids, ident)
        heappush(state.node_reviews, (node.review.at, place))


def _begin_review(state: State, place: Place, node: Node, since: Micros, at: Micros) -> None:
    """Start the review of a node's jobs for facts from a time on; a pending review restarts."""
    begun = node.review
    since = since if begun is None else min(since, begun.since)
    if begun is None or begun.job:
        node.reviews += 1
        node.review = NodeReview(at, since)
    else:
        node.review = replace(begun, since=since)
    state.reviewing.pop(place, None)
    heappush(state.node_reviews, (node.review.at, place))


def first_node_review(state: State) -> tuple[Micros, Place, str] | None:
    """Return the next step of the reviews of nodes' jobs: time, node, job."""
    while state.node_reviews:
        at, place = state.node_reviews[0]
        node = state.nodes.get(place)
        if node is not None and node.review is not None and node.review.at == at and (ids := _awaited(state, place, node.review)):
            return at, place, ids[0]
        heappop(state.node_reviews)
    return None


def _awaited(state: State, place: Place, reviewed: NodeReview) -> list[str]:
    """Return a heap of the jobs still to be reviewed for a node."""
    ids = state.reviewing.get(place)
    if ids is None:
        used = state.used.get(place, _NONE).items()
        ids = state.reviewing[place] = [ident for ident, since in used if since >= reviewed.since and reviewed.awaits(ident)]
        heapify(ids)
    return ids


def is_last(state: State, place: Place) -> bool:
    """Return true if the next job is the last one of a node's review."""
    return len(state.reviewing[place]) == 1


def has_come_to(state: State, place: Place, job: str, data: UsageReviewed) -> bool:
    """Return true if the review of a node already includes the progress of an event."""
    node = state.nodes.get(place)
    if node is None or node.review is None or node.reviews != data.sweep:
        return True
    reviewed = node.review
    return not reviewed.awaits(job) or (job == reviewed.job and 0 <= data.next <= reviewed.next)


def note_reviewed(state: State, place: Place, job: str, data: UsageReviewed) -> None:
    """Store the progress of a node's review."""
    if has_come_to(state, place, job, data):
        return
    node = state.nodes[place]
    state.touched[node_record(place)] = None
    if data.last or node.review is None:
        node.review = None
        state.reviewing.pop(place, None)
        return
    node.review = replace(node.review, job=job, next=data.next)
    ids = _awaited(state, place, node.review)
    while ids and not node.review.awaits(ids[0]):
        heappop(ids)


# --- all reviews ---------------------------------------------------------------------------------------------------------------


def review_due(state: State, job: Job, attempts: Iterable[Attempt]) -> Micros | None:
    """Return the time of the last pending review of some attempts of a job; `None` if none is pending."""
    due = [job.review_at] if job.review >= 0 else []
    if state.awaits_sweep(job):
        due.append(state.sweep_at)
    for name, since in filter(None, map(use_of, attempts)):
        node = state.nodes.get((job.cluster, name))
        if node is not None and node.review is not None and node.review.since <= since and node.review.awaits(job.id):
            due.append(node.review.at)
    return max(due, default=None)
