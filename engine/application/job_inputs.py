"""Inputs about jobs, as the log keeps them: submissions, updates, commands, custom events."""

from __future__ import annotations

import json
from typing import Any, Final

from engine.events import Data, Event, Message, decode, encode
from engine.events.ids import digest, submitted_job_id
from engine.events.inputs import CommandIssued, CustomEventRaised, JobSubmitted, JobUpdated
from engine.kubernetes.reading.identity import job_name

__all__ = ["command_message", "input_message", "manifest_digest", "submission", "update"]

_SOURCE: Final = "lahar/cli"
"""Of manifests, whatever face they came in by: it is part of what existing logs hold."""


def input_message(cluster: str, job: str, data: Data, identity: str, source: str, recordedtime: int) -> Message:
    """Return an input about a job as the log keeps it.

    Args:
        cluster: the job's.
        job: the job's id.
        data: the input.
        identity: id of the input, chosen by whoever appends it.
        source: who says so.
        recordedtime: microseconds.

    Raises:
        UndecodableError: it is larger than an input may be, or breaks another bound; the text names it.
    """
    event = Event(identity, source, data.TYPE, job, recordedtime, recordedtime, 0, job, "", cluster, data)
    message = encode(event)
    decode(message)
    return message


def command_message(cluster: str, job: str, data: CommandIssued | CustomEventRaised, identity: str, recordedtime: int) -> Message:
    """Return a command or custom event as the log keeps it; `identity` is the client's, hashed to the form of all ids."""
    return input_message(cluster, job, data, digest(f"command/{job}/{identity}".encode()), f"command/{data.by}", recordedtime)


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Return what identifies the content of a manifest, whatever the order of its fields."""
    return digest(json.dumps(manifest, sort_keys=True, default=str).encode())


def submission(
    cluster: str,
    manifest: dict[str, Any],
    command: str,
    recordedtime: int,
    *,
    strict: bool = False,
    rejections: int = 0,
) -> Message:
    """Return the submission of a job.

    Args:
        cluster: the job's.
        manifest: the job.
        command: id of the command; with namespace and name it makes the id of a job without a uid.
        recordedtime: microseconds.
        strict: warnings are errors.
        rejections: how often it was rejected so far; each makes a submission of its own.
    """
    namespace, name, uid = job_name(manifest)
    job = uid or submitted_job_id(cluster, namespace, name, command)
    identity = digest(f"submit/{job}/{command}{f'/{rejections}' if rejections else ''}".encode())
    return input_message(cluster, job, JobSubmitted(manifest, strict), identity, _SOURCE, recordedtime)


def update(cluster: str, manifest: dict[str, Any], job: str, after: str, recordedtime: int) -> Message:
    """Return the update of a job.

    Args:
        cluster: the job's.
        manifest: the job anew.
        job: its id.
        after: what has happened to it, or what it was given, last. An update is the same as an earlier one only if nothing has
            happened in between: what was changed and changed back can be changed once more.
        recordedtime: microseconds.
    """
    identity = digest(f"update/{job}/{after}/{manifest_digest(manifest)}".encode())
    return input_message(cluster, job, JobUpdated(manifest), identity, _SOURCE, recordedtime)
