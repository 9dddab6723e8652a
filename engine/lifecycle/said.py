"""What is said of a job by those who may not speak for it, or of what is no job yet: known when it comes again, but only from them.

An id is whatever a producer chooses. If what was refused took it from everybody, who guesses an id could make what others say a
duplicate before they say it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from engine.events import Data, Event
from engine.events.ids import digest
from engine.events.inputs import (
    CommandIssued,
    CustomEventRaised,
    EffectReported,
    JobDeleted,
    JobSubmitted,
    JobUpdated,
    RowUnreadable,
)
from engine.lifecycle import indexes
from engine.lifecycle.state import Job

__all__ = [
    "OBSERVE",
    "REPORT",
    "ROW",
    "SUBMIT",
    "asked",
    "is_known",
    "manifest_digest",
    "principal_of",
    "remember_event",
    "remember_said",
    "was_said",
]

_UNJUDGED: Final = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink"})
"""Metadata that change with every version of an object, and for which none is rejected."""
_JUDGED: Final = ("lahar", "volcano.sh")
"""Ends of the prefixes of annotations that say something of a job."""

SUBMIT: Final = "submit"
REPORT: Final = "report"
ROW: Final = "row"
OBSERVE: Final = "observe"

_WORDS: Final[dict[type[Data], str]] = {
    JobSubmitted: SUBMIT,
    JobUpdated: "update",
    JobDeleted: "delete",
    EffectReported: REPORT,
    RowUnreadable: ROW,
}


def asked(data: Data) -> tuple[str, str]:
    """Return what an input asks for, and who asks as it says itself."""
    if isinstance(data, CommandIssued):
        return data.action, data.by
    if isinstance(data, CustomEventRaised):
        return data.event, data.by
    return _WORDS.get(type(data), OBSERVE), ""


def manifest_digest(submission: JobSubmitted) -> str:
    """Return what tells a manifest from a corrected one that comes under the same id: all of it that a job may be rejected for.

    An object that is watched has a new version whenever its status or somebody's annotation changes.
    """
    manifest = submission.manifest
    metadata = manifest.get("metadata")
    judged = {name: value for name, value in manifest.items() if name not in {"metadata", "status"}}
    named = {name: value for name, value in metadata.items() if name not in _UNJUDGED} if isinstance(metadata, dict) else metadata
    if isinstance(named, dict) and isinstance(annotations := named.get("annotations"), dict):
        named["annotations"] = {name: value for name, value in annotations.items() if name.partition("/")[0].endswith(_JUDGED)}
    return digest(json.dumps([judged, named, submission.strict], sort_keys=True).encode())


def is_known(job: Job, event: Event[Data]) -> bool:
    """Tell whether an input was said before: by somebody who may not speak for the job, or of what was no job then."""
    data, cluster = event.data, job.cluster if job.opened else event.clusterid
    what, principal = asked(data)[0], principal_of(data)
    if was_said(job, cluster, what, principal, event.id):
        return True
    return isinstance(data, JobSubmitted) and was_said(job, cluster, what, principal, event.id, manifest_digest(data))


def was_said(job: Job, cluster: str, what: str, principal: str, ident: str, manifest: str | None = None) -> bool:
    """Tell whether a job remembers something that was said."""
    return _key(cluster, what, principal, ident, manifest) in job.seen


def remember_said(job: Job, cluster: str, what: str, principal: str, ident: str, manifest: str | None = None) -> None:
    """Remember what was said; of a job only while it has room for as many of its own inputs.

    Args:
        job: the job, or what is none.
        cluster: that it was said in.
        what: was asked for.
        principal: who asked.
        ident: id of the input.
        manifest: digest of the manifest that was rejected: the same id with another one is another submission.
    """
    if not job.opened or len(job.seen) < indexes.SEEN // 2:
        indexes.remember(job, _key(cluster, what, principal, ident, manifest))


def remember_event(job: Job, event: Event[Data]) -> None:
    """Remember an input that was held."""
    data = event.data
    manifest = manifest_digest(data) if isinstance(data, JobSubmitted) else None
    remember_said(job, event.clusterid, asked(data)[0], principal_of(data), event.id, manifest)


def principal_of(data: Any) -> str:  # noqa: ANN401 - observations have none
    """Return who says something."""
    found: str = getattr(data, "principal", "")
    return found


def _key(cluster: str, what: str, principal: str, ident: str, manifest: str | None) -> str:
    return "\x1f".join((cluster, what if manifest is None else f"{what} {manifest}", principal, ident))
