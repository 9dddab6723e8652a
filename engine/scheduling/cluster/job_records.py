"""What the shard keeps of a job, as its records hold it: its group, its head, its attempts and their decisions."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from engine.events.jobs import NoticeAnswer
from engine.events.pod_shape import PodShape
from engine.events.scheduling import GroupPhase, JobExplained
from engine.events.times import Micros
from engine.scheduling.cluster.entities import Status
from statemachines.spec import JobSpec
from statemachines.vocabulary import AttemptPhase, JobPhase

__all__ = ["AnsweredKind", "Attempt", "Claim", "Group", "JobRecord", "PendingDecision", "PlaceClaim", "Slot"]

Slot = tuple[str, int, int]
"""Task, index, number of the attempt."""


AnsweredKind = Literal["enqueued", "bound", "evicted", "noticed", "notice_ended"]
"""Decisions whose answer changes what the stage knows."""


class PendingDecision(Struct, array_like=True):
    """A decision that lifecycle has not answered yet."""

    kind: AnsweredKind
    due: Micros
    """When it counts as late."""
    late: bool = False
    """It was told that there is no answer. What the decision holds stays held: lifecycle may still accept it."""


class Claim(Struct, array_like=True):
    """What a decision that is not answered says of an attempt."""

    decision: str
    node: str = ""
    """Where it is to run; empty: it is to give up its node."""


class PlaceClaim(Struct, array_like=True):
    """A place that is kept for a pod since others were evicted for it, until the pod has a node or time is up."""

    slot: Slot
    """The pod."""
    node: str
    until: Micros
    own: bool = False
    """The evicted pods were of the claimant's queue."""


class Attempt(Struct, array_like=True):
    """One pod, as its job's events show it."""

    task: str
    index: int
    number: int
    place: int
    """In the order of the job's attempts; says in which record it stands."""
    created: Micros
    phase: AttemptPhase = "Pending"
    node: str = ""
    """Where it was seen."""
    decided: str = ""
    """Where it is to run: a decision that was accepted."""
    leaving: bool = False
    """Its deletion was asked for."""
    binding: str = ""
    """Id of the requested binding."""
    claim: Claim | None = None
    shape: PodShape | None = None
    """Of a job that we do not schedule; else its task's."""
    bound: Micros = 0
    """When it got its node; 0: not yet, or not known."""
    running: Micros = 0
    """When it began to run; 0 as above."""

    @property
    def slot(self) -> Slot:
        """Its key among the job's attempts."""
        return self.task, self.index, self.number

    @property
    def live(self) -> bool:
        """Whether it has not ended."""
        return self.phase in {"Pending", "Bound", "Running", "Terminating"}

    def stands(self) -> tuple[Status, str]:
        """Return the state of its task in the model, and the name of its node."""
        match self.phase:
            case "Succeeded":
                return "Succeeded", ""
            case "Failed" | "Lost":
                return "Failed", ""
        decided = self.decided or (self.claim.node if self.claim is not None else "")
        if self.leaving or self.phase == "Terminating" or (self.claim is not None and not self.claim.node):
            return "Releasing", self.node or decided
        if self.phase != "Pending":
            return ("Running" if self.phase == "Running" else "Bound"), self.node
        return ("Binding", decided) if decided else ("Pending", "")


class Group(Struct, array_like=True):
    """What a job that we schedule asks for."""

    spec: JobSpec
    """Without pod templates."""
    shapes: dict[str, PodShape]
    """By task."""
    annotations: dict[str, str]
    labels: dict[str, str]


class JobRecord(Struct, array_like=True):
    """A job but for its attempts."""

    cluster: str
    namespace: str
    created: Micros
    seen: int = 0
    """Sequence of its last event taken, if we schedule it."""
    written: int = 0
    """Decisions about it."""
    noted: int = 0
    """Our own records about it."""
    places: int = 0
    """Attempts that it has had."""
    aborted: bool = False
    """It is being aborted, or is: the one phase from which it is resumed."""
    grouped: bool = True
    """It has a pod group: it is not being stopped or restarted."""
    parked: bool = False
    finished: bool = False
    phase: GroupPhase = "Pending"
    enqueued: bool = False
    """Lifecycle has let the group have pods. It may be Pending again, as in Volcano, when too few of its pods have a node."""
    enqueuing: str = ""
    """Id of a decision to let it in that is not answered."""
    open: dict[str, PendingDecision] = {}
    """Id → decision that is not answered."""
    promised: list[tuple[str, int, int, str]] = []
    """Last decision about places that others have yet to leave."""
    unschedulable: str = ""
    """Reason of the last such decision, until the job is given nodes."""
    reason: JobExplained | None = None
    """Why it waits, as was written down last."""
    refusals: int = 0
    """Decisions refused, and bindings failed, since the last that was carried out."""
    retry: Micros = 0
    """After a refusal or a failed binding: when it may be decided about again."""
    evictions: int = 0
    """Rounds in a row that have evicted pods for it; `preemption_backoff.back_off` begins a new row."""
    evicted: Micros = 0
    """When the last of them was."""
    since: Micros = 0
    """Since when it has had a reason without a break: from then on it is told ever more rarely."""
    told: Micros = 0
    """When it was last."""
    preemption_backoff: Micros = 0
    """Until when nobody else is evicted for it: whoever has left may have come back before it."""
    tenant: str = ""
    job_phase: JobPhase = "Pending"
    runs_since: Micros = 0
    """When its run began: it was Running, and some pod has had a place ever since, whatever its phase; 0: it does not run."""
    moved: str = ""
    """Id of the event that changed the phase, or refused a notice."""
    notice: str = ""
    """The open notice of preemption that it is part of."""
    noticing: str = ""
    """Id of the decision to make it part of it, until that is answered."""
    answered: tuple[NoticeAnswer, str] | None = None
    """The last answer to the notice that was not looked at yet, and its event."""
    declined: bool = False
    """Somebody has withdrawn a notice for it: it is given no other."""
    told_deadline: Micros = 0
    """It has left a notice with this deadline, and its pods run on: it gains no time so. 0: it has not."""
    told_words: list[int] = []
    """Checksums of the words of its last reasons (`words_of`), the latest last."""
    claims: list[PlaceClaim] = []
    """Places that are kept for its pods."""
    evicting: dict[str, Micros] = {}
    """Decision that evicts for it and was not refused → until when the places of the promise that it is part of are kept."""

    def is_held(self, now: Micros = 0) -> bool:
        """Return whether nothing is decided about the job, at a time at which a pause after a refusal may be over."""
        return self.parked or self.finished or not self.grouped or self.retry > now

    @property
    def left_notice(self) -> bool:
        """Whether it is in a notice by this stage's records, but in neither of the two phases, nor about to be."""
        return bool(self.notice) and not self.noticing and self.job_phase not in {"Privileged", "WillEvicted"}
