"""The job aggregate: one job with its tasks, replicas, attempts, timers and held inputs.

Derived fields (counters, indexes) make the cost of an event independent of the number of replicas; `codec` does not write them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field

from engine.events.actions import TimerKind
from engine.events.times import SECOND
from engine.lifecycle.claims import Claim
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
    "Table",
    "Task",
    "Timer",
    "Waiters",
    "category",
]

ABORTED_LONGER: Final = 335 * 86_400 * SECOND
"""Extra time that an aborted job is kept (microseconds): a year in all with the default of 30 days."""
Derived = Field(exclude=True)
"""Marks fields that are rebuilt from the others and therefore not written."""


@dataclass(slots=True)
class Attempt:
    """One pod of one replica, or the request for one."""

    task: str
    index: int
    number: int
    phase: AttemptPhase = "Pending"
    reason: str | None = None
    uid: str | None = None
    """`None` until its pod is observed."""
    pod: str = ""
    version: str | None = None
    """resourceVersion of the last observation that left an event."""
    seen: int = 0
    """Recorded time of the last observation that showed it live and left an event, or of the report that it was made."""
    created: int = 0
    bound: int | None = None
    running: int | None = None
    ended: int | None = None
    since: int = 0
    """Start of its present phase."""
    node: str | None = None
    decided: str | None = None
    """Node that a decision gives it, until it is observed on one."""
    binding: str = ""
    """Id of the request to bind its pod to that node, until its outcome is reported."""
    restarts: int = 0
    """Container restarts in place, init containers included."""
    ready: bool = False
    requests: Requests = field(default_factory=Requests)
    job_version: int = 0
    kill: str | None = None
    """Reason that its end will have, once its deletion is requested; `None`: not requested."""
    killed: int = 0
    """Time of that request."""
    disruption: str | None = None
    deadline: int | None = None
    """End of the grace period of its deletion."""
    object: ObjectState = "absent"
    """Its pod object, which may outlive it and occupies the replica until it is gone."""
    effect: str = ""
    """Id of the last effect requested for it."""
    asked: int = 0
    """Recorded time of that request."""
    creation: str = ""
    """Id of the request to create its pod, while that is unreported and its deletion is already requested."""
    tries: int = 0
    """How often that effect has failed."""
    unknown: int = 0
    """How often in a row the API server answered "no such pod"."""
    doubted: bool = False
    """Its creation was reported failed, but may have been carried out."""
    replaceable: bool = False
    """It has ended, and its replica is open for another attempt as soon as its object is gone."""
    exit_code: int | None = None
    rank: Rank = "node"
    past: bool = False
    """It was first observed when its replica had a newer pod already."""
    terminating: bool = False
    """It was observed when its deletion began."""
    owner: str | None = None
    """Owner of its pod since its controller changed (`AttemptChanged.owner`); `None`: it has not."""
    controller: str | None = None
    """uid of the first controller of its pod, if that is not the job; `None`: it is."""
    adopter: str | None = None
    """uid of the controller since it changed; `None`: it has not."""
    late: tuple[str, str | None, int | None, Rank] | None = None
    """Last late fact: phase, reason, end, rank."""
    gist: str = ""
    """Gist of the last message in an event of its present phase and reason."""
    place: Annotated[int, Derived] = 0
    """Index in `Job.attempts`. Derived."""

    @property
    def live(self) -> bool:
        """It has not ended."""
        return self.ended is None


def category(attempt: Attempt) -> str | None:
    """Return the counter of a replica's current attempt; `None`: in none, the replica is open.

    Volcano: a pod whose deletion was requested or observed is terminating and in no other counter, whatever its phase.
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
    """Its attempts are being replaced."""
    completed_raised: bool = False
    """TaskCompleted was raised for the current attempts."""
    failed_raised: bool = False
    sized: bool = True
    """The number of replicas is known from a specification, not only from observed pods."""
    slots: Annotated[dict[int, Attempt], Derived] = field(default_factory=dict)
    """Index → current attempt. Derived."""
    place: Annotated[int, Derived] = 0
    """Index in `Job.tasks`. Derived."""
    open: Annotated[list[int], Derived] = field(default_factory=list)
    """Replicas that wait for an attempt, ascending. Derived."""
    left: Annotated[Mapping[int, None], Derived] = field(default_factory=empty)
    """Replicas to be replaced whose last pod exists and has no requested deletion. Derived."""
    numbers: Annotated[Mapping[int, int], Derived] = field(default_factory=empty)
    """Highest number of an attempt first observed when its replica had a newer one already, by index. Derived."""
    next_index: Annotated[int, Derived] = 0
    """First index above all slots. Derived."""
    latest: Annotated[int, Derived] = 0
    """Latest start of a present phase of its attempts. Derived."""
    counts: Annotated[Counters, Derived] = field(default_factory=Counters)
    """Current attempts by counter. Derived."""
    ready: Annotated[int, Derived] = 0
    """Current attempts that succeeded, or run with all containers ready. Derived."""
    restart_sum: Annotated[int, Derived] = 0
    """Container restarts over its pending and running attempts. Derived."""

    def note(self, attempt: Attempt) -> None:
        """Update `latest` after an attempt has entered a phase."""
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
    """Paused until the job is unparked and has no held inputs."""
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
    """Id of the event that deferred it."""


