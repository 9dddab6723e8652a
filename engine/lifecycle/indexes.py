"""Indexes derived from jobs: counters, open replicas, attempts by node, timers; updated by each event.

Each function runs in constant time, except those for a whole job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from heapq import heappush
from itertools import islice
from typing import Any, Final, TypeVar

from pydantic_core import to_json

from engine.events import Event
from engine.events.actions import DelaysCancelled
from engine.events.ids import routing_key
from engine.events.inputs import DEFAULT_NAMESPACE
from engine.lifecycle.claims import Claim, claim_of, restore
from engine.lifecycle.job import Attempt, Job, Task, Timer, Waiters, category
from engine.lifecycle.job_pages import SIZES, change_spec, change_tasks, clear, discard, keep
from engine.lifecycle.state import ShardState
from engine.lifecycle.tables import EMPTY, own
from statemachines.raising import raise_rules
from statemachines.spec import JobSpec
from statemachines.sync import missing_indexes, pod_ready
from statemachines.task import initial_task_phase

K = TypeVar("K")
V = TypeVar("V")

SEEN: Final = 20_000
"""Maximum number of input ids that a job remembers: the maximum number of held inputs, so that each of them is remembered."""
PAGED_BYTES: Final = 32 << 10
"""Maximum size of a held input that shares its page with others; a larger one has a record of its own (bytes)."""


def fired_key(job: Job, rule: int, subject: str) -> str:
    """Return the key under which a raise rule fires once; a rule with a `count` has the job as its subject.

    The key needs no job version: the fired keys are cleared when the version changes.
    """
    return f"{rule}/{subject if job.rules[rule].count <= 1 else ''}"


def match(job: Job, rule: int, subject: str) -> None:
    """Store that a subject has matched a raise rule with a `count`."""
    key = f"{rule}/{subject}"
    if key not in job.matched:
        keep(job, "matched", key, None)
        _count_match(job, rule)


def _count_match(job: Job, rule: int) -> None:
    job.matches = own(job.matches)
    job.matches[rule] = job.matches.get(rule, 0) + 1


def begin_version(job: Job) -> None:
    """Start the job's next version, in which raise rules fire anew."""
    job.version += 1
    clear(job, "fired")
    clear(job, "matched")
    job.matches = EMPTY


def note_submitted(state: ShardState, job: str) -> None:
    """Index a managed job by the id of its submission, if another job already had that id."""
    state.submitted.setdefault(routing_key(job), {})[job] = None


def index_job(state: ShardState, job: Job) -> None:
    """Rebuild the indexes of a job read from a snapshot."""
    job.by_uid = {attempt.uid: attempt for attempt in job.attempts if attempt.uid is not None}
    standing = [attempt for attempt in job.attempts if attempt.object != "gone"]
    effects = ((effect, one) for one in standing for effect in (one.effect, one.creation, one.binding) if effect)
    job.by_effect = dict(effects) or EMPTY
    job.rules = tuple(raise_rules(job.spec))
    for kept in (job.held, job.waiting):
        for ident, held in kept.items():
            note_held(job, ident, held, waits=kept is job.waiting)
    for key in job.matched:
        _count_match(job, int(key.partition("/")[0]))
    for at, task in enumerate(job.tasks.values()):
        task.place = at
        if job.managed:
            task.open = missing_indexes(task.spec.replicas, ())
    for at, attempt in enumerate(job.attempts):
        attempt.place = at
        task = job.tasks[attempt.task]
        seat(job, task, attempt)
        task.next_index = max(task.next_index, attempt.index + 1)
        task.note(attempt)
        enter(job, task, attempt)
        place(state, job, attempt)
        if attempt.live:
            job.live += 1
        elif task.slots.get(attempt.index) is attempt and leaves_slot_open(job, task, attempt):
            task.open_slot(attempt.index)
    for timer in job.timers.values():
        run_timer(state, job, timer)


def held_size(held: dict[str, Any]) -> int:
    """Return the size of a held input (bytes)."""
    return len(to_json(held))


def where_of(held: dict[str, Any]) -> tuple[str, str]:
    """Return cluster and namespace of a waiting pod."""
    data = held["data"]
    return held.get("clusterid", ""), data.get("last", data).get("namespace", DEFAULT_NAMESPACE)


