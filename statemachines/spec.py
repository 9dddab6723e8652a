"""The specification of a job, as the rules read it.

These classes are the normal form of every kind of job that Lahar accepts (Volcano's vcjob, `batch/v1` Job, PaddlePaddle):
defaults are filled in, durations are integer microseconds, names are Volcano's in snake case. They are what
`lahar.job.opened` records, so a change of the reader never changes the past.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from annotated_types import Interval, MaxLen
from msgspec import Meta, field

from statemachines.value import Value
from statemachines.vocabulary import Action, Level

GPU: Final = 10**9
"""Parts of a GPU that are counted."""
RESOURCE: Final = 2**63 - 1
"""Largest quantity of a resource in Kubernetes."""

Amount = Annotated[int, Interval(ge=0, le=RESOURCE), Meta(ge=0, le=RESOURCE)]
"""A number that may be large, and fits every format."""

_Name = Annotated[str, MaxLen(512), Meta(max_length=512)]


def gpus_of(billionths: int) -> int | Decimal:
    """Return a number of GPUs, exactly: a whole number, else a decimal without trailing zeros."""
    whole, rest = divmod(billionths, GPU)
    return Decimal(f"{whole}.{rest:09}".rstrip("0")) if rest else whole


class Requests(Value):
    """Requests of one pod: the scheduler's effective request (as in `lahar inspect`)."""

    cpu_milli: Amount = 0
    """CPU in thousandths of a core, rounded up."""
    memory_bytes: Amount = 0
    gpu: Amount = 0
    """GPUs; a part of one counts as one."""
    gpu_share_milli: Amount | None = None
    """Thousandths of a device really used, if a trace says that devices are shared; `None`: whole devices."""
    gpu_nano: Amount | None = None
    """Billionths of GPUs, if they are no whole number (a MIG slice, per cent of a card); `None`: `gpu`."""
    unmetered: Annotated[dict[_Name, Amount], MaxLen(100), Meta(max_length=100)] = field(default_factory=dict)
    """Other devices, and extended resources that Lahar does not know: name → thousandths of the unit. No meter charges them."""

    @property
    def gpu_billionths(self) -> int:
        """Billionths of GPUs."""
        return self.gpu * GPU if self.gpu_nano is None else self.gpu_nano

    @property
    def used_billionths(self) -> int:
        """Billionths of GPUs really used."""
        return self.gpu_billionths if self.gpu_share_milli is None else self.gpu_share_milli * (GPU // 1000)

    @property
    def gpus(self) -> int | Decimal:
        """GPUs, exactly: a whole number, else a decimal."""
        return gpus_of(self.gpu_billionths)

    def document(self) -> dict[str, Any]:
        """Return the requests as JSON; what no meter charges only where there is any."""
        amounts = {"cpu_milli": self.cpu_milli, "memory_bytes": self.memory_bytes, "gpu": self.gpus}
        return amounts | ({"unmetered": dict(sorted(self.unmetered.items()))} if self.unmetered else {})


class Policy(Value):
    """One lifecycle policy: which event or exit code leads to which action (Volcano `LifecyclePolicy`)."""

    action: Action
    events: tuple[str, ...] = ()
    """Event names, built-in or declared; `*` matches any. Empty: the policy matches by exit code only."""
    exit_code: int | None = None
    timeout: int | None = None
    """Delay of the action in microseconds; `None`: at once."""


class DependsOn(Value):
    """Tasks that must be ready before this one starts."""

    names: tuple[str, ...]
    any: bool = False
    """True: one ready task is enough (Volcano `iteration: any`); False: all of them."""


class Partition(Value):
    """Division of a task's replicas into equal groups (Volcano `partitionPolicy`)."""

    total: int
    size: int
    min: int = 0
    """Partitions that must be able to run; 0: not set."""


class RaiseRule(Value):
    """`raise EVENT when …`: turns a transition into a custom event, once per (rule, job version, subject)."""

    event: str
    level: Level = "task"
    task: str | None = None
    """Only transitions of this task (and its replicas); `None`: any."""
    phase: str | None = None
    """Phase entered; `None`: any."""
    reason: str | None = None
    exit_code: int | None = None
    count: int = 1
    """Distinct subjects of the level that must match in a job version before the rule fires."""


class TaskSpec(Value):
    """One task: `replicas` slots that run the same pod template."""

    name: str
    replicas: int = 1
    min_available: int | None = None
    """Slots that must run for a complete gang; `None`: all of them (Volcano's rules distinguish the two)."""
    max_retry: int = 3
    """Container restarts at which TaskFailed is raised; -1: never."""
    policies: tuple[Policy, ...] = ()
    depends_on: DependsOn | None = None
    partition: Partition | None = None
    """Division of the replicas into groups; `None`: none."""
    requests: Requests = Requests()
    main: bool = False
    min_succeeded: int | None = None
    """Succeeded slots at which the task counts as completed; `None`: Volcano's rule (all replicas)."""
    max_failed: int | None = None
    """Failed slots above which the task counts as failed; `None`: no limit."""
    template: dict[str, Any] | None = None
    """Pod template as submitted; `None` for observed jobs. Not kept in the state of the engine."""


class JobSpec(Value):
    """One job."""

    tasks: tuple[TaskSpec, ...] = ()
    min_available: int = 0
    min_success: int | None = None
    max_retry: int = 3
    queue: str = "default"
    scheduler_name: str = "volcano"
    priority_class: str | None = None
    policies: tuple[Policy, ...] = ()
    plugins: tuple[str, ...] = ()
    ttl_seconds_after_finished: int | None = None
    active_deadline_seconds: int | None = None
    preempt: bool = False
    """Privileged: it may take the place of lower jobs of its queue after notice."""
    on_preempted: Literal["Requeue", "Abort", "Terminate"] = "Requeue"
    min_run_seconds: int | None = None
    permanent_exit_codes: tuple[int, ...] = ()
    custom_events: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    """Declared event types: name → JSON Schema of the data, or `None` for any data."""
    raise_rules: tuple[RaiseRule, ...] = ()
    fixed: str = ""
    """Digest of the fields that an update may not change; empty: unknown (an observed job, or one of an earlier release)."""

    def task(self, name: str) -> TaskSpec | None:
        """Return the task of that name, or `None`."""
        for task in self.tasks:
            if task.name == name:
                return task
        return None

    @property
    def total_replicas(self) -> int:
        """Sum of the tasks' replicas."""
        return sum(task.replicas for task in self.tasks)

    @property
    def total_min_available(self) -> int:
        """Sum of the tasks' `min_available`; a missing one counts as all replicas (Volcano `TotalTaskMinAvailable`)."""
        return sum(task.replicas if task.min_available is None else task.min_available for task in self.tasks)
