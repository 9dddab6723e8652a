"""Memory of refused requests, and of requests for ids that are no job yet: repeats are detected, but only from the same sender.

Producers choose the ids of their inputs. If a refused input used up its id for every sender, anyone who guesses an id could turn
another sender's later input into a duplicate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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
from engine.events.outcomes import Fault, InputReleased
from engine.kubernetes.reading.identity import job_name
from engine.lifecycle import indexes
from engine.lifecycle.claims import namespace_of, restore
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.job import Job

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
    """Return the request type of an input, and its stated sender."""
    if isinstance(data, CommandIssued):
        return data.action, data.by
    if isinstance(data, CustomEventRaised):
        return data.event, data.by
    return _WORDS.get(type(data), OBSERVE), ""


def manifest_digest(submission: JobSubmitted) -> str:
    """Return the digest that distinguishes manifests submitted under one id."""
    return _digest([submission.manifest, submission.strict])


def faults_digest(faults: Iterable[Fault]) -> str:
    """Return a digest of a submission's faults: another version with the same faults is a repeat."""
    return _digest([[fault.path, fault.message] for fault in faults])


def held_key(event: Event[Data]) -> str:
    """Return the key of a held input: the same id from another sender, or with another manifest, is another input."""
    data, manifest, strict = event.data, None, False
    if isinstance(data, JobSubmitted):
        manifest, strict = data.manifest, data.strict
    return _held_key(event.id, event.clusterid, _principal_of(data), manifest, strict=strict)


def key_of_held(held: Mapping[str, Any]) -> str:
    """Return the same key from a held input's JSON, without decoding the event."""
    data: Mapping[str, Any] = held["data"]
    manifest = data.get("manifest") if held["type"] == JobSubmitted.TYPE else None
    strict = data.get("strict", False)
    return _held_key(held["id"], held.get("clusterid", ""), data.get("principal", ""), manifest, strict=strict)


def _held_key(ident: str, cluster: str, principal: str, manifest: Mapping[str, Any] | None, *, strict: bool) -> str:
    if manifest is None:
        return _key(cluster, "", principal, ident, None)
    # A watched object gets a new resourceVersion with every write of its status.
    metadata = manifest.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("resourceVersion"), str):
        metadata = {name: value for name, value in metadata.items() if name not in {"managedFields", "resourceVersion"}}
    judged = {name: value for name, value in manifest.items() if name not in {"metadata", "status"}}
    return _key(cluster, SUBMIT, principal, ident, _digest([judged, metadata, strict]))


def _digest(said: object) -> str:
    return digest(json.dumps(said, sort_keys=True).encode())


def is_known(job: Job, event: Event[Data]) -> bool:
    """Return true if an input repeats one that was refused, or that arrived before its job.

    An id has one outcome: a corrected manifest needs a new id. Only the versions of an object of an API server share an id.
    """
    data, cluster = event.data, event.clusterid
    what, principal = asked(data)[0], _principal_of(data)
    if is_remembered(job, cluster, what, principal, event.id):
        return True
    if not isinstance(data, JobSubmitted):
        return False
    if job_name(data.manifest)[2]:
        return is_remembered(job, cluster, what, principal, event.id, manifest_digest(data))
    first, last = f"{cluster}\x1f{what} ", f"\x1f{principal}\x1f{event.id}"
    return any(key.startswith(first) and key.endswith(last) for key in job.seen)


def is_remembered(job: Job, cluster: str, what: str, principal: str, ident: str, content: str | None = None) -> bool:
    """Return true if a job remembers a request."""
    return _key(cluster, what, principal, ident, content) in job.seen


def remember_request(job: Job, cluster: str, what: str, principal: str, ident: str, content: str | None = None) -> None:
    """Remember a request; for an opened job only while less than half of its memory for ids is used.

    Args:
        job: the job, or the id that is no job.
        cluster: cluster of the input.
        what: type of the request.
        principal: sender of the request.
        ident: id of the input.
        content: digest of the rejected manifest or of its faults; the same id with another digest is another submission.
    """
    if not job.opened or len(job.seen) < indexes.SEEN // 2:
        indexes.remember(job, _key(cluster, what, principal, ident, content))


def remember_released(job: Job, held: dict[str, Any], released: InputReleased) -> None:
    """Remember a released input; a duplicate is remembered already."""
    if released.outcome == "duplicate":
        return
    event = restore(held)
    data = event.data
    # Events of earlier releases lack the other job.
    own = event.clusterid == job.cluster and namespace_of(data) in {None, job.namespace}
    other = released.job is not None or (job.opened > 0 and not own)
    if job.opened and not other and released.outcome not in {"refused", "rejected"}:
        indexes.remember(job, event.id)
        return
    content = manifest_digest(data) if isinstance(data, JobSubmitted) and (other or released.outcome == "rejected") else None
    remember_request(job, event.clusterid, asked(data)[0], _principal_of(data), event.id, content)


def was_released(job: Job, event: Event[Data]) -> bool:
    """Return true if an input about another job was held for this one and released."""
    data = event.data
    content = manifest_digest(data) if isinstance(data, JobSubmitted) else None
    return is_remembered(job, event.clusterid, asked(data)[0], _principal_of(data), event.id, content)


def _principal_of(data: Any) -> str:  # noqa: ANN401 - observations have none
    """Return the principal of an input; empty: none."""
    found: str = getattr(data, "principal", "")
    return found


def _key(cluster: str, what: str, principal: str, ident: str, content: str | None) -> str:
    return "\x1f".join((cluster, what if content is None else f"{what} {content}", principal, ident))


def emit(factory: EventFactory, job: Job, data: Data) -> Events:
    """Yield an event about a job, or about an id that is no job yet, whose later opening must not repeat its event ids."""
    part = factory if job.opened else factory.about(job)
    yield part.event(job, data)
    if part is not factory:
        factory.index += 1  # later events of this input get other ids
