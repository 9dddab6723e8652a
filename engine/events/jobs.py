"""Events about jobs and tasks: the first two levels of `job-events`.

That topic also has `attempts` (the third level), `actions` (reactions) and `outcomes` (of inputs). Only the lifecycle stage writes
it, keyed by job id; within a job its events are ordered and gapless (`sequence`). State is the fold of these events.
"""

from __future__ import annotations

from typing import Literal

from msgspec import field

from engine.events.pod_shape import PodShape
from engine.events.times import Micros
from engine.events.vocabulary import Data, event
from statemachines.spec import JobSpec
from statemachines.vocabulary import JobPhase, TaskPhase

NoticeAnswer = Literal["acknowledged", "withdraw"]
"""acknowledged: a victim may be stopped before the deadline. withdraw: nobody is to be stopped for this preemptor."""


@event("lahar.job.opened.v1", topic="job-events")
class JobOpened(Data):
    """A job begins: submitted and accepted (managed), or first observed. Phase Pending. The first event of a job."""

    kind: str
    """`Job` (batch/v1), `VCJob`, `Trace`, … ; `Pod` for a pod without owner; `Other` for services."""
    name: str
    managed: bool
    spec: JobSpec
    namespace: str = "default"
    tenant: str = ""
    """Label `lahar/tenant`, else the namespace."""
    project: str = ""
    user: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    owner: bool = False
    """The job object itself was observed, not only its pods."""
    owner_decides: bool = False
    """The job's controller states its phase, so that observed pods do not start the job."""
    version: str | None = None
    """resourceVersion of the observed job object."""
    shapes: dict[str, PodShape] = field(default_factory=dict)
    """Task → shape of its pods, for a job that Lahar schedules."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Annotations that plugins of the scheduler read, for a job that Lahar schedules."""


@event("lahar.job.revised.v1", topic="job-events")
class JobRevised(Data):
    """Facts about the job changed: a managed job was updated, or the owner of an observed one was observed.

    `None` means unchanged.
    """

    spec: JobSpec | None = None
    """The whole new specification, without pod templates (they cannot change)."""
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    tenant: str | None = None
    project: str | None = None
    user: str | None = None
    labels: dict[str, str] | None = None
    owner: bool = False
    """The job object itself was observed: true in every revision by an observation of it.

    The owner is known from the first event with it on, which may be the opening. If that is a revision, billing applies the terms
    that it gives from the job's beginning; those of later ones apply from their time on.
    """
    created: Micros | None = None
    """When the job object was created, which may be before its first observed pod."""
    version: str | None = None
    reason: str | None = None
    """Reason of its phase in the job object (`JobSuspended`); empty: the object has none."""
    message: str | None = None
    """An excerpt of the object's message."""
    retry_count: int | None = None
    """Retries that the job's controller counts."""
    job_version: int | None = None
    """Times the job's controller killed the whole job (Volcano `status.version`)."""
    owner_decides: bool | None = None
    """Whether the job's controller states its phase."""


@event("lahar.job.phase_changed.v1", topic="job-events")
class JobPhaseChanged(Data):
    """The job changes its phase. `retry_count`, `restarts` and `version` are the values after the change."""

    phase: JobPhase
    previous: JobPhase
    reason: str | None = None
    """The owner's reason, or the action or rule that led to the phase."""
    retry_count: int = 0
    restarts: int = 0
    version: int = 0
    """Times the whole job was killed (Volcano `status.version`)."""
    object_version: str | None = None
    """resourceVersion of the job object with the status."""
    inferred: bool = False
    """End of an observed job that its owner did not state: derived from its attempts, and revoked by a new one."""
    without_end: bool = False
    message: str = ""
    """An excerpt of the owner's message about the phase."""
    notice: str = ""
    """For Privileged and WillEvicted: the notice of preemption, subject of its records in `preemptions`."""
    deadline: Micros | None = None
    """For WillEvicted: when the job is stopped, unless it has acknowledged before. For Privileged: when its victims are."""
    reserved: Micros | None = None
    """Of a job whose notice is executed: until when the freed place is kept for it at most."""


@event("lahar.job.notice_answered.v1", topic="job-events")
class JobNoticeAnswered(Data):
    """Somebody answers the notice of preemption that the job is part of."""

    notice: str
    """Subject of its records in `preemptions`."""
    answer: NoticeAnswer
    """`acknowledged`: the job may be stopped before the deadline. `withdraw`: nobody is to be stopped for it."""
    by: str = ""
    reason: str = ""


@event("lahar.task.phase_changed.v1", topic="job-events")
class TaskPhaseChanged(Data):
    """A task changes its phase."""

    task: str
    phase: TaskPhase
    previous: TaskPhase
    reason: str | None = None


@event("lahar.job.object_deleted.v1", topic="job-events")
class JobObjectDeleted(Data):
    """The job's object is gone, or its deletion was requested."""

    version: str | None = None


@event("lahar.job.forgotten.v1", topic="job-events", stability="operational")
class JobForgotten(Data):
    """Long after its end the job is removed from the state; its history stays in the log. Later facts about it are late."""

    finished: Micros
    """When it finished; for an aborted job or an id that is no job, time of its last event."""
    opened: bool = True
    """False: it was an id without a job. Later inputs about it are decided as if it were new."""