def _claim_of(held: dict[str, Any]) -> Claim | None:
    """Return the claim of a held input, without the job's name; `None`: it opens no job."""
    claim = claim_of(restore(held))
    return None if claim is None else claim._replace(name="", kind="")


def note_held(job: Job, ident: str, held: dict[str, Any], *, waits: bool) -> int:
    """Count an input as held, or as waiting for its job (`waits`); return its size (bytes)."""
    size = held_size(held)
    if not waits:
        job.held_bytes += size
        if not job.opened and (claim := _claim_of(held)) is not None:
            job.claims = own(job.claims)
            job.claims[claim] = job.claims.get(claim, 0) + 1
        return size
    job.waiting_bytes += size
    job.waiters = own(job.waiters)
    waiters = job.waiters.setdefault(where_of(held), Waiters())
    waiters.ids[ident] = None
    waiters.size += size
    return size


def note_released(job: Job, ident: str, held: dict[str, Any], *, waited: bool) -> None:
    """Count an input as released."""
    size = held_size(held)
    if not waited:
        job.held_bytes -= size
        if not job.opened and (claim := _claim_of(held)) is not None:
            job.claims = own(job.claims)
            job.claims[claim] -= 1
            if not job.claims[claim]:
                del job.claims[claim]
        return
    job.waiting_bytes -= size
    where = where_of(held)
    waiters = job.waiters[where]
    waiters.size -= size
    del waiters.ids[ident]
    if not waiters.ids:
        del own(job.waiters)[where]


def mark_seen(job: Job, event: Event[Any]) -> None:
    """Remember the input that caused an event, so that its repetition is a duplicate."""
    remember(job, event.causationid)


def remember(job: Job, ident: str) -> None:
    """Remember an input; beyond `SEEN` the oldest are dropped, a page at a time."""
    keep(job, "seen", ident, None)
    if len(job.seen) > SEEN:
        for oldest in list(islice(job.seen, SIZES["seen"])):
            discard(job, "seen", oldest)


def seat(job: Job, task: Task, attempt: Attempt) -> None:
    """Make an attempt the current one of its replica; one first observed after a newer one becomes a past one."""
    if attempt.past:
        job.earlier, task.numbers = own(job.earlier), own(task.numbers)
        job.earlier[attempt.task, attempt.index, attempt.number] = attempt
        task.numbers[attempt.index] = attempt.number
        return
    before = task.slots.get(attempt.index)
    if before is not None:
        leave(job, task, before)
        job.earlier = own(job.earlier)
        job.earlier[before.task, before.index, before.number] = before
    task.slots[attempt.index] = attempt
    if task.open:
        task.close_slot(attempt.index)


def leave(job: Job, task: Task, attempt: Attempt) -> None:
    """Remove an attempt from the counters, before it changes."""
    if task.slots.get(attempt.index) is attempt:
        _count(job, task, attempt, -1)
        if task.left:
            own(task.left).pop(attempt.index, None)


def enter(job: Job, task: Task, attempt: Attempt) -> None:
    """Add an attempt to the counters, after it has changed."""
    if task.slots.get(attempt.index) is attempt:
        _count(job, task, attempt, 1)
        if attempt.replaceable and attempt.object == "exists":
            task.left = own(task.left)
            task.left[attempt.index] = None


def _count(job: Job, task: Task, attempt: Attempt, by: int) -> None:
    name, counts, sums = category(attempt), task.counts, job.counts
    if name == "pending":
        counts.pending += by
        sums.pending += by
        task.restart_sum += by * attempt.restarts
    elif name == "running":
        counts.running += by
        sums.running += by
        task.ready += by * pod_ready("Running", attempt.ready)
        task.restart_sum += by * attempt.restarts
    elif name == "terminating":
        counts.terminating += by
        sums.terminating += by
    elif name == "succeeded":
        counts.succeeded += by
        sums.succeeded += by
        task.ready += by * pod_ready("Succeeded", attempt.ready)
    elif name == "failed":
        counts.failed += by
        sums.failed += by


def leaves_slot_open(job: Job, task: Task, attempt: Attempt) -> bool:
    """Return true if an ended current attempt leaves its replica open; in a managed job, only once its object is gone."""
    if not job.managed:
        return attempt.phase != "Succeeded"
    return attempt.replaceable and attempt.object == "gone" and attempt.index < task.spec.replicas


