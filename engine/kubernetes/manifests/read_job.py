"""What reading a job manifest gives."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.events.outcomes import Fault
from statemachines.spec import JobSpec

__all__ = ["ReadJob"]


@dataclass(slots=True)
class ReadJob:
    """A manifest as read: its job, faults and warnings."""

    kind: str = ""
    """`VCJob` (Volcano's) or `Job` (batch/v1); empty where the manifest is neither."""
    name: str = ""
    """`metadata.name`; where there is only `generateName`, that and five characters made from the seed."""
    namespace: str = "default"
    uid: str | None = None
    """`metadata.uid`, which only an API server gives."""
    version: str | None = None
    """`metadata.resourceVersion`."""
    labels: dict[str, str] = field(default_factory=dict)
    tenant: str = ""
    """Label `lahar/tenant`, else the namespace."""
    project: str = ""
    """Label `lahar/project`."""
    user: str = ""
    """Label `lahar/user`."""
    managed_by: str | None = None
    """`spec.managedBy`."""
    suspended: bool = False
    """`spec.suspend`."""
    spec: JobSpec = field(default_factory=JobSpec)
    """With all defaults. Where there are faults it is empty."""
    warnings: list[str] = field(default_factory=list)
    """`path: message`; none with `strict`, which makes them faults."""
    faults: list[Fault] = field(default_factory=list)
    """Empty: the job is accepted."""

    @property
    def managed(self) -> bool:
        """Whether the manifest itself gives the job to Lahar (`managedBy: lahar`, or a name below `lahar/`)."""
        return self.managed_by is not None and (self.managed_by == "lahar" or self.managed_by.startswith("lahar/"))
