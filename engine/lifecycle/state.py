"""The state of a lifecycle shard: every job with its tasks, replicas and attempts, and what is known of the cluster.

State is the fold of the shard's own events (`evolve`) and of the cluster facts (`absorb`), nothing else. What can be derived
(counters, indexes) is kept beside it so that the cost of an event depends neither on the number of jobs nor on the number of
replicas of a job; `codec` writes only what cannot be derived.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field

from engine.events.bounds import REPLICAS
from engine.events.jobs import TimerKind
from engine.events.times import SECOND
from engine.kubernetes.observation.cluster_facts import ClusterFacts
from engine.kubernetes.observation.oldest_first import OldestFirst
from engine.lifecycle.claims import Claim
from engine.lifecycle.forgotten_ids import Forgotten
from engine.lifecycle.tables import empty
from statemachines.counters import Counters
from statemachines.kill import KillScope
from statemachines.spec import JobSpec, RaiseRule, Requests, TaskSpec
from statemachines.vocabulary import Action, AttemptPhase, JobPhase, ObjectState, Rank, TaskPhase

__all__ = [
    "ABORTED_LONGER",
    "Apart",
    "Attempt",
    "Deferred",
    "Derived",
    "Job",
    "Page",
    "ShardState",
    "Table",
    "Task",
    "Timer",
    "category",
]

ABORTED_LONGER: Final = 335 * 86_400 * SECOND
"""By how much an aborted job is kept longer than a finished one (microseconds): a year with the default of 30 days."""

Derived = Field(exclude=True)
"""Marks what can be rebuilt from the rest and is therefore not written."""


@dataclass(slots=True)
class Attempt:
    """One pod of one replica, or the wish for one."""

    task: str
    index: int
    number: int
    phase: AttemptPhase = "Pending"
    reason: str | None = None
    uid: str | None = None
    """`None` until its pod is observed."""
    pod: str = ""
    version: str | None = None
    """resourceVersion of the last observation from which something followed."""
    seen: int = 0
    """Recorded time of the last observation that showed it live and from which something followed, or of the report that it was
    made."""
    created: int = 0
    bound: int | None = None
    running: int | None = None
    ended: int | None = None
    since: int = 0
    """When its present phase began."""
    node: str | None = None
    decided: str | None = None
    """Node that a decision gives it, until it is seen on one."""
    binding: str = ""
    """Id of the request to bind its pod to that node, until its outcome is reported."""
    restarts: int = 0
    """Container restarts in place, init containers included."""
    ready: bool = False
    requests: Requests = field(default_factory=Requests)
    job_version: int = 0
    kill: str | None = None
    """A deletion was requested; the reason that the end will have."""
    killed: int = 0
    """When it was requested."""
    disruption: str | None = None
    deadline: int | None = None
    """When the grace period of its deletion ends."""
    object: ObjectState = "absent"
    """Its pod object, which may outlive it: the replica is taken until it is gone."""
    effect: str = ""
    """Id of the effect that was last requested for it."""
    asked: int = 0
    """Recorded time of that request."""
    creation: str = ""
    """Id of the request to make its pod, while nothing is heard of it and its deletion is asked for already."""
    tries: int = 0
    """How often that effect has failed."""
    unknown: int = 0
    """How often in a row the API server knew no such pod."""
    doubted: bool = False
    """Its creation was reported failed, and may have been carried out all the same."""
    replaceable: bool = False
    """Ended, and its replica is open for another attempt as soon as its object is gone."""
    exit_code: int | None = None
    rank: Rank = "node"
    past: bool = False
    """It came into view when its replica had a newer pod already."""
    late: tuple[str, str | None, int | None, Rank] | None = None
    """Last late fact: phase, reason, end, rank."""
    gist: str = ""
    """Of the last message that an event of its present phase and reason told."""
    place: Annotated[int, Derived] = 0
    """In `Job.attempts`. Derived."""

    @property
    def live(self) -> bool:
        """It has not ended."""
        return self.ended is None


def category(attempt: Attempt) -> str | None:
    """Return the counter in which the current attempt of a replica counts; `None`: in none, the replica is open.

    Volcano: a pod whose deletion was asked for or seen is terminating and in no other counter, whatever its phase.
    """
    if attempt.ended is None:
        if attempt.kill is not None or attempt.phase == "Terminating":
            return "terminating"
        return "running" if attempt.phase == "Running" else "pending"
    if attempt.replaceable and attempt.object in {"deleting", "gone"}:
        return "terminating" if attempt.object == "deleting" else None
    return "succeeded" if attempt.phase == "Succeeded" else "failed"


@dataclass(slots=True)
class Task:
    """One task: its specification, its phase and its replicas."""

    spec: TaskSpec
    phase: TaskPhase = "Pending"
    since: int = 0
    restarting: bool = False
    """Attempts of it are being replaced."""
    completed_raised: bool = False
    """TaskCompleted was raised for the present set of attempts."""
    failed_raised: bool = False
    sized: bool = True
    """The number of replicas is known from a specification, not just from the pods seen."""
    slots: Annotated[dict[int, Attempt], Derived] = field(default_factory=dict)
    """Index → current attempt. Derived."""
    place: Annotated[int, Derived] = 0
    """In `Job.tasks`. Derived."""
    open: Annotated[list[int], Derived] = field(default_factory=list)
    """Replicas that wait for an attempt, ascending. Derived."""
    left: Annotated[Mapping[int, None], Derived] = field(default_factory=empty)
    """Replicas to be replaced whose last pod stands and whose deletion nobody has asked for. Derived."""
    numbers: Annotated[Mapping[int, int], Derived] = field(default_factory=empty)
    """Highest number of an attempt that came into view when its replica had a newer one already, by index. Derived."""
    next_index: Annotated[int, Derived] = 0
    """First index above all slots. Derived."""
    latest: Annotated[int, Derived] = 0
    """When the present phase of one of its attempts began, of that which began last. Derived."""
    counts: Annotated[Counters, Derived] = field(default_factory=Counters)
    """Current attempts by counter. Derived."""
    ready: Annotated[int, Derived] = 0
    """Current attempts that succeeded, or run with all containers ready. Derived."""
    restart_sum: Annotated[int, Derived] = 0
    """Container restarts over its pending and running attempts. Derived."""

    def note(self, attempt: Attempt) -> None:
        """Take note that the phase of an attempt has begun."""
        self.latest = max(self.latest, attempt.since)

    def next_number(self, index: int) -> int:
        """Return the number of the next attempt of a replica."""
        current = self.slots.get(index)
        return max(current.number if current else 0, self.numbers.get(index, 0)) + 1

    def open_slot(self, index: int) -> None:
        """Mark a replica as waiting for an attempt."""
        at = bisect_left(self.open, index)
        if at == len(self.open) or self.open[at] != index:
            insort(self.open, index)

    def close_slot(self, index: int) -> None:
        """Mark a replica as not waiting."""
        at = bisect_left(self.open, index)
        if at < len(self.open) and self.open[at] == index:
            del self.open[at]


@dataclass(slots=True)
class Timer:
    """A running timer of a job."""

    id: str
    kind: TimerKind
    due: int
    action: Action | None = None
    policy: str | None = None
    event: str | None = None
    task: str | None = None
    index: int | None = None
    attempt: int | None = None
    partition: int | None = None
    pod: str | None = None
    node: str | None = None
    kill: KillScope | None = None
    reason: str | None = None
    held: bool = False
    """It stands still until the job is unparked and no input of it is held."""
    depth: int = 0


@dataclass(slots=True)
class Deferred:
    """An action that waits for a restart to resolve."""

    action: Action
    by: str
    reason: str
    policy: str | None
    event: str | None
    commanded: bool
    id: str
    """The event that deferred it."""


Table = Literal["seen", "fired", "matched", "timers", "held", "waiting"]
"""What a job has beside its tasks and attempts that may grow without them."""


class Page(NamedTuple):
    """Names a part of a job that is a record of its own (`job_pages`)."""

    table: str
    """`spec`, `tasks`, `attempts`, or a `Table`."""
    number: int
    """From 1: the first page of a table stands in the job's own record."""


