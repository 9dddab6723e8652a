"""Encoding of the state: canonical records, so that equal states have equal bytes.

Records: `job/ID`, `page/TABLE/NUMBER/ID`, `forgotten/N`, and those of cluster facts (`engine.kubernetes.observation.fact_records`).

A job's record has two lines: first its `rest` in decimal (empty for an active job; followed by `?` if the id is no job), a space
and its `Head` as JSON; then all other fields as JSON. So a finished job stays encoded until it is needed, a snapshot of 100,000 of
them loads without decoding one, and each is forgotten in time even if its second line is unreadable. Each of its pages
(`job_pages`) is the JSON of a job with the fields of that page only.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder
from pydantic import TypeAdapter

from engine.lifecycle.job import Job, Page
from engine.lifecycle.job_pages import first_page, join, later_page

FORGOTTEN: Final = "forgotten"
"""Prefix of the records of forgotten ids."""
JOB_RECORD: Final = "job/"
"""Prefix of the jobs' own records."""


class Head(NamedTuple):
    """Fields in the first line of a job's record, and only there; see `Job`."""

    cluster: str = ""
    managed: bool = False
    opened: int = 0
    sequence: int = 0
    finished: int | None = None
    closing: str = ""
    rested: int = 0


class _Pod(Struct):
    uid: str | None = None
    controller: str | None = None


class _Pods(Struct):
    namespace: str = ""
    attempts: list[_Pod] = []


_PODS: Final = Decoder(_Pods)
_HEAD: Final = TypeAdapter(Head)
_HEAD_OF: Final = attrgetter(*Head._fields)
_IN_HEAD: Final = set(Head._fields)
_JOB: Final = TypeAdapter(Job)


def encode_job(job: Job) -> bytes:
    """Return the canonical record of a job, without its later pages."""
    rest = job.rest
    rests = b"" if rest is None else b"%d" % rest if job.opened else b"%d?" % rest
    body = _JOB.dump_json(first_page(job), exclude=_IN_HEAD, exclude_defaults=True)
    return b"%b %b\n%b" % (rests, _HEAD.dump_json(Head._make(_HEAD_OF(job))), body)


def encode_page(job: Job, page: Page) -> bytes | None:
    """Return the canonical record of a later page; `None`: the page does not exist."""
    part = later_page(job, page)
    return None if part is None else _JOB.dump_json(part, exclude_defaults=True)


def decode_job(record: bytes, pages: Mapping[Page, bytes]) -> Job:
    """Return the job of a record and its later pages, without its derived fields."""
    job = _JOB.validate_json(record[record.index(b"\n") + 1 :])
    for name, value in head_of(record)._asdict().items():
        setattr(job, name, value)
    for page in sorted(pages):
        join(job, page, _JOB.validate_json(pages[page]))
    return job


def record_name(job: str, page: Page | None = None) -> str:
    """Return the name of the record of a job, or of one of its later pages."""
    return JOB_RECORD + job if page is None else f"page/{page.table}/{page.number}/{job}"


def page_named(name: str) -> tuple[str, Page] | None:
    """Parse a record name without `page/`; returns job id and page, `None` if another release wrote it."""
    table, _, rest = name.partition("/")
    number, _, job = rest.partition("/")
    return (job, Page(table, int(number))) if number.isdecimal() else None


def rest_of(record: bytes) -> tuple[int | None, bool]:
    """Return the `Job.rest` of a record, and true if its id is no job."""
    rest = record[: record.index(b" ")]
    return (int(rest.rstrip(b"?")) if rest else None), rest.endswith(b"?")


def head_of(record: bytes) -> Head:
    """Return the head of a record, without decoding the rest."""
    return _HEAD.validate_json(record[record.index(b" ") : record.index(b"\n")])


def pods_of(record: bytes, pages: Mapping[Page, bytes]) -> tuple[tuple[str, str], list[str]]:
    """Return the cluster and namespace of a job, and the uids of its pods and of the objects that control them below it.

    The rest of its record and pages is not decoded. For an unreadable record there are none; its job is still forgotten in time.
    """
    try:
        job = _PODS.decode(record[record.index(b"\n") + 1 :])
        parts = [job, *(_PODS.decode(pages[page]) for page in pages if page.table == "attempts")]
    except (MsgspecError, UnicodeDecodeError):
        return ("", ""), []
    uids = [uid for part in parts for pod in part.attempts for uid in (pod.uid, pod.controller) if uid is not None]
    return (head_of(record).cluster, job.namespace), uids


def forgotten_chunk(number: int) -> str:
    """Return the name of the record of a chunk of forgotten ids."""
    return f"{FORGOTTEN}/{number}"
