"""Manifests on their way into the log."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from engine.cli.feeding import input_message
from engine.events import Message
from engine.events.bounds import FILE_BYTES
from engine.events.ids import digest, submitted_job_id
from engine.events.inputs import JobSubmitted, JobUpdated
from engine.kubernetes.reading.documents import Document, Unreadable, read_documents
from engine.kubernetes.reading.identity import job_name
from engine.kubernetes.reading.markdown import extract_manifest
from engine.log.producer_time import wall_clock as now
from engine.runtime.settings import Settings

__all__ = ["manifest_digest", "read_manifests", "read_objects", "submission", "update"]


def read_objects(path: Path) -> list[Document]:
    """Read the objects of a file: YAML, JSON or the YAML block of a Markdown page; `-` is standard input.

    Raises:
        ValueError: something in it cannot be read (the text says where), or it is larger than `FILE_BYTES`.
        OSError: the file cannot be read.
    """
    with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as source:
        content = source.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise ValueError(f"{path}: has more than {FILE_BYTES:,} bytes; split it, or `lahar ingest` what a cluster shows")
    if path.suffix.lower() in {".md", ".markdown"}:
        try:
            return [Document(1, "", extract_manifest(content.decode()))]
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    documents: list[Document] = []
    for item in read_documents(content):
        if isinstance(item, Unreadable):
            raise ValueError(f"{path}: line {item.line}: {item.reason}")  # noqa: TRY004 - a bad file, not a bad type
        documents.append(item)
    if not documents:
        raise ValueError(f"{path}: there is no object in it")
    return documents


def read_manifests(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Read the job manifests of a file, each with its place (`jobs.yaml: line 12`).

    Raises:
        ValueError: it holds something else, or cannot be read.
        OSError: the file cannot be read.
    """
    documents = read_objects(path)
    for document in documents:
        if document.kind != "Job":
            raise ValueError(
                f"{path}: {document.place}: {document.kind or 'no kind'} is no Job; use `lahar apply` for other objects"
            )
    return [(f"{path}: {document.place}", document.content) for document in documents]


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Return what identifies the content of a manifest, whatever the order of its fields."""
    return digest(json.dumps(manifest, sort_keys=True, default=str).encode())


def submission(
    settings: Settings,
    manifest: dict[str, Any],
    command: str,
    *,
    strict: bool = False,
    recordedtime: int | None = None,
    rejections: int = 0,
) -> Message:
    """Return the submission of a job.

    Args:
        settings: give the cluster.
        manifest: the job.
        command: id of the command; with namespace and name it makes the id of a job without a uid.
        strict: warnings are errors.
        recordedtime: microseconds; `None`: now.
        rejections: how often it was rejected so far; each makes a submission of its own.
    """
    namespace, name, uid = job_name(manifest)
    job = uid or submitted_job_id(settings.cluster, namespace, name, command)
    identity = digest(f"submit/{job}/{command}{f'/{rejections}' if rejections else ''}".encode())
    return input_message(
        settings.cluster,
        job,
        JobSubmitted(manifest, strict),
        identity,
        "lahar/cli",
        now() if recordedtime is None else recordedtime,
    )


def update(settings: Settings, manifest: dict[str, Any], job: str, after: str, recordedtime: int) -> Message:
    """Return the update of a job.

    Args:
        settings: give the cluster.
        manifest: the job anew.
        job: its id.
        after: what has happened to it, or what it was given, last. An update is the same as an earlier one only if nothing has
            happened in between: what was changed and changed back can be changed once more.
        recordedtime: microseconds.
    """
    identity = digest(f"update/{job}/{after}/{manifest_digest(manifest)}".encode())
    return input_message(settings.cluster, job, JobUpdated(manifest), identity, "lahar/cli", recordedtime)