def awaits_end(job: Job, attempt: Attempt) -> bool:
    """Return true if an attempt's end is awaited, or the deletion of its object so that it can be replaced."""
    if attempt.ended is None:
        return True
    return job.managed and attempt.replaceable and attempt.object != "gone" and job.finished is None and job.phase != "Aborted"


def place(state: ShardState, job: Job, attempt: Attempt) -> None:
    """Update the index of attempts by node."""
    if attempt.node is None or attempt.uid is None:
        return
    node = (job.cluster, attempt.node)
    if awaits_end(job, attempt):
        there = state.on_node.setdefault(node, {})
        uids = there.setdefault(job.id, attempt.uid)
        if isinstance(uids, dict):
            uids[attempt.uid] = None
        elif uids != attempt.uid:
            there[job.id] = {uids: None, attempt.uid: None}
    else:
        _leave_node(state, node, job.id, attempt.uid)


def _leave_node(state: ShardState, node: tuple[str, str], job: str, uid: str) -> None:
    there = state.on_node.get(node, {})
    uids = there.get(job)
    if isinstance(uids, dict):
        uids.pop(uid, None)
    if uids in (uid, {}):
        del there[job]
        if not there:
            del state.on_node[node]


def pods_on(state: ShardState, job: Job, node: str) -> Collection[str]:
    """Return the uids of a job's pods that exist on a node."""
    uids = state.on_node.get((job.cluster, node), {}).get(job.id, ())
    return (uids,) if isinstance(uids, str) else uids


def _no_more(index: dict[K, dict[str, V]], place: K, key: str) -> None:
    there = index.get(place)
    if there is not None:
        there.pop(key, None)
        if not there:
            del index[place]


def run_timer(state: ShardState, job: Job, timer: Timer) -> None:
    """Index a timer by its pod, and by its due time unless it is paused."""
    if not timer.held:
        heappush(state.timers, (timer.due, timer.id, job.id))
    if timer.kind == "lost":
        job.lost = own(job.lost)
        job.lost.setdefault(timer.node, {})[timer.id] = timer
        if timer.node is not None:
            state.awaited_on.setdefault((job.cluster, timer.node), {})[job.id] = None
    elif timer.kind == "policy":
        job.delays = own(job.delays)
        job.delays.setdefault(timer.pod, {})[timer.id] = timer
    elif timer.kind == "effect":
        job.retries = own(job.retries)
        job.retries[timer.task, timer.index, timer.attempt] = None
    elif timer.kind == "step":
        if not timer.held:
            state.steps[timer.id] = timer.due
        if timer.kill is None:
            job.steps += 1
        else:
            job.kills = own(job.kills)
            job.kills[timer.id] = timer


def stop_timer(state: ShardState, job: Job, timer: Timer) -> None:
    """Remove a timer that has fired or was cancelled from the indexes."""
    if timer.kind == "lost":
        _no_more(own(job.lost), timer.node, timer.id)
        if timer.node is not None and timer.node not in job.lost:
            _no_more(state.awaited_on, (job.cluster, timer.node), job.id)
    elif timer.kind == "policy":
        _no_more(own(job.delays), timer.pod, timer.id)
    elif timer.kind == "effect":
        own(job.retries).pop((timer.task, timer.index, timer.attempt), None)
    elif timer.kind == "step":
        state.steps.pop(timer.id, None)
        if timer.kill is None:
            job.steps -= 1
        else:
            del own(job.kills)[timer.id]


def cancelled(job: Job, data: DelaysCancelled) -> Iterator[Timer]:
    """Yield the timers of the delayed actions that an event cancels."""
    for same_pod in job.delays.values():
        for timer in same_pod.values():
            if data.include(timer.action, timer.task, timer.partition):
                yield timer


def set_spec(job: Job, spec: JobSpec) -> None:
    """Set the specification of a job: tasks, rules, and open replicas."""
    change_spec(job, spec)
    job.rules = tuple(raise_rules(spec))
    for wanted in spec.tasks:
        task = job.tasks.get(wanted.name)
        if task is None:
            task = job.tasks[wanted.name] = Task(wanted, since=job.since, place=len(job.tasks))
            task.phase = initial_task_phase(wanted) if job.managed else "Pending"
        else:
            task.spec = wanted
        task.sized = True
        if job.managed:
            taken = {index for index, attempt in task.slots.items() if not leaves_slot_open(job, task, attempt)}
            task.open = missing_indexes(wanted.replicas, taken)
    change_tasks(job, job.tasks)
