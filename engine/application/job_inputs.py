"""Inputs about jobs as messages of the log: submissions, updates, commands, custom events."""

from __future__ import annotations

import json
from typing import Any, Final

from engine.application.errors import RequestError
from engine.events import Data, Event, Message, decode, encode
from engine.events.errors import UndecodableError
from engine.events.ids import digest, submitted_job_id
from engine.events.inputs import CommandIssued, CustomEventRaised, JobSubmitted, JobUpdated
from engine.kubernetes.reading.identity import job_name

_SOURCE: Final = "lahar/cli"
"""Source of manifests, whatever the interface; existing logs hold it, so it cannot change."""

_TAKE: Final[dict[str, tuple[str, ...]]] = {
    "task": ("RestartTask", "RestartPod", "RestartPartition"),
    "index": ("RestartPod",),
    "partition": ("RestartPartition",),
    "notice": ("AcknowledgeNotice", "WithdrawNotice"),
}
"""Part of a job or of a dialogue → the actions that are about one. All others are about the whole job."""


def input_message(cluster: str, job: str, data: Data, identity: str, source: str, recordedtime: int) -> Message:
    """Return an input about a job as a message of the log.

    Args:
        cluster: cluster of the job.
        job: id of the job.
        data: the input.
        identity: id of the input, chosen by the appender.
        source: source of the input.
        recordedtime: microseconds.

    Raises:
        RequestError: it exceeds the largest size of an input or another bound; the text names the field.
    """
    event = Event(identity, source, data.TYPE, job, recordedtime, recordedtime, 0, job, "", cluster, data)
    message = encode(event)
    try:
        decode(message)
    except UndecodableError as error:
        text = str(error).removeprefix(f"{data.TYPE}: ")
        raise RequestError(text.replace("Input should", "should").replace("String should", "should")) from None
    return message


def command_message(cluster: str, job: str, data: CommandIssued | CustomEventRaised, identity: str, recordedtime: int) -> Message:
    """Return a command or custom event as a message of the log; `identity` is the client's, hashed to the form of all ids.

    Raises:
        RequestError: a command names a part of the job that its action is not about.
    """
    if isinstance(data, CommandIssued):
        _must_be_about(data)
    return input_message(cluster, job, data, digest(f"command/{job}/{identity}".encode()), f"command/{data.by}", recordedtime)


def _must_be_about(command: CommandIssued) -> None:
    for part, actions in _TAKE.items():
        given = getattr(command, part)
        if given not in {None, ""} and command.action not in actions:
            raise RequestError(
                f"{command.action} is about no {part}, but {given!r} is given: only {' and '.join(actions)} take one"
            )


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Return a digest of a manifest's content, independent of the order of its fields."""
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
        cluster: cluster of the job.
        manifest: the job.
        command: id of the command; with namespace and name it makes the id of a job without a uid.
        recordedtime: microseconds.
        strict: warnings are errors.
        rejections: number of earlier rejections; each makes the next submission a new one.
    """
    namespace, name, uid = job_name(manifest)
    job = uid or submitted_job_id(cluster, namespace, name, command)
    identity = digest(f"submit/{job}/{command}{f'/{rejections}' if rejections else ''}".encode())
    return input_message(cluster, job, JobSubmitted(manifest, strict), identity, _SOURCE, recordedtime)


def update(cluster: str, manifest: dict[str, Any], job: str, after: str, recordedtime: int) -> Message:
    """Return the update of a job.

    Args:
        cluster: cluster of the job.
        manifest: the job's new manifest.
        job: id of the job.
        after: identifies the job's last change or manifest. An update repeats an earlier one only if nothing changed in between, so
            a change that was reverted can be made again.
        recordedtime: microseconds.
    """
    identity = digest(f"update/{job}/{after}/{manifest_digest(manifest)}".encode())
    return input_message(cluster, job, JobUpdated(manifest), identity, _SOURCE, recordedtime)