Table = Literal["seen", "fired", "matched", "timers", "held", "waiting"]
"""Tables of a job that grow independently of its tasks and attempts."""


class Page(NamedTuple):
    """Names a part of a job with a record of its own (`job_pages`)."""

    table: str
    """`spec`, `tasks`, `attempts`, or a `Table`."""
    number: int
    """From 1: the first page of a table is part of the job's own record."""


@dataclass(slots=True)
class Apart:
    """The later pages of a table."""

    added: int = 0
    """Places ever taken in them; an entry with a page of its own takes all places of that page."""
    pages: Annotated[dict[int, dict[str, Any]], Derived] = field(default_factory=dict)
    """Page → its entries. Derived."""
    page_of: Annotated[dict[str, int], Derived] = field(default_factory=dict)
    """Entry → its page. Derived."""


@dataclass(slots=True)
class Waiters:
    """Pods of one cluster and namespace that wait for a job."""

    ids: dict[str, None] = field(default_factory=dict)
    """Ids of their inputs, in order."""
    size: int = 0
    """Size of these inputs (bytes)."""


@dataclass(slots=True)
class Job:
    """One job; or, with `opened` 0, an id that is no job yet (pods before their job, refused commands)."""

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
    """Gist of the last message of its object in an event."""
    since: int = 0
    opened: int = 0
    """Sequence of its `job.opened`; 0: not opened."""
    owner_known: bool = False
    """The job object itself was observed: its status decides the end, not the attempts."""
    owner_decides: bool = False
    """The status decides the beginning as well: attempts change no phase."""
    object_version: str | None = None
    inferred: bool = False
    version: int = 0
    retry_count: int = 0
    restarts: int = 0
    grouped: bool = True
    """Its PodGroup exists; False from a kill of the whole job until it is Pending again (Volcano deletes the PodGroup)."""
    enqueued: bool = False
    """A decision let its group have pods (Volcano: the PodGroup is Inqueue). Used only for jobs that Lahar schedules."""
    settled: int = 0
    """Sequence of the last event that changed the specification or the group. A decision made on an earlier one is stale."""
    requeued: bool = False
    """The restart under way is a RequeueJob, which does not test the retries."""
    notice: str = ""
    """Of Privileged and WillEvicted: the notice of preemption that it is part of."""
    deferred: Deferred | None = None
    object_deleted: int | None = None
    """Recorded time at which the job object was observed gone."""
    sequence: int = 0
    finished: int | None = None
    """Recorded time at which it entered Completed, Failed or Terminated."""
    closing: str = ""
    """Id of the event that finished it; of an aborted job or an id that is no job: of the last event."""
    rested: int = 0
    """Recorded time of the last event of an aborted job or an id that is no job."""
    fired: Mapping[str, None] = field(default_factory=empty)
    """Raise rules that have fired in the job's present version: `rule/subject`."""
    seen: Mapping[str, None] = field(default_factory=empty)
    """Ids of the last inputs without a version of their own that left an event."""
    parked: bool = False
    held: Mapping[str, dict[str, Any]] = field(default_factory=empty)
    """Parked inputs as CloudEvents, by id, in order."""
    waiting: Mapping[str, dict[str, Any]] = field(default_factory=empty)
    """Pods that wait for the job as CloudEvents, by id, in order."""
    tasks: dict[str, Task] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    """All attempts, in the order in which they started."""
    timers: Mapping[str, Timer] = field(default_factory=empty)
    lost: Annotated[Mapping[str | None, dict[str, Timer]], Derived] = field(default_factory=empty)
    """Timers that end the wait for lost pods, by the deleted node. Derived."""
    delays: Annotated[Mapping[str | None, dict[str, Timer]], Derived] = field(default_factory=empty)
    """Timers of delayed actions, by the name of their pod. Derived."""
    retries: Annotated[Mapping[tuple[str | None, int | None, int | None], None], Derived] = field(default_factory=empty)
    """Attempts with a timer that requests an effect again: task, index, number. Derived."""
    by_uid: Annotated[dict[str, Attempt], Derived] = field(default_factory=dict)
    """Attempts by the uid of their pod. Derived."""
    earlier: Annotated[Mapping[tuple[str, int, int], Attempt], Derived] = field(default_factory=empty)
    """Attempts that are not their replica's current one, by task, index and number. Derived."""
    by_effect: Annotated[Mapping[str, Attempt], Derived] = field(default_factory=empty)
    """Attempts by their last requested effect, while their object is not gone. Derived."""
    rules: Annotated[tuple[RaiseRule, ...], Derived] = ()
    """Its raise rules, those of `main: true` included. Derived."""
    matched: Mapping[str, None] = field(default_factory=empty)
    """Matches of raise rules with a `count` in the job's present version: `rule/subject`."""
    matches: Annotated[Mapping[int, int], Derived] = field(default_factory=empty)
    """Number of these matches, by rule. Derived."""
    counts: Annotated[Counters, Derived] = field(default_factory=Counters)
    """Sum of the tasks' counters. Derived."""
    live: Annotated[int, Derived] = 0
    """Attempts that have not ended. Derived."""
    held_bytes: Annotated[int, Derived] = 0
    """Size of the held inputs. Derived."""
    claims: Annotated[Mapping[Claim, int], Derived] = field(default_factory=empty)
    """Claims of held inputs to open the job, without names, with the number of inputs that make each. Derived."""
    waiting_bytes: Annotated[int, Derived] = 0
    """Size of the waiting inputs. Derived."""
    waiters: Annotated[Mapping[tuple[str, str], Waiters], Derived] = field(default_factory=empty)
    """Waiting inputs by cluster and namespace. Derived."""
    steps: Annotated[int, Derived] = 0
    """Pending steps that release inputs and request pods: 0 or 1. Derived."""
    kills: Annotated[Mapping[str, Timer], Derived] = field(default_factory=empty)
    """Pending steps of kills. Derived."""
    apart: dict[Table, Apart] | None = None
    """Tables that have later pages; `None`: none have, which saves the dict of every small job."""
    changed: Annotated[dict[Page, None] | None, Derived] = None
    """Later pages changed since they were last added to `ShardState.touched`. Not part of the state."""
    encoded: Annotated[dict[Page, bytes] | None, Derived] = None
    """Encoded later pages of a job that was closed before. Not part of the state."""

    def attempt(self, task: str, index: int, number: int) -> Attempt | None:
        """Return one attempt, or `None`."""
        found = self.tasks.get(task)
        current = found.slots.get(index) if found else None
        if current is not None and current.number == number:
            return current
        return self.earlier.get((task, index, number))

    @property
    def rest(self) -> int | None:
        """Recorded time since which it is idle, to be forgotten after a while; `None`: it is active.

        Idle are finished jobs, aborted ones (which may be resumed, and are kept longer), and ids that are no job.
        """
        if self.live or self.timers or self.parked or self.held or self.waiting:
            return None
        if self.finished is not None:
            return self.finished
        if not self.opened:
            return self.rested or None
        return self.rested + ABORTED_LONGER if self.phase == "Aborted" else None