@dataclass(slots=True)
class Apart:
    """The later pages of a table."""

    added: int = 0
    """Entries that they were ever given."""
    pages: Annotated[dict[int, dict[str, Any]], Derived] = field(default_factory=dict)
    """Page → its entries. Derived."""
    page_of: Annotated[dict[str, int], Derived] = field(default_factory=dict)
    """Entry → its page. Derived."""


@dataclass(slots=True)
class Waiters:
    """Pods of one cluster and namespace that wait for a job."""

    ids: dict[str, None] = field(default_factory=dict)
    """Of the inputs that told of them, in order."""
    size: int = 0
    """Of these (bytes)."""


@dataclass(slots=True)
class Job:
    """One job; or, with `opened` 0, a subject of which no job is known yet (pods before their job, refused commands)."""

    id: str
    cluster: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    managed: bool = False
    tenant: str = ""
    project: str = ""
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=empty)
    spec: JobSpec = field(default_factory=JobSpec)
    phase: JobPhase = "Pending"
    reason: str | None = None
    gist: str = ""
    """Of the last message of its object that an event told."""
    since: int = 0
    opened: int = 0
    """Sequence of its `job.opened`; 0: not opened."""
    owner_known: bool = False
    """The job object itself has been seen: an end is for its status to tell, not for the attempts."""
    object_version: str | None = None
    inferred: bool = False
    version: int = 0
    retry_count: int = 0
    restarts: int = 0
    grouped: bool = True
    """Its group stands; False from a kill of the whole job until it is Pending again (Volcano deletes the PodGroup)."""
    enqueued: bool = False
    """A decision let its group have pods (Volcano: the PodGroup is Inqueue). Asked about only where we schedule the job."""
    settled: int = 0
    """Sequence of the last event that changed what decisions are made on: the specification, or the group. A decision that has not
    seen it is stale."""
    requeued: bool = False
    """The restart under way is a RequeueJob, which does not test the retries."""
    deferred: Deferred | None = None
    object_deleted: int | None = None
    """Recorded time at which the job object was seen gone."""
    sequence: int = 0
    finished: int | None = None
    """Recorded time at which it entered Completed, Failed or Terminated."""
    closing: str = ""
    """Id of the event that finished it; of what is aborted or no job, of the last one."""
    rested: int = 0
    """Recorded time of the last event, of what is aborted or no job."""
    fired: Mapping[str, None] = field(default_factory=empty)
    """Raise rules that have fired since the job's version is what it is: `rule/subject`."""
    seen: Mapping[str, None] = field(default_factory=empty)
    """Ids of the last inputs without a version of their own that left an event."""
    parked: bool = False
    held: Mapping[str, dict[str, Any]] = field(default_factory=empty)
    """Parked inputs, as CloudEvents by id, in order."""
    waiting: Mapping[str, dict[str, Any]] = field(default_factory=empty)
    """Pods that wait for the job, as CloudEvents by id, in order."""
    tasks: dict[str, Task] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    """All of them, in the order in which they started."""
    timers: Mapping[str, Timer] = field(default_factory=empty)
    lost: Annotated[Mapping[str | None, dict[str, Timer]], Derived] = field(default_factory=empty)
    """Timers that end the wait for pods of which nothing more is seen, by the node that is gone. Derived."""
    delays: Annotated[Mapping[str | None, dict[str, Timer]], Derived] = field(default_factory=empty)
    """Timers of delayed actions by the name of their pod. Derived."""
    retries: Annotated[Mapping[tuple[str | None, int | None, int | None], None], Derived] = field(default_factory=empty)
    """Attempts for which a timer runs to ask again for an effect: task, index, number. Derived."""
    by_uid: Annotated[dict[str, Attempt], Derived] = field(default_factory=dict)
    """Derived."""
    earlier: Annotated[Mapping[tuple[str, int, int], Attempt], Derived] = field(default_factory=empty)
    """Attempts that are not the current one of their replica, by task, index and number. Derived."""
    by_effect: Annotated[Mapping[str, Attempt], Derived] = field(default_factory=empty)
    """Attempts by the effect last requested for them, while their object is not gone. Derived."""
    rules: Annotated[tuple[RaiseRule, ...], Derived] = ()
    """Its raise rules, those of `main: true` included. Derived."""
    matched: Mapping[str, None] = field(default_factory=empty)
    """What has matched the raise rules that count since the job's version is what it is: `rule/subject`."""
    matches: Annotated[Mapping[int, int], Derived] = field(default_factory=empty)
    """How much that is, by rule. Derived."""
    counts: Annotated[Counters, Derived] = field(default_factory=Counters)
    """Sum of the tasks' counters. Derived."""
    live: Annotated[int, Derived] = 0
    """Attempts that have not ended. Derived."""
    held_bytes: Annotated[int, Derived] = 0
    """Of the inputs that are held. Derived."""
    claims: Annotated[Mapping[Claim, int], Derived] = field(default_factory=empty)
    """What the inputs that are held would make of what nothing has opened, without names, and how many would. Derived."""
    waiting_bytes: Annotated[int, Derived] = 0
    """Of those that wait. Derived."""
    waiters: Annotated[Mapping[tuple[str, str], Waiters], Derived] = field(default_factory=empty)
    """The inputs that wait by cluster and namespace. Derived."""
    steps: Annotated[int, Derived] = 0
    """Steps to come that go on with what the job lacks: 0 or 1. Derived."""
    kills: Annotated[Mapping[str, Timer], Derived] = field(default_factory=empty)
    """Steps to come that go on with a kill. Derived."""
    apart: dict[Table, Apart] | None = None
    """Tables that have later pages. (Not a dict where there are none: small jobs are many.)"""
    changed: Annotated[dict[Page, None] | None, Derived] = None
    """Later pages that have changed since `ShardState.touched` was told. Not part of the state."""
    encoded: Annotated[dict[Page, bytes] | None, Derived] = None
    """Later pages as they were last encoded, of a job that was closed. Not part of the state."""

    def attempt(self, task: str, index: int, number: int) -> Attempt | None:
        """Return one attempt, or `None`."""
        found = self.tasks.get(task)
        current = found.slots.get(index) if found else None
        if current is not None and current.number == number:
            return current
        return self.earlier.get((task, index, number))

    @property
    def rest(self) -> int | None:
        """Recorded time from which on it is kept for a while and then forgotten; `None`: something about it is under way.

        So rest a job that has finished, one that was aborted (which may be resumed, and is kept longer), and an id that is no job.
        """
        if self.live or self.timers or self.parked or self.held or self.waiting:
            return None
        if self.finished is not None:
            return self.finished
        if not self.opened:
            return self.rested or None
        return self.rested + ABORTED_LONGER if self.phase == "Aborted" else None


