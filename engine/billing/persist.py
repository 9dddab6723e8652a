"""Encoding of a billing shard's state as snapshot records.

A job has a head record with its first attempts and page records with further ones, so no record grows without bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify
from typing import Final

from msgspec import Struct, msgpack

from engine.billing.book import Book
from engine.billing.state import PAGE, Attempt, Job, JobAccount, Node, Packed, State
from engine.events.prices import read_book
from engine.events.times import Micros

_JOB: Final = "job/"
_PAGE: Final = "attempts/"
_NODE: Final = "node/"
_FIRST: Final = 4
"""Attempts in the head record; most jobs have no more, and so have one record."""
_UNPACKED: Final = 1_024
"""Minimum number of jobs that stay unpacked."""
_NODES: Final = 64
"""Maximum number of nodes in the head of a finished job; with more, they are read from its attempts."""
BOOK: Final = "book"
"""Record with the price book, the closed months, and the reviews of all jobs."""
SWEPT: Final = "swept"
"""Record with the progress of these reviews."""


class _Rest(Struct, array_like=True):
    """Content of the record `BOOK`."""

    book: dict[str, object] | None
    books: list[str]
    periods: dict[str, str]
    sweeps: int
    sweep_at: Micros
    sweep_cause: str


_read_head: Final = msgpack.Decoder(JobAccount).decode
_read_page: Final = msgpack.Decoder(list[Attempt]).decode
_read_node: Final = msgpack.Decoder(Node).decode
_read_rest: Final = msgpack.Decoder(_Rest).decode
_read_swept: Final = msgpack.Decoder(tuple[int, str]).decode
_write: Final = msgpack.Encoder().encode


def head_record(job: str) -> str:
    """Return the name of a job's head record."""
    return _JOB + job


def page_record(job: str, ordinal: int) -> str:
    """Return the name of the record with an attempt."""
    return _JOB + job if ordinal < _FIRST else f"{_PAGE}{(ordinal - _FIRST) // PAGE}/{job}"


def job_records(job: str, attempts: int) -> Iterator[str]:
    """Yield the names of the records of a job with this number of attempts."""
    yield head_record(job)
    for ordinal in range(_FIRST, attempts, PAGE):
        yield page_record(job, ordinal)


def node_record(node: tuple[str, str]) -> str:
    """Return the name of a node's record: cluster and node, with slashes escaped."""
    return _NODE + "/".join(part.replace("%", "%25").replace("/", "%2F") for part in node)


def use_of(attempt: Attempt) -> tuple[str, Micros] | None:
    """Return the node whose type and model priced an attempt, and the binding time; `None` if no node did."""
    if attempt.node is None or attempt.bound is None or not (attempt.recorded or attempt.revision):
        return None
    return attempt.node, attempt.bound.time


def _uses(attempts: Iterable[Attempt]) -> dict[str, Micros]:
    """Return the nodes that priced attempts, with the latest binding time."""
    found: dict[str, Micros] = {}
    for attempt in attempts:
        if (use := use_of(attempt)) is not None:
            node, since = use
            found[node] = max(found.get(node, since), since)
    return found


def touch(state: State, job: str, attempt: Attempt) -> None:
    """Mark the record of an attempt as changed."""
    state.touched[page_record(job, attempt.ordinal)] = None


def touch_page(state: State, job: str, attempt: Attempt) -> None:
    """Mark the page of an attempt as changed; the job's head is already marked."""
    if attempt.ordinal >= _FIRST:
        touch(state, job, attempt)


def subject_of(record: str) -> str:
    """Return the subject of a record; that of a page is its job."""
    return head_record(record.split("/", 2)[2]) if record.startswith(_PAGE) else record


def records(state: State) -> Iterator[str]:
    """Yield the name of every record."""
    counts = [(ident, account.job.count) for ident, account in state.jobs.items()]
    counts += [(ident, _FIRST + PAGE * len(packed.pages)) for ident, packed in state.idle.items()]
    for ident, count in counts:
        yield from job_records(ident, count)
    yield from map(node_record, list(state.nodes))
    yield from (BOOK, SWEPT)


def dump(state: State, record: str) -> bytes | None:
    """Return the content of a record; `None` if its subject was removed. Packs a finished job."""
    kind, _, name = record.partition("/")
    if kind == "job":
        if (account := state.jobs.get(name)) is not None and _is_over(account.job):
            _pack(state, account)
        return _head(state, name)
    if kind == "attempts":
        page, _, ident = name.partition("/")
        return _page(state, ident, int(page)) if page.isdecimal() else None
    if kind == "node":
        cluster, _, node = name.partition("/")
        found = state.nodes.get((_unescaped(cluster), _unescaped(node)))
        return None if found is None else _write(found)
    if record == SWEPT:
        return _write(state.swept) if state.swept[0] else None
    if record != BOOK:
        return None
    book = dict(state.book.spec) if state.book.book is not None else None
    return _write(_Rest(book, state.books, state.periods, state.sweeps, state.sweep_at, state.sweep_cause))


