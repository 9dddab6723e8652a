"""Inputs: observations of pods, jobs and nodes, commands, custom events, reports.

Producers derive their ids from their content (design rule 3), so taking one twice changes nothing.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field
from pydantic import Field

from engine.events.bounds import HOST_PORTS, INPUT_BYTES, INT32, RESOURCES, TAINTS, TASKS
from engine.events.times import StatedMicros
from engine.events.values import Count, JsonObject, Labels, Name, Text
from engine.events.vocabulary import Data, event, upcaster
from statemachines.spec import Amount, Requests
from statemachines.value import Value
from statemachines.vocabulary import Action, AttemptPhase, EffectFailure, JobPhase, Rank

OTHER: Final = "Other"
"""Kind of jobs that group the pods of services: hidden, and on no invoice, unless requested."""

POD: Final = "Pod"
"""Kind of jobs that are a single pod without owner, or the pods that such a pod controls."""

DEFAULT_NAMESPACE: Final = "default"
"""Namespace of objects that name none, as in Kubernetes."""

ExitCode = Annotated[int, Field(ge=-INT32 - 1, le=INT32), Meta(ge=-INT32 - 1, le=INT32)]
"""32 bits with a sign, as Windows uses them."""


class Input(Data, kw_only=True):
    """Fields of every input."""

    arrived: StatedMicros | None = None
    """When its line of a recorded file arrived, if that is before `recordedtime`, which is raised to keep the order of lines."""


@event("lahar.pod.observed.v1", topic="pods")
class PodObserved(Input):
    """A pod as a watch, a list or a trace showed it, projected once at the edge by the pod table."""

    uid: Name
    job: Name
    """Job id: the uid of the controller owner, or of an owner above it; else the annotation `lahar/job`, else the pod's own uid."""
    name: Name
    phase: AttemptPhase
    created: StatedMicros
    namespace: Name = DEFAULT_NAMESPACE
    version: Name | None = None
    """resourceVersion; `None` where the source gives none."""
    kind: Name = OTHER
    """Kind of the job: that of its owner, `Pod` if it has none; `Other` for services: pods of a ReplicaSet and the like, and pods
    without owner that are always restarted."""
    owner: Name | None = None
    """Name of the controller owner, or of an owner above it; `None`: the pod has none."""
    through: Name | None = None
    """Name of the controller owner, where the job is an owner above it: labels name it, or the objects between were read."""
    controller: Name | None = None
    """uid of that controller owner."""
    chained: bool = False
    """The objects between the job and that controller owner were read: the job does not follow from labels, which may be edited."""
    service: Name | None = None
    """Kind of the owner, if that serves without end: ReplicaSet, StatefulSet, …"""
    managed: bool = False
    """It has the annotation `lahar/job`: it claims to be made for a managed job."""
    claimed: Name | None = None
    """Job named by `lahar/job`, if that is not `job` because the controller owner is another object."""
    task: Name | None = None
    index: Count | None = None
    """Slot of the task; `None`: the engine chooses one."""
    attempt: Count | None = None
    """The annotation `lahar/attempt`."""
    job_version: Count = 0
    """Version of the job for which the pod was made (Volcano's annotation)."""
    reason: Text | None = None
    exit_code: ExitCode | None = None
    """Exit code of the deciding container."""
    first_exit_code: ExitCode = 0
    """Exit code of `containerStatuses[0]`, 0 if it has not terminated; Volcano's exit-code policies compare it."""
    node: Name | None = None
    ready: bool = False
    """All containers are ready."""
    restarts: Amount = 0
    """Restarts in place, summed over regular containers."""
    init_restarts: Amount = 0
    requests: Requests = Requests()
    bound: StatedMicros | None = None
    running: StatedMicros | None = None
    terminating: StatedMicros | None = None
    deleting: bool = False
    """It has a deletion timestamp, from before or after its end."""
    deadline: StatedMicros | None = None
    """The deletion timestamp: when its grace period ends."""
    ended: StatedMicros | None = None
    """Latest `finishedAt`; `None` for an end without evidence, which is inferred from the last proof of life."""
    proof: StatedMicros | None = None
    """Latest time in the object: proof of life until then."""
    rank: Rank = "node"
    """Source of the evidence of the end."""
    disruption: Name | None = None
    """Reason of the condition DisruptionTarget=True, if present."""
    queue: Name | None = None
    tenant: Name | None = None
    project: Name | None = None
    user: Name | None = None
    listed: Literal["more", "last"] | None = None
    """Position among the pods of its job in one List: more follow, or it is the last. A List shows one moment, so the job's phase
    follows only after the last pod."""
    message: Text = ""
    """Messages of scheduler, kubelet and containers about its state; the events carry an excerpt."""
    resources: Annotated[dict[Name, Amount], Field(max_length=RESOURCES), Meta(max_length=RESOURCES)] = field(default_factory=dict)
    """Requests beside cpu, memory and `nvidia.com/gpu`: resource name → thousandths of the unit."""
    host_ports: Annotated[list[Name], Field(max_length=HOST_PORTS), Meta(max_length=HOST_PORTS)] = field(default_factory=list)
    """Its host ports: `53/UDP`, `53/UDP/10.0.0.1`."""
    priority_class: Name | None = None
    """Its PriorityClass: that of a job known by its pods alone."""
    preemptible: bool = False
    """Its label `volcano.sh/preemptable` is `true`: so is a job known by its pods alone."""
    restarted: StatedMicros | None = None
    """Latest start or end of a container or init container that has restarted in place; `None`: none has, or it shows no time."""
    written: StatedMicros | None = None
    """Latest time in its `managedFields`: when it was last written; a resize in place leaves no other. `None`: it shows none."""


