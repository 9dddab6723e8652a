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

ABORTED_LONGER: Final = 335 * 86_400 * SECOND
"""Additional time for which an aborted job is kept (microseconds): a year in all with the default of 30 days."""
Derived = Field(exclude=True)
"""Marks derived fields, which are not encoded."""


@dataclass(slots=True)
class Attempt:
    """A pod of a replica, or the request for one."""

    task: str
    index: int
    number: int
    phase: AttemptPhase = "Pending"
    reason: str | None = None
    uid: str | None = None
    """uid; `None` until its pod is observed."""
    pod: str = ""
    version: str | None = None
    """resourceVersion of the last observation that caused an event."""
    seen: int = 0
    """Recorded time of the last observation that showed it live and caused an event, or of the report of its creation."""
    created: int = 0
    bound: int | None = None
    running: int | None = None
    ended: int | None = None
    since: int = 0
    """Start of its current phase."""
    node: str | None = None
    decided: str | None = None
    """Node that a decision gives it, until it is observed on a node."""
    binding: str = ""
    """Id of the request to bind its pod to that node, until the outcome is reported."""
    restarts: int = 0
    """Container restarts in place, init containers included."""
    ready: bool = False
    requests: Requests = field(default_factory=Requests)
    job_version: int = 0
    kill: str | None = None
    """End reason that it will have, once its deletion is requested; `None`: not requested."""
    killed: int = 0
    """Time of that request."""
    disruption: str | None = None
    deadline: int | None = None
    """End of the grace period of its deletion."""
    object: ObjectState = "absent"
    """State of its pod object, which may outlive it and occupies the replica until it is gone."""
    effect: str = ""
    """Id of the last effect requested for it."""
    asked: int = 0
    """Recorded time of that request."""
    creation: str = ""
    """Id of the request to create its pod, if its deletion was requested before the creation was reported."""
    tries: int = 0
    """Number of failures of that effect."""
    unknown: int = 0
    """Number of consecutive answers "no such pod" of the API server."""
    doubted: bool = False
    """True if its creation was reported as failed, but may have succeeded."""
    replaceable: bool = False
    """True if it has ended, and its replica is open for another attempt once its object is gone."""
    exit_code: int | None = None
    rank: Rank = "node"
    past: bool = False
    """True if its replica already had a newer pod when it was first observed."""
    terminating: bool = False
    """True if it was observed when its deletion began."""
    owner: str | None = None
    """Owner of its pod since its controller changed (`AttemptChanged.owner`); `None`: unchanged."""
    controller: str | None = None
    """uid of the first controller of its pod; `None` if that is the job."""
    adopter: str | None = None
    """uid of the controller after a change; `None`: unchanged."""
    late: tuple[str, str | None, int | None, Rank] | None = None
    """Last late fact: phase, reason, end, rank."""
    gist: str = ""
    """Digest of the last message in an event of its current phase and reason."""
    place: Annotated[int, Derived] = 0
    """Index in `Job.attempts`. Derived."""

    @property
    def live(self) -> bool:
        """True while it has not ended."""
        return self.ended is None


def category(attempt: Attempt) -> str | None:
    """Return the counter of a replica's current attempt; `None`: no counter, the replica is open.

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
    """True while its attempts are being replaced."""
    completed_raised: bool = False
    """True if TaskCompleted was raised for the current attempts."""
    failed_raised: bool = False
    sized: bool = True
    """True if the number of replicas comes from a specification, not only from observed pods."""
    slots: Annotated[dict[int, Attempt], Derived] = field(default_factory=dict)
    """Current attempt by index. Derived."""
    place: Annotated[int, Derived] = 0
    """Index in `Job.tasks`. Derived."""
    open: Annotated[list[int], Derived] = field(default_factory=list)
    """Replicas without an attempt, ascending. Derived."""
    left: Annotated[Mapping[int, None], Derived] = field(default_factory=empty)
    """Replicas to be replaced whose last pod still exists without a requested deletion. Derived."""
    numbers: Annotated[Mapping[int, int], Derived] = field(default_factory=empty)
    """By index, the highest number of an attempt that was first observed after a newer one of its replica. Derived."""
    next_index: Annotated[int, Derived] = 0
    """First index above all slots. Derived."""
    latest: Annotated[int, Derived] = 0
    """Latest start of a current phase of its attempts. Derived."""
    counts: Annotated[Counters, Derived] = field(default_factory=Counters)
    """Current attempts by counter. Derived."""
    ready: Annotated[int, Derived] = 0
    """Number of current attempts that succeeded, or run with all containers ready. Derived."""
    restart_sum: Annotated[int, Derived] = 0
    """Container restarts of its pending and running attempts. Derived."""

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
    """True while paused, until the job is unparked and has no held inputs."""
    depth: int = 0


@dataclass(slots=True)
class Deferred:
    """Action that waits for the end of a restart."""

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
    """Name of a part of a job with a record of its own (`job_pages`)."""

    table: str
    """`spec`, `tasks`, `attempts`, or a `Table`."""
    number: int
    """Page number, from 1: the first page of a table is part of the job's own record."""


@dataclass(slots=True)
class Apart:
    """Later pages of a table."""

    added: int = 0
    """Number of entries ever added; an entry with a page of its own counts as a full page."""
    pages: Annotated[dict[int, dict[str, Any]], Derived] = field(default_factory=dict)
    """Entries by page. Derived."""
    page_of: Annotated[dict[str, int], Derived] = field(default_factory=dict)
    """Page by entry. Derived."""