def _unescaped(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")


def _head(state: State, ident: str) -> bytes | None:
    packed = state.idle.get(ident)
    if packed is None and (account := state.jobs.get(ident)) is not None:
        packed = _packed(account)
    return None if packed is None else packed.begin + packed.rest


def _page(state: State, ident: str, page: int) -> bytes | None:
    if (packed := state.idle.get(ident)) is not None:
        return packed.pages[page] if page < len(packed.pages) else None
    account, begin = state.jobs.get(ident), _FIRST + page * PAGE
    return None if account is None or begin >= len(account.attempts) else _write(account.attempts[begin : begin + PAGE])


def _is_over(job: Job) -> bool:
    return job.finished and not job.open and job.review < 0


def _pack(state: State, account: JobAccount) -> None:
    """Pack a job into its records, which take a third of the memory."""
    job = account.job
    if _is_over(job):
        nodes = _uses(account.attempts)
        job.nodes = list(nodes.items()) if len(nodes) <= _NODES else None
    state.idle[job.id] = _packed(account, _pages(account.attempts) if len(account.attempts) > _FIRST else ())
    del state.jobs[job.id]


def _pages(attempts: list[Attempt]) -> tuple[bytes, ...]:
    # Copies of exact size, as in `Packed.of`.
    return tuple(bytes(memoryview(_write(attempts[at : at + PAGE]))) for at in range(_FIRST, len(attempts), PAGE))


def _packed(account: JobAccount, pages: tuple[bytes, ...] = ()) -> Packed:
    job, ident = account.job, account.job.id
    job.id = ""  # the record's name is the id
    head = _write((job, account.attempts[:_FIRST]))
    job.id = ident
    return Packed.of(ident, head, pages)


def pack_idle(state: State) -> None:
    """Pack the jobs that were unpacked longest ago, down to a maximum; never while a job is processed.

    A job with many attempts stays unpacked, because its next event would decode all of them.
    """
    while len(state.recent) > _UNPACKED:
        _pack_small(state, state.recent.popleft())


def pack_last(state: State, before: int) -> None:
    """Pack the jobs unpacked last, down to a number: an hour mark visits every job once and must not evict the others."""
    while len(state.recent) > before:
        _pack_small(state, state.recent.pop())


def _pack_small(state: State, ident: str) -> None:
    account = state.jobs.get(ident)
    if account is not None and len(account.attempts) <= PAGE:
        _pack(state, account)


def account_of(state: State, ident: str) -> JobAccount | None:
    """Return a job's account, unpacked if necessary; `None` if unknown."""
    account = state.jobs.get(ident)
    if account is None and (packed := state.idle.pop(ident, None)) is not None:
        account = _account(packed)
        state.jobs[packed.id] = account
        state.recent.append(packed.id)
        if _is_over(account.job):
            account.job.nodes = []
            state.touched[head_record(ident)] = None
    return account


def _account(packed: Packed) -> JobAccount:
    account = _read_head(packed.begin + packed.rest)
    account.job.id = packed.id  # one string for all references to the job
    for page in packed.pages:
        account.attempts += _read_page(page)
    return account


def load(state: State, records: Iterable[tuple[str, bytes]]) -> None:
    """Restore an initial state from records."""
    heads: dict[str, bytes] = {}
    pages: dict[str, dict[int, bytes]] = {}
    for record, content in records:
        kind, _, name = record.partition("/")
        if kind == "job":
            heads[name] = content
        elif kind == "attempts":
            page, _, ident = name.partition("/")
            pages.setdefault(ident, {})[int(page)] = content
        elif kind == "node":
            cluster, _, node = name.partition("/")
            state.nodes[_unescaped(cluster), _unescaped(node)] = _read_node(content)
        elif record == BOOK:
            _load_book(state, _read_rest(content))
        elif record == SWEPT:
            state.swept = _read_swept(content)
    for ident, content in heads.items():
        packed = Packed.of(ident, content, tuple(page for _, page in sorted(pages.get(ident, {}).items())))
        state.idle[ident] = packed
        _index(state, _account(packed))
    gone = [(node.gone, place) for place, node in state.nodes.items() if node.gone is not None]
    for _, place in sorted(gone):
        state.nodes[place] = state.nodes.pop(place)
    state.unsettled.sort()
    heapify(state.reviews)
    state.node_reviews = [(node.review.at, place) for place, node in state.nodes.items() if node.review is not None]
    heapify(state.node_reviews)
    heapify(state.sweeping)


def _index(state: State, account: JobAccount) -> None:
    """Add a job to the derived indexes."""
    job = account.job
    if job.born > state.sweeps:
        state.ahead[job.id] = job.born
    if state.awaits_sweep(job):
        state.sweeping.append(job.id)
    if job.forgotten is not None:
        state.unsettled.append((job.forgotten, job.id))
    for node in job.unknown:
        state.unknown.setdefault((job.cluster, node), {})[job.id] = None
    if _is_over(job):
        uses = dict(job.nodes) if job.nodes is not None else _uses(account.attempts)
        _restore_uses(state, job, uses)
        return
    _restore_uses(state, job, _uses(account.attempts))
    if job.review >= 0:
        state.reviews.append((job.review_at, job.id))
    for attempt in account.attempts:
        if attempt.due is not None:
            state.at_mark(attempt.due, job.id, attempt.ordinal)


def _load_book(state: State, rest: _Rest) -> None:
    state.books, state.periods = rest.books, rest.periods
    state.sweeps, state.sweep_at, state.sweep_cause = rest.sweeps, rest.sweep_at, rest.sweep_cause
    if rest.book is not None and (book := read_book(rest.book)[0]) is not None:
        state.book = Book.of(book, rest.book)


def _restore_uses(state: State, job: Job, uses: Mapping[str, Micros]) -> None:
    for node, since in uses.items():
        state.used.setdefault((job.cluster, node), {})[job.id] = since