@event("lahar.pod.deleted.v1", topic="pods")
class PodDeleted(Input):
    """The pod object is gone; `last` is its last known state, with the end derived from it.

    A full state without a known pod gives it too (`inferred`).
    """

    last: PodObserved
    inferred: bool = False
    """Missing from a full state: the deletion was not observed."""


@event("lahar.job.submitted.v1", topic="jobs", largest=INPUT_BYTES)
class JobSubmitted(Input):
    """A user submits a job for Lahar to manage, as a manifest. Answered by `lahar.job.opened` or `lahar.job.rejected`."""

    manifest: JsonObject
    strict: bool = False
    """Warnings (a name that Kubernetes would refuse) are errors."""
    principal: Name = ""
    """Sender as known to the interface that received it: the system user, a login; empty: unknown."""


@event("lahar.job.updated.v1", topic="jobs", largest=INPUT_BYTES)
class JobUpdated(Input):
    """A user changes a managed job with a whole new manifest, which may differ only in fields that Volcano lets change."""

    manifest: JsonObject
    principal: Name = ""
    """Sender as known to the interface that received it: the system user, a login; empty: unknown."""


@event("lahar.job.deleted.v1", topic="jobs")
class JobDeleted(Input):
    """The job object was deleted; its pods are to be stopped."""

    version: Name | None = None
    namespace: Name | None = None
    """`None`: not stated."""
    principal: Name = ""
    """Sender as known to the interface that received it: the system user, a login; empty: unknown."""
    deleted: StatedMicros | None = None
    """When the deletion was requested: the object's deletionTimestamp; `None`: it has none."""
    part: bool = False
    """As in `lahar.job.observed`."""


@event("lahar.job.observed.v1", topic="jobs")
class JobObserved(Input):
    """A job object of another controller, from a watch or a trace; or the status of a managed job."""

    name: Name
    kind: Name
    namespace: Name = DEFAULT_NAMESPACE
    version: Name | None = None
    phase: JobPhase | None = None
    """Phase in its status; `None`: none."""
    reason: Text | None = None
    created: StatedMicros | None = None
    since: StatedMicros | None = None
    """When it entered the phase, if the phase is no end and the object has the time, or a pod of it in the same List."""
    ended: StatedMicros | None = None
    queue: Name = "default"
    tenant: Name | None = None
    project: Name | None = None
    user: Name | None = None
    labels: Labels = field(default_factory=dict)
    min_available: Count = 0
    tasks: Annotated[dict[Name, Amount], Field(max_length=TASKS), Meta(max_length=TASKS)] = field(default_factory=dict)
    """Task name → replicas."""
    without_end: bool = False
    """The source has no end of this job (a trace row without a run time)."""
    message: Text = ""
    """Its status's message about the phase; the events carry an excerpt."""
    priority_class: Name | None = None
    """Name of its PriorityClass; `None`: it names none."""
    retry_count: Count | None = None
    """Retries that its controller counts; `None`: it counts none."""
    job_version: Count | None = None
    """Times its controller killed the whole job (Volcano `status.version`)."""
    owner_decides: bool = False
    """Its controller states the phase. Otherwise Pending and Running follow from counts of pods, and observed pods are better."""
    written: StatedMicros | None = None
    """Latest time in its `managedFields`: when it was last written; `None`: it shows none."""
    runs_again: bool = False
    """Its controller can run it again after an end that it stated, as a SparkApplication whose specification changes."""
    part: bool = False
    """Another object controls it and has its pods: it opens no job of its own."""


@event("lahar.command.issued.v2", topic="jobs")
class CommandIssued(Input):
    """A user or an operator requests an action on a job. Answered by `lahar.job.action_taken` or `lahar.command.refused`.

    `Discard` is about a dead letter, whose id is the subject. Answered by `lahar.dead_letter.discarded`. `AcknowledgeNotice` (to a
    victim) and `WithdrawNotice` (to the preemptor) are about the notice of preemption that the job is part of. Answered by
    `lahar.job.notice_answered`.
    """

    action: Literal[Action, "Unpark", "Discard", "AcknowledgeNotice", "WithdrawNotice"]
    by: Text = ""
    """Stated sender."""
    reason: Text = ""
    task: Name | None = None
    index: Count | None = None
    """Replica of the task (RestartPod)."""
    partition: Count | None = None
    """Partition of the task (RestartPartition)."""
    principal: Name = ""
    """Sender as known to the interface that received it: the system user, a login; empty: unknown."""
    notice: Name = ""
    """Which notice is answered; refused if the job is part of another one by then. Empty: the one that it is part of."""


