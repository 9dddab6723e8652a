"""Entities of the model: tasks (one pod each), pod classes, jobs (pod groups) and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.events.pod_shape import PREEMPTABLE, PodShape, parse_bool
from engine.events.scheduling import GroupPhase
from engine.kubernetes.reading.accelerators import BUILT_IN
from engine.scheduling.cluster.amounts import PODS, Amounts, bounded, is_nothing
from engine.scheduling.cluster.notices import Preemption
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.cluster.sub_groups import SubGroups

Status = Literal["Pending", "Allocated", "Pipelined", "Binding", "Bound", "Running", "Releasing", "Succeeded", "Failed", "Unknown"]
"""Task statuses of Volcano. Pipelined: promised resources that other pods have yet to release."""

Minimum: TypeAlias = tuple[tuple[str, float], ...]
"""Minimum resources of a job as a hashable value."""

ONE_POD: Final = 1000
"""Thousandths, as all amounts but memory."""


class Effect(NamedTuple):
    """Effect of a task status on the sums of the node, the job and the queue."""

    idle: bool
    """Its request is subtracted from the node's idle resources."""
    future: bool
    """Its request is subtracted from the resources idle once releasing pods are gone (Volcano `FutureIdle`)."""
    counted: bool
    """It counts for the share of its job and queue, also when only promised (Volcano fires the same events)."""
    wanted: bool
    """It counts for the requests of its queue."""
    ready: bool
    """It counts as ready for its gang (Volcano `ReadyTaskNum`, except pending best-effort tasks)."""
    waiting: bool = False
    """It is pending."""

    @property
    def placed(self) -> bool:
        """Whether it counts as placed, or promised a place, for its sub-group."""
        return self.future or self.ready


EFFECTS: Final[dict[Status, Effect]] = {
    "Pending": Effect(idle=False, future=False, counted=False, wanted=True, ready=False, waiting=True),
    "Allocated": Effect(idle=True, future=True, counted=True, wanted=True, ready=True),
    "Pipelined": Effect(idle=False, future=True, counted=True, wanted=True, ready=False),
    "Binding": Effect(idle=True, future=True, counted=True, wanted=True, ready=True),
    "Bound": Effect(idle=True, future=True, counted=True, wanted=True, ready=True),
    "Running": Effect(idle=True, future=True, counted=True, wanted=True, ready=True),
    "Releasing": Effect(idle=True, future=False, counted=False, wanted=False, ready=False),
    "Succeeded": Effect(idle=False, future=False, counted=False, wanted=False, ready=True),
    "Failed": Effect(idle=False, future=False, counted=False, wanted=False, ready=False),
    "Unknown": Effect(idle=True, future=True, counted=False, wanted=False, ready=False),
}

_NONE: Final[Mapping[str, Task]] = {}


NO_EFFECT: Final = Effect(idle=False, future=False, counted=False, wanted=False, ready=False)
"""Effect of a task that does not exist."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class PodClass:
    """Pods of one shape, filtered and scored together. Caches hold classes by weak references."""

    shape: PodShape
    request: Amounts
    """Resources, including one of `pods`."""
    items: tuple[tuple[str, float], ...]
    best_effort: bool
    """It requests no resources (Kubernetes BestEffort)."""
    preemptable: bool
    labels: dict[str, str]
    annotations: dict[str, str]
    gpus: float = 0.0
    """GPUs by the built-in table of accelerators; measures the cost of stopping it."""
    users: int = 0
    """Number of tasks of this class."""
    vector: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 1), np.int64))
    """Its request, one row per resource of the node table; a column like `least`."""
    least: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 1), np.int64))
    """Least remainder on a node with it: 0 of each requested resource, unbounded for the others."""

    @classmethod
    def of(cls, shape: PodShape) -> PodClass:
        """Return the class of pods with a shape."""
        request: Amounts = {name: bounded(amount) for name, amount in shape.requests if amount}
        best_effort = is_nothing(request)
        request[PODS] = ONE_POD
        return cls(
            shape,
            request,
            tuple(request.items()),
            best_effort,
            shape.preemptable,
            dict(shape.labels),
            dict(shape.annotations),
            float(sum(BUILT_IN.gpus({name: int(amount) for name, amount in request.items()}, 1000).values())),
        )


class KeptPlace(NamedTuple):
    """Place kept for a task for which others were evicted."""

    node: str
    until: int
    """Microseconds."""
    own: bool
    """The evicted pods were of its own queue, so the queue held the place before."""


class Taint(NamedTuple):
    """Taint of a node (Kubernetes)."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """Node of the cluster."""

    name: str
    allocatable: Amounts = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    """Whether it is cordoned."""
    row: int = -1
    """Column in the node table's arrays; -1: in no array."""
    tasks: dict[str, Task] = field(default_factory=dict)
    """Tasks that hold or are promised its resources, by key."""


