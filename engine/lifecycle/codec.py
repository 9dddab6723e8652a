"""How the state is written down: one record a subject, canonical, so that equal states have equal bytes.

Subjects: `job/ID`, `node/NAME`, `object/KIND/NAME`, `forgotten/N`. A job's record is its `finished` time in decimal (empty while
something about it is under way), a line feed, and JSON; so a finished job stays bytes until somebody asks for it, and 100,000 of
them are ready as soon as they are read.
"""

from __future__ import annotations

from typing import Final

from pydantic import TypeAdapter

from engine.lifecycle.state import Job

__all__ = ["FORGOTTEN", "FORGOTTEN_BYTES", "FORGOTTEN_PER_CHUNK", "decode_job", "encode_job", "finished_time", "forgotten_chunk"]

FORGOTTEN: Final = "forgotten"
"""Begins the subjects that hold forgotten ids."""
FORGOTTEN_PER_CHUNK: Final = 4096
"""Forgotten ids in one record, 64 KiB."""
FORGOTTEN_BYTES: Final = 16
"""What stays of a forgotten job."""

_JOB: Final = TypeAdapter(Job)


def encode_job(job: Job) -> bytes:
    """Return the canonical record of a job."""
    head = str(job.finished).encode() if job.idle else b""
    return head + b"\n" + _JOB.dump_json(job, exclude_defaults=True)


def decode_job(record: bytes) -> Job:
    """Return the job that a record holds; what is derived is still to be rebuilt."""
    return _JOB.validate_json(record[record.index(b"\n") + 1 :])


def finished_time(record: bytes) -> int | None:
    """Return when the job of a record finished, or `None` while something about it is under way."""
    head = record[: record.index(b"\n")]
    return int(head) if head else None


def forgotten_chunk(position: int) -> str:
    """Return the subject that holds the forgotten id at this position."""
    return f"{FORGOTTEN}/{position // FORGOTTEN_PER_CHUNK}"
