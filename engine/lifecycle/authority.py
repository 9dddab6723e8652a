"""Who may speak for a job."""

from __future__ import annotations

from typing import Final

from engine.events import Data, Event
from engine.events.inputs import CommandIssued, CustomEventRaised, EffectReported, JobDeleted, JobSubmitted, JobUpdated
from engine.lifecycle.belonging import is_elsewhere
from engine.lifecycle.state import Job

__all__ = ["asked", "objection"]


def objection(job: Job, event: Event[Data]) -> str | None:
    """Say why what somebody says about a job does not count; `None`: it does."""
    if not isinstance(event.data, CommandIssued | CustomEventRaised | EffectReported):
        return None
    if job.opened and is_elsewhere(job, event.clusterid):
        return f"the job is of cluster {job.cluster}, not of cluster {event.clusterid}"
    return None


_NAMES: Final[dict[type[Data], str]] = {
    JobSubmitted: "submit",
    JobUpdated: "update",
    JobDeleted: "delete",
    EffectReported: "report",
}


def asked(data: Data) -> tuple[str, str]:
    """Return what an input asks for, and who asks as it says itself."""
    if isinstance(data, CommandIssued):
        return data.action, data.by
    if isinstance(data, CustomEventRaised):
        return data.event, data.by
    return _NAMES[type(data)], ""