@dataclass(slots=True)
class ShardState:
    """Everything that one lifecycle shard knows."""

    forget_after: int
    """How long a finished job is kept (microseconds)."""
    orphan_wait: int
    """How long a pod waits for the managed job that it names (microseconds)."""
    max_replicas: int = REPLICAS
    """How many replicas a job may have, all tasks together."""
    jobs: dict[str, Job] = field(default_factory=dict)
    closed: dict[str, bytes] = field(default_factory=dict)
    """Finished jobs about which nothing is under way, encoded: id → what `codec` wrote."""
    closed_pages: dict[str, dict[Page, bytes]] = field(default_factory=dict)
    """Later pages of those among them that have some, encoded."""
    forgotten: Forgotten = field(default_factory=Forgotten)
    """Ids of forgotten jobs."""
    facts: ClusterFacts = field(default_factory=ClusterFacts)
    """What is known of clusters."""
    timers: list[tuple[int, str, str]] = field(default_factory=list)
    """Heap of (due, timer id, job id); entries whose timer is gone are skipped. Derived."""
    finished: OldestFirst[str] = field(default_factory=OldestFirst)
    """Job ids by `Job.rest`. Derived."""
    strangers: dict[str, int] = field(default_factory=dict)
    """Ids that are no job and rest → since when. Derived."""
    oldest_strangers: OldestFirst[str] = field(default_factory=OldestFirst)
    """The same. Derived."""
    on_node: dict[tuple[str, str], dict[str, str | dict[str, None]]] = field(default_factory=dict)
    """(Cluster, node) → job id → its pods that stand on it, live or with an object that is to go: the uid of one,
    or the uids of several (most jobs have one pod on a node, and a dict is 184 bytes). Derived."""
    awaited_on: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    """(Cluster, node that is gone) → jobs with a timer that ends the wait for their pods on it. Derived."""
    submitted: dict[str, dict[str, None]] = field(default_factory=dict)
    """Ids with which managed jobs were submitted that were somebody else's already → ids of those jobs. Derived."""
    steps: dict[str, int] = field(default_factory=dict)
    """Timers of kind `step` → when they are due. Derived."""
    warm: OrderedDict[str, Job] = field(default_factory=OrderedDict)
    """Jobs that were looked at and are not in `jobs` (closed ones, unknown ones), so that a decision and the events that follow
    from it concern the same object. Not part of the state."""
    warm_attempts: int = 0
    """Sum of their attempts. Not part of the state."""
    touched: dict[str, None] = field(default_factory=dict)
    """Subjects changed since they were last asked for."""