@upcaster("lahar.command.issued.v1", "lahar.command.issued.v2")
def _command_v1(data: dict[str, Any]) -> dict[str, Any]:
    """v1 named its target in one string, `TASK` or `TASK/INDEX`."""
    target = data.pop("target", None)
    if target is not None:
        task, _, index = target.partition("/")
        data["task"] = task
        if index:
            data["index"] = int(index)
    return data


@event("lahar.custom.raised.v1", topic="jobs")
class CustomEventRaised(Input):
    """A declared custom event is raised from outside."""

    event: Name
    data: JsonObject = field(default_factory=dict)
    task: Name | None = None
    by: Text = ""
    principal: Name = ""
    """Sender as known to the interface that received it: the system user, a login; empty: unknown."""


@event("lahar.effect.reported.v1", topic="jobs")
class EffectReported(Input):
    """Outcome of a requested effect or of a callback."""

    effect: Name
    """Id of the `lahar.effect.requested`, or of the callback's delivery."""
    outcome: Literal["done", "failed", "disabled", "resumed"]
    name: Name = ""
    """Callback or endpoint."""
    message: Text = ""
    reason: EffectFailure | None = None
    """Why the API server refused it, if known."""
    principal: Name = ""
    """Sender as known to the interface that received it: the system user, a login; empty: unknown."""


@event("lahar.import.row_unreadable.v1", topic="jobs")
class RowUnreadable(Input):
    """An invalid row of a trace. Becomes `lahar.import.row_rejected`."""

    format: Name
    line: Amount
    """Line of the file, the header being line 1."""
    reason: Text


class Taint(Value):
    """A taint of a node, which its pods must tolerate."""

    key: Name
    value: Name = ""
    effect: Name = "NoSchedule"
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""


@event("lahar.node.observed.v1", topic="cluster")
class NodeObserved(Input):
    """A node as a watch, a list or a file showed it."""

    name: Name
    version: Name | None = None
    ready: Literal["True", "False", "Unknown"] = "True"
    """Status of the condition Ready."""
    unreachable: bool = False
    """It has the taint `node.kubernetes.io/not-ready` or `…/unreachable`."""
    unschedulable: bool = False
    cpu_milli: Amount = 0
    memory_bytes: Amount = 0
    gpu: Amount = 0
    pods: Amount = 0
    type: Name | None = None
    """Label `node.kubernetes.io/instance-type`."""
    gpu_model: Name | None = None
    """Label `nvidia.com/gpu.product`, or the source's own name."""
    labels: Labels = field(default_factory=dict)
    uid: Name | None = None
    resources: Annotated[dict[Name, Amount], Field(max_length=RESOURCES), Meta(max_length=RESOURCES)] = field(default_factory=dict)
    """Capacity beside cpu, memory and pods: resource name → thousandths of the unit; devices by their own names."""
    taints: Annotated[list[Taint], Field(max_length=TAINTS), Meta(max_length=TAINTS)] = field(default_factory=list)


@event("lahar.node.deleted.v1", topic="cluster")
class NodeDeleted(Input):
    """The node object is gone."""

    name: Name
    version: Name | None = None
    uid: Name | None = None


@event("lahar.object.applied.v1", topic="cluster", largest=INPUT_BYTES)
class ObjectApplied(Input):
    """An object of the cluster was given with `lahar apply` or observed."""

    kind: Literal["Queue", "Tenant", "PriorityClass", "Grant", "PriceBook", "ResourceQuota", "PodDisruptionBudget"]
    name: Name
    """For a ResourceQuota and a PodDisruptionBudget `NAMESPACE/NAME`."""
    spec: JsonObject = field(default_factory=dict)
    """Its specification, validated at the edge: for a Queue with its `state` and `hierarchy`, for a ResourceQuota `hard`, `used`,
    its namespace's `weight` and whether it is `scoped`, for a PodDisruptionBudget its `selector` and `disruptionsAllowed`."""
    version: Name | None = None
    uid: Name | None = None


@event("lahar.object.deleted.v1", topic="cluster")
class ObjectDeleted(Input):
    """An object of the cluster is gone."""

    kind: Literal["Queue", "Tenant", "PriorityClass", "Grant", "PriceBook", "ResourceQuota", "PodDisruptionBudget"]
    name: Name
    """As in `lahar.object.applied`."""
    version: Name | None = None
    uid: Name | None = None
