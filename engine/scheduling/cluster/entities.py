"""What the model consists of: tasks (one pod each), classes of pods that are alike, jobs (groups of pods), nodes."""

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

__all__ = [
    "EFFECTS",
    "NO_EFFECT",
    "ONE_POD",
    "Effect",
    "Job",
    "KeptPlace",
    "Minimum",
    "Node",
    "PodClass",
    "Status",
    "Taint",
    "Task",
]

Status = Literal["Pending", "Allocated", "Pipelined", "Binding", "Bound", "Running", "Releasing", "Succeeded", "Failed", "Unknown"]
"""Volcano's states of tasks. Pipelined: it has a place that others have yet to leave."""

Minimum: TypeAlias = tuple[tuple[str, float], ...]
"""Minimum resources of a job as a hashable value."""

ONE_POD: Final = 1000
"""Thousandths, as all amounts but memory."""


class Effect(NamedTuple):
    """What a task in a state takes: of its node, and of its job and queue."""

    idle: bool
    """Its request is missing from the node's idle resources."""
    future: bool
    """… and from what will be idle once everything that is being released is (Volcano `FutureIdle`)."""
    counted: bool
    """It counts for its job's and queue's share. Volcano fires the same events for a place that is only promised."""
    wanted: bool
    """It counts for what its queue asks for."""
    ready: bool
    """It counts for its gang (Volcano `ReadyTaskNum`, without best-effort ones that are pending)."""
    waiting: bool = False
    """It is pending."""

    @property
    def placed(self) -> bool:
        """It counts for the places that its sub-group has or is promised."""
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
"""Of a task that is not there."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class PodClass:
    """Pods of one shape: filtered and scored together. What is remembered of a class goes with it, so by weak references."""

    shape: PodShape
    request: Amounts
    """With the one place that each pod takes."""
    items: tuple[tuple[str, float], ...]
    best_effort: bool
    """It asks for nothing but a place."""
    preemptable: bool
    labels: dict[str, str]
    annotations: dict[str, str]
    gpus: float = 0.0
    """Its GPUs by the built-in table of accelerators: what stopping it costs."""
    users: int = 0
    """How many tasks of this class there are."""
    vector: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 1), np.int64))
    """Its request in all resources of the nodes' arrays; a column, as `least` is."""
    least: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 1), np.int64))
    """What must be left of a node's resources when it is there: 0 of those that it asks for, anything of the others."""

    @classmethod
    def of(cls, shape: PodShape) -> PodClass:
        """Return the class of a shape."""
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
    """A place that is kept for a task."""

    node: str
    until: int
    """Microseconds."""
    own: bool
    """Pods of its own queue have left it: the queue held it before."""


class Taint(NamedTuple):
    """A taint of a node (Kubernetes)."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """One node."""

    name: str
    allocatable: Amounts = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    """It is cordoned."""
    row: int = -1
    """Its column in the arrays; -1: it has none yet, or none any more."""
    tasks: dict[str, Task] = field(default_factory=dict)
    """By key, those that take something of it."""


@dataclass(slots=True, eq=False, repr=False)
class Task:
    """One pod: an attempt of one replica."""

    key: str
    """Unique in the cluster: `namespace/name`."""
    job: Job
    pod_class: PodClass
    role: str = ""
    """Name of the task of the job that it is a replica of."""
    index: int = 0
    created: int = 0
    """Microseconds."""
    priority: int = 1
    status: Status = "Pending"
    node: Node | None = None
    sub_group: str = ""
    """Key of its gang within the job; empty: none."""
    bound: int = 0
    """When it got its node (microseconds); 0: not yet, or not known."""
    running: int = 0
    """When it began to run (microseconds); 0 as above."""


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class Job:
    """A pod group."""

    key: str
    """Unique in the cluster: `namespace/name`."""
    namespace: str
    queue: str
    min_member: int = 0
    role_minimum: dict[str, int] = field(default_factory=dict)
    """Members that the group needs by role (Volcano `minTaskMember`)."""
    min_resources: Amounts | None = None
    phase: GroupPhase = "Pending"
    priority: int = 0
    created: int = 0
    """Microseconds."""
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    sub_groups: SubGroups | None = None
    """Gangs within it; `None`: there are none."""
    held: bool = False
    """Nothing is decided about it: its pods only take what they take."""
    backing_off: bool = False
    """Nobody is evicted for it."""
    claims: dict[str, KeptPlace] = field(default_factory=dict)
    """Key of a task for which others were evicted → its place."""
    preemption: Preemption = field(default_factory=Preemption)
    """What preemption with notice reads of it."""

    path: tuple[Queue, ...] = ()
    """Its queue and the queues above; empty: the queue does not exist."""
    tasks: dict[str, Task] = field(default_factory=dict)
    by_status: dict[Status, dict[str, Task]] = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)
    """Of its tasks that have a node and are not on their way out, and of those that are promised one."""
    requested: Amounts = field(default_factory=dict)
    """`allocated`, and of its pending tasks."""
    ready: int = 0
    """Tasks that count for the gang, without pending best-effort ones."""
    role_ready: dict[str, int] = field(default_factory=dict)
    waiting_best_effort: int = 0
    """Pending tasks that ask for nothing; they count as ready, since they find a place anywhere (Volcano)."""
    role_best_effort: dict[str, int] = field(default_factory=dict)
    role_pending: dict[str, int] = field(default_factory=dict)

    def with_status(self, status: Status) -> Mapping[str, Task]:
        """Return the tasks in a state, by key; not to be kept over a change."""
        return self.by_status.get(status, _NONE)

    def count(self, *statuses: Status) -> int:
        """Return how many tasks are in one of these states."""
        by_status = self.by_status
        return sum([len(by_status[status]) for status in statuses if status in by_status])

    @property
    def preemptable(self) -> bool:
        """Whether the group says that it is, by annotation or else by label; groups are not unless they say so (Volcano)."""
        return parse_bool(self.annotations.get(PREEMPTABLE) or self.labels.get(PREEMPTABLE) or "")

    @property
    def minimum(self) -> Minimum | None:
        """Minimum resources as a key of equivalence; `None`: the job states none."""
        return None if self.min_resources is None else tuple(self.min_resources.items())

    @property
    def role_minimum_total(self) -> int:
        """Sum of the minima of roles (Volcano `TaskMinAvailableTotal`)."""
        return sum(self.role_minimum.values())
