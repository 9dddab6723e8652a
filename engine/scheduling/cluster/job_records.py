"""Records of a job in the shard's snapshot: its group, its head, its attempts and their decisions."""

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

Slot = tuple[str, int, int]
"""Task, index, number of the attempt."""


AnsweredKind = Literal["enqueued", "bound", "evicted", "noticed", "notice_ended"]
"""Decisions whose answer changes what the stage knows."""


class PendingDecision(Struct, array_like=True):
    """Decision that lifecycle has not answered yet."""

    kind: AnsweredKind
    due: Micros
    """Time from which it counts as late."""
    late: bool = False
    """Its time-out is recorded. Resources of the decision stay reserved: lifecycle may still accept it."""


class Claim(Struct, array_like=True):
    """Unanswered decision about an attempt."""

    decision: str
    node: str = ""
    """Node that it is bound to; empty: it is evicted."""


class PlaceClaim(Struct, array_like=True):
    """Place kept for a pod for which others were evicted, until the pod has a node or the time is over."""

    slot: Slot
    """The pod."""
    node: str
    until: Micros
    own: bool = False
    """Whether the evicted pods were of the claimant's queue."""


class Attempt(Struct, array_like=True):
    """Pod of an attempt, folded from the events of its job."""

    task: str
    index: int
    number: int
    place: int
    """Number among all attempts of the job; determines its snapshot record."""
    created: Micros
    phase: AttemptPhase = "Pending"
    node: str = ""
    """Node on which it was observed."""
    decided: str = ""
    """Node of an accepted binding decision."""
    leaving: bool = False
    """Its deletion was requested."""
    binding: str = ""
    """Id of the requested binding effect."""
    claim: Claim | None = None
    shape: PodShape | None = None
    """Shape of a pod that another scheduler places; `None`: the shape of its task."""
    bound: Micros = 0
    """Time of its binding; 0: not bound, or unknown."""
    running: Micros = 0
    """Start of its run; 0: not running, or unknown."""

    @property
    def slot(self) -> Slot:
        """Its key among the job's attempts."""
        return self.task, self.index, self.number

    @property
    def live(self) -> bool:
        """Whether the pod has not ended."""
        return self.phase in {"Pending", "Bound", "Running", "Terminating"}

    def stands(self) -> tuple[Status, str]:
        """Return the status of its task in the model, and the name of its node."""
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
    """Pod group of a job that this scheduler handles, as its specification states it."""

    spec: JobSpec
    """Specification without pod templates."""
    shapes: dict[str, PodShape]
    """Pod shape by task."""
    annotations: dict[str, str]
    labels: dict[str, str]


class JobRecord(Struct, array_like=True):
    """Record of a job, except its attempts."""

    cluster: str
    namespace: str
    created: Micros
    seen: int = 0
    """Sequence of the last absorbed event, if this scheduler handles it."""
    written: int = 0
    """Number of decisions about it."""
    noted: int = 0
    """Number of this stage's other records about it."""
    places: int = 0
    """Number of attempts so far."""
    aborted: bool = False
    """Aborting or Aborted: only then can it be resumed."""
    grouped: bool = True
    """It has a pod group; a job that is stopped or restarted has none."""
    parked: bool = False
    finished: bool = False
    phase: GroupPhase = "Pending"
    enqueued: bool = False
    """Lifecycle accepted its admission. The group may be Pending again when too few pods have a node (Volcano)."""
    enqueuing: str = ""
    """Id of the unanswered decision that admits it."""
    open: dict[str, PendingDecision] = {}
    """Unanswered decisions by id."""
    promised: list[tuple[str, int, int, str]] = []
    """Places promised by the last such decision, which other pods have yet to release."""
    unschedulable: str = ""
    """Reason of the last decision `unschedulable`, until pods of the job are bound."""
    reason: JobExplained | None = None
    """Pending reason last published."""
    refusals: int = 0
    """Decisions refused and bindings failed since one last succeeded."""
    retry: Micros = 0
    """End of the pause after a refusal or a failed binding; 0: no pause."""
    evictions: int = 0
    """Consecutive rounds that evicted pods for it; `backoff.back_off` starts a new count."""
    evicted: Micros = 0
    """Time of the last of them."""
    since: Micros = 0
    """Time since which it has had a pending reason without a break; updates become rarer with it."""
    told: Micros = 0
    """Time of the last published reason."""
    preemption_backoff: Micros = 0
    """Time until which no pod is evicted for it: earlier victims may have taken the resources again."""
    tenant: str = ""
    job_phase: JobPhase = "Pending"
    runs_since: Micros = 0
    """Start of its run: Running then, and some pod placed ever since, whatever the phase; 0: not running."""
    moved: str = ""
    """Id of the event that last changed the phase, or refused a notice."""
    notice: str = ""
    """Id of its open notice of preemption."""
    noticing: str = ""
    """Id of the unanswered decision about that notice."""
    answered: tuple[NoticeAnswer, str] | None = None
    """Latest answer to the notice that no round has handled yet, and its event."""
    declined: bool = False
    """A notice for it was withdrawn by command: no other is given."""
    told_deadline: Micros = 0
    """Deadline of a notice that it left with pods still running, kept so that it gains no time; 0: none."""
    told_words: list[int] = []
    """Checksums of its last published reasons (`words_of`), newest last."""
    claims: list[PlaceClaim] = []
    """Places kept for its pods."""
    evicting: dict[str, Micros] = {}
    """Eviction decision for it, unless refused → time until which the places of that promise are kept."""

    def is_held(self, now: Micros = 0) -> bool:
        """Return whether nothing is decided about the job; a pause that has ended by `now` does not count."""
        return self.parked or self.finished or not self.grouped or self.retry > now

    @property
    def left_notice(self) -> bool:
        """Whether this stage's records include it in a notice that its phase neither confirms nor is about to."""
        return bool(self.notice) and not self.noticing and self.job_phase not in {"Privileged", "WillEvicted"}