@dataclass(slots=True)
class Waiters:
    """Pods of one cluster and namespace that wait for a job."""

    ids: dict[str, None] = field(default_factory=dict)
    """Ids of their inputs, in order."""
    size: int = 0
    """Size of these inputs (bytes)."""


@dataclass(slots=True)
class Job:
    """A job; or, with `opened` 0, an id that is no job yet (pods before their job, refused commands)."""

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
    """Digest of the last message of its object in an event."""
    since: int = 0
    opened: int = 0
    """Sequence of its `job.opened`; 0: not opened."""
    owner_known: bool = False
    """True if the job object itself was observed: its status decides the end, not the attempts."""
    owner_decides: bool = False
    """True if the status also decides the beginning: attempts change no phase."""
    object_version: str | None = None
    inferred: bool = False
    version: int = 0
    retry_count: int = 0
    restarts: int = 0
    grouped: bool = True
    """True if its PodGroup exists; false from a kill of the whole job until it is Pending again (Volcano deletes the PodGroup)."""
    enqueued: bool = False
    """True if a decision has admitted its group (Volcano: the PodGroup is Inqueue). Used only for jobs that Lahar schedules."""
    settled: int = 0
    """Sequence of the last event that changed the specification or the group. A decision based on an earlier one is stale."""
    requeued: bool = False
    """True if the current restart is a RequeueJob, which does not check the retries."""
    notice: str = ""
    """Notice of preemption in the phases Privileged and WillEvicted; otherwise empty."""
    deferred: Deferred | None = None
    object_deleted: int | None = None
    """Recorded time of the observed deletion of the job object."""
    sequence: int = 0
    finished: int | None = None
    """Recorded time at which it entered Completed, Failed or Terminated."""
    closing: str = ""
    """Id of the event that finished it; for an aborted job or an id that is no job, of the last event."""
    rested: int = 0
    """Recorded time of the last event of an aborted job or an id that is no job."""
    fired: Mapping[str, None] = field(default_factory=empty)
    """Raise rules that have fired in the job's current version: `rule/subject`."""
    seen: Mapping[str, None] = field(default_factory=empty)
    """Ids of the last inputs without a version that caused an event."""
    parked: bool = False
    held: Mapping[str, dict[str, Any]] = field(default_factory=empty)
    """Held inputs of a parked job as CloudEvents, by id, in order."""
    waiting: Mapping[str, dict[str, Any]] = field(default_factory=empty)
    """Pods that wait for the job as CloudEvents, by id, in order."""
    tasks: dict[str, Task] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    """All attempts in order of their start."""
    timers: Mapping[str, Timer] = field(default_factory=empty)
    lost: Annotated[Mapping[str | None, dict[str, Timer]], Derived] = field(default_factory=empty)
    """Timers that end the wait for lost pods, by the deleted node. Derived."""
    delays: Annotated[Mapping[str | None, dict[str, Timer]], Derived] = field(default_factory=empty)
    """Timers of delayed actions, by the name of their pod. Derived."""
    retries: Annotated[Mapping[tuple[str | None, int | None, int | None], None], Derived] = field(default_factory=empty)
    """Attempts with a timer that repeats the request of an effect: task, index, number. Derived."""
    by_uid: Annotated[dict[str, Attempt], Derived] = field(default_factory=dict)
    """Attempts by the uid of their pod. Derived."""
    earlier: Annotated[Mapping[tuple[str, int, int], Attempt], Derived] = field(default_factory=empty)
    """Attempts that are not their replica's current one, by task, index and number. Derived."""
    by_effect: Annotated[Mapping[str, Attempt], Derived] = field(default_factory=empty)
    """Attempts by their last requested effect, while their object is not gone. Derived."""
    rules: Annotated[tuple[RaiseRule, ...], Derived] = ()
    """Its raise rules, those of `main: true` included. Derived."""
    matched: Mapping[str, None] = field(default_factory=empty)
    """Matches of raise rules with a `count` in the job's current version: `rule/subject`."""
    matches: Annotated[Mapping[int, int], Derived] = field(default_factory=empty)
    """Number of these matches, by rule. Derived."""
    counts: Annotated[Counters, Derived] = field(default_factory=Counters)
    """Sum of the tasks' counters. Derived."""
    live: Annotated[int, Derived] = 0
    """Number of attempts that have not ended. Derived."""
    held_bytes: Annotated[int, Derived] = 0
    """Size of the held inputs. Derived."""
    claims: Annotated[Mapping[Claim, int], Derived] = field(default_factory=empty)
    """Claims of held inputs to open the job, without names, with the number of inputs of each. Derived."""
    waiting_bytes: Annotated[int, Derived] = 0
    """Size of the waiting inputs. Derived."""
    waiters: Annotated[Mapping[tuple[str, str], Waiters], Derived] = field(default_factory=empty)
    """Waiting inputs by cluster and namespace. Derived."""
    steps: Annotated[int, Derived] = 0
    """Pending steps that release inputs and request pods: 0 or 1. Derived."""
    kills: Annotated[Mapping[str, Timer], Derived] = field(default_factory=empty)
    """Pending steps of kills. Derived."""
    apart: dict[Table, Apart] | None = None
    """Tables with later pages; `None`: none, which saves the dict of every small job."""
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
        """Recorded time since which it is idle and waits to be forgotten; `None`: it is active.

        Idle are finished jobs, aborted ones (which may be resumed, and are kept longer), and ids that are no job.
        """
        if self.live or self.timers or self.parked or self.held or self.waiting:
            return None
        if self.finished is not None:
            return self.finished
        if not self.opened:
            return self.rested or None
        return self.rested + ABORTED_LONGER if self.phase == "Aborted" else None