@dataclass(slots=True, eq=False, repr=False)
class Task:
    """Pod: one attempt of a replica."""

    key: str
    """Unique in the cluster: `namespace/name`."""
    job: Job
    pod_class: PodClass
    role: str = ""
    """Name of the job's task that it is a replica of."""
    index: int = 0
    created: int = 0
    """Microseconds."""
    priority: int = 1
    status: Status = "Pending"
    node: Node | None = None
    sub_group: str = ""
    """Key of its sub-group; empty: none."""
    bound: int = 0
    """Time of its binding (microseconds); 0: not bound, or unknown."""
    running: int = 0
    """Start of its run (microseconds); 0: not running, or unknown."""


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class Job:
    """Pod group of a job."""

    key: str
    """Unique in the cluster: `namespace/name`."""
    namespace: str
    queue: str
    min_member: int = 0
    role_minimum: dict[str, int] = field(default_factory=dict)
    """Role → least number of members (Volcano `minTaskMember`)."""
    min_resources: Amounts | None = None
    phase: GroupPhase = "Pending"
    priority: int = 0
    created: int = 0
    """Microseconds."""
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    sub_groups: SubGroups | None = None
    """Gangs within the job; `None`: it has none."""
    held: bool = False
    """Nothing is decided about it; its pods only hold their resources."""
    backing_off: bool = False
    """Preemption backoff: no pod is evicted for it."""
    claims: dict[str, KeptPlace] = field(default_factory=dict)
    """Task key → place kept for it since others were evicted."""
    preemption: Preemption = field(default_factory=Preemption)
    """Facts for preemption with notice."""

    path: tuple[Queue, ...] = ()
    """Its queue and that queue's ancestors; empty: the queue does not exist."""
    tasks: dict[str, Task] = field(default_factory=dict)
    by_status: dict[Status, dict[str, Task]] = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)
    """Resources of tasks that have a node, or the promise of one, and are not releasing it."""
    allocations: int = 0
    """Number of changes of `allocated` so far."""
    requested: Amounts = field(default_factory=dict)
    """`allocated` and the requests of pending tasks."""
    ready: int = 0
    """Tasks ready for the gang, except pending best-effort ones."""
    role_ready: dict[str, int] = field(default_factory=dict)
    waiting_best_effort: int = 0
    """Pending best-effort tasks; they count as ready, since any node can take them (Volcano)."""
    role_best_effort: dict[str, int] = field(default_factory=dict)
    role_pending: dict[str, int] = field(default_factory=dict)

    def with_status(self, status: Status) -> Mapping[str, Task]:
        """Return the tasks with a status, by key; a view that is valid until the next move."""
        return self.by_status.get(status, _NONE)

    def count(self, *statuses: Status) -> int:
        """Return the number of tasks with one of the statuses."""
        by_status = self.by_status
        return sum([len(by_status[status]) for status in statuses if status in by_status])

    @property
    def preemptable(self) -> bool:
        """Whether an annotation, or else a label, declares the group preemptable; the default is not (Volcano)."""
        return parse_bool(self.annotations.get(PREEMPTABLE) or self.labels.get(PREEMPTABLE) or "")

    @property
    def minimum(self) -> Minimum | None:
        """Minimum resources as a hashable key; `None`: the job states none."""
        return None if self.min_resources is None else tuple(self.min_resources.items())

    @property
    def role_minimum_total(self) -> int:
        """Sum of the minima of roles (Volcano `TaskMinAvailableTotal`)."""
        return sum(self.role_minimum.values())
