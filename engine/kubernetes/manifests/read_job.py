"""Result of reading a job manifest."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.events.outcomes import Fault
from statemachines.spec import JobSpec


@dataclass(slots=True)
class ReadJob:
    """Job, faults and warnings of a manifest."""

    kind: str = ""
    """`VCJob` (Volcano's) or `Job` (batch/v1); empty for any other manifest."""
    name: str = ""
    """`metadata.name`, or a name generated from `generateName` and the seed."""
    namespace: str = "default"
    uid: str | None = None
    """`metadata.uid`, which only an API server sets."""
    version: str | None = None
    """`metadata.resourceVersion`."""
    labels: dict[str, str] = field(default_factory=dict)
    tenant: str = ""
    """Label `lahar/tenant`, otherwise the namespace."""
    project: str = ""
    """Label `lahar/project`."""
    user: str = ""
    """Label `lahar/user`."""
    managed_by: str | None = None
    """`spec.managedBy`."""
    suspended: bool = False
    """`spec.suspend`."""
    spec: JobSpec = field(default_factory=JobSpec)
    """Specification with all defaults; empty if there are faults."""
    warnings: list[str] = field(default_factory=list)
    """Warnings as `path: message`; empty with `strict`, which reports them as faults."""
    faults: list[Fault] = field(default_factory=list)
    """Faults; empty for a valid job."""

    @property
    def managed(self) -> bool:
        """True if the manifest assigns the job to Lahar (`managedBy: lahar`, or a name below `lahar/`)."""
        return self.managed_by is not None and (self.managed_by == "lahar" or self.managed_by.startswith("lahar/"))
