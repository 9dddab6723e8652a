"""Snapshots of a shard's state, written incrementally.

A snapshot is fuzzy: different commits wrote its records. The manifest has the shardsequence W up to which the records include every
change; the tail after W has the rest and repeats some changes, which `Stage.contains` detects, subject by subject. A large subject
has several records; one commit writes its changed records, so that they match. Records changed since they were written are *dirty*
and are written oldest subject first, so that W advances. `Stage.exact` records are written as they were at W, and the tail repeats
their later changes.

A commit writes enough dirty records that each is written before `every` further inputs are processed; after a large subject the
next commits write less. So the tail stays proportional to `every` inputs and a commit's share to its inputs; 1 MiB, or the changes
of one subject, bounds its pause. Measured over 100,000 subjects of 600 B, changed at random: 250 to 330 written with a commit of
500 inputs.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from msgspec import Struct
from pydantic import Field, TypeAdapter, ValidationError

from engine.events import Topic
from engine.log.port import Partition, Position, Vector
from engine.processor.accounts import Accounts
from engine.processor.stage import Stage

MANIFEST: Final = "_manifest"
ACCOUNTS: Final = "_accounts"

_GENERATION_BYTES: Final = 4
_LARGEST_GENERATION: Final = 2 ** (8 * _GENERATION_BYTES) - 1
_MODULUS: Final = 1 << 128
_CYCLE_BYTES: Final = 1 << 20
"""Maximum bytes of state written in one cycle (about 10 ms), unless a single subject is larger."""
_MARK_EVERY: Final = 2_000
"""Number of outputs between two positions from which a tail can be read."""

S = TypeVar("S")


def record_hash(subject: str, record: bytes) -> int:
    """Return the 128-bit hash of one record."""
    return int.from_bytes(blake2b(subject.encode() + b"\x00" + record, digest_size=16).digest(), "big")


def state_hash(stage: Stage[S], state: S) -> str:
    """Return the hash of a state, 32 hexadecimal digits: the sum of its records' hashes, independent of their order (AdHash)."""
    total = 0
    for name in stage.records(state):
        record = stage.dump(state, name)
        if record is not None:
            total += record_hash(name, record)
    return f"{total % _MODULUS:032x}"


@dataclass(frozen=True, slots=True)
class _Manifest:
    """Description of the other records."""

    generation: Annotated[int, Field(ge=0, le=_LARGEST_GENERATION)]
    state_version: int
    shardsequence: int
    vector: tuple[int, ...]
    now: int
    offsets: list[tuple[Topic, int, int]]
    hash: str


_MANIFEST_OF: Final = TypeAdapter(_Manifest)


@dataclass(slots=True)
class Loaded:
    """Usable part of a shard's snapshot; empty if none is usable."""

    generation: int
    """Generation of the next records. Records of other generations are ignored, so a refold need not delete them at once."""
    records: list[tuple[str, bytes]] = field(default_factory=list)
    accounts: Accounts = field(default_factory=Accounts)
    low: Position | None = None
    """Position up to which the records include everything: own output and absorbed inputs. `None`: no snapshot."""
    offsets: dict[Partition, int] = field(default_factory=dict)
    """First offset of the tail by output partition."""
    hashes: dict[str, int] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)
    """Obsolete records to replace or delete."""
    fault: str = ""
    """Reason why the stored snapshot is not used; empty if it is."""


def load(stored: Iterable[tuple[str, bytes]], state_version: int) -> Loaded:
    """Read a snapshot.

    Args:
        stored: records of the shard.
        state_version: version that the stage can load. A snapshot with another version or a wrong hash is not used.
    """
    manifest: _Manifest | None = None
    torn = False
    by_generation: dict[int, list[tuple[str, bytes]]] = {}
    for subject, framed in stored:
        if subject == MANIFEST:
            manifest = _read_manifest(framed)
            torn = manifest is None
        else:
            by_generation.setdefault(int.from_bytes(framed[:_GENERATION_BYTES], "big"), []).append((subject, framed))
    generation = 0 if manifest is None else manifest.generation
    current = by_generation.get(generation, [])
    hashes = {subject: record_hash(subject, framed) for subject, framed in current}
    stale = [subject for other, found in by_generation.items() if other != generation for subject, _ in found]
    damaged = torn or (bool(by_generation) if manifest is None else manifest.hash != _hex(hashes.values()))
    if damaged or manifest is None or manifest.state_version != state_version:
        every = [subject for found in by_generation.values() for subject, _ in found if subject != ACCOUNTS]
        fault = ""
        if damaged:
            fault = "its records are not those that were written"
        elif manifest is not None:
            fault = f"it is of state version {manifest.state_version}, this release reads {state_version}"
        used = {generation, *by_generation}
        return Loaded(next(number for number in range(1, len(used) + 2) if number not in used), stale=every, fault=fault)
    records = [(subject, framed[_GENERATION_BYTES:]) for subject, framed in current]
    accounts = Accounts.load(next(record for subject, record in records if subject == ACCOUNTS))
    return Loaded(
        generation,
        [found for found in records if found[0] != ACCOUNTS],
        accounts,
        Position(manifest.vector, manifest.now, manifest.shardsequence),
        {Partition(topic, number): offset for topic, number, offset in manifest.offsets},
        hashes,
        stale,
    )


def rehashed(stored: Iterable[tuple[str, bytes]]) -> tuple[list[tuple[str, bytes]], bool]:
    """Return a snapshot's records with a correct hash in the manifest, and true if it was correct before.

    For the inspection of a snapshot that recovery would not use.
    """
    records = list(stored)
    stated = next((framed for subject, framed in records if subject == MANIFEST), None)
    if stated is None:
        return records, True
    manifest = _read_manifest(stated)
    if manifest is None:
        return records, False
    generation = manifest.generation.to_bytes(_GENERATION_BYTES, "big")
    found = _hex(
        record_hash(subject, framed)
        for subject, framed in records
        if subject != MANIFEST and framed[:_GENERATION_BYTES] == generation
    )
    whole = found == manifest.hash
    restated = _MANIFEST_OF.dump_json(replace(manifest, hash=found))
    return [(subject, restated if subject == MANIFEST else framed) for subject, framed in records], whole


def _read_manifest(framed: bytes) -> _Manifest | None:
    """Return the manifest; `None` if it is torn."""
    try:
        return _MANIFEST_OF.validate_json(framed)
    except ValidationError:
        return None


def _hex(hashes: Iterable[int]) -> str:
    return f"{sum(hashes) % _MODULUS:032x}"


class _Dirty(Struct):
    """A subject changed since it was written."""

    since: Position
    """The shard's position before the change."""
    records: dict[str, None]
    """Its changed records."""


class _Version(NamedTuple):
    """Content of an exact record."""

    before: Position
    """The shard's position before the change."""
    record: str
    content: bytes | None


class Snapshots:
    """Tracks dirty records and selects those that each commit writes."""

    def __init__(self, stage: Stage[Any], loaded: Loaded, every: int) -> None:
        """Continue from the stored snapshot.

        Args:
            stage: encodes the records.
            loaded: the stored snapshot.
            every: a changed record is written within this many inputs.
        """
        self._stage = stage
        self._generation = loaded.generation
        self._every = every
        self._hashes = loaded.hashes
        self._total = sum(loaded.hashes.values())
        self._dirty: OrderedDict[str, _Dirty] = OrderedDict()  # finding the first entry of a dict scans all popped ones
        self._count = 0
        self._unwritten = 0
        self._exact = frozenset(stage.exact)
        self._versions: deque[_Version] = deque()
        self._marks: deque[tuple[int, dict[Partition, int]]] = deque([(0, {})])
        self._credit = 0.0
        self.low: Position = loaded.low or Position(())
        """Position up to which the records include everything."""
        if loaded.low is not None:
            self._marks.append((loaded.low.shardsequence, loaded.offsets))
        self.touch(loaded.stale, self.low)

    @property
    def dirty(self) -> int:
        """Number of records that are older than the state; each change of an exact record counts."""
        return self._count + len(self._versions)

    @property
    def subjects(self) -> int:
        """Number of records, including unwritten ones, except unwritten exact ones. Callable from any thread."""
        return len(self._hashes) - (ACCOUNTS in self._hashes) + self._unwritten

    def touch(self, records: Iterable[str], before: Position, state: Any = None) -> None:  # noqa: ANN401  the stage's own
        """Mark records as changed after `before`.

        Args:
            records: names of the records.
            before: position of the shard before the change.
            state: state of the stage after the changes; `None` if the stored records are not part of this snapshot.
        """
        dirty, written, subject_of = self._dirty, self._hashes, self._stage.subject
        for record in records:
            if record in self._exact:
                self._versions.append(_Version(before, record, None if state is None else self._stage.dump(state, record)))
                continue
            subject = subject_of(record)
            found = dirty.get(subject)
            if found is None:
                dirty[subject] = _Dirty(before, {record: None})
            elif record in found.records:
                continue
            else:
                found.records[record] = None
            self._count += 1
            if record not in written:
                self._unwritten += 1

    def wants_mark(self, shardsequence: int) -> bool:
        """Return true if `mark` is due."""
        return shardsequence - self._marks[-1][0] >= _MARK_EVERY

    def mark(self, shardsequence: int, ends: dict[Partition, int]) -> None:
        """Record the ends of the output partitions, before any output after `shardsequence` is written."""
        self._marks.append((shardsequence, ends))

    def changes(self, state: Any, after: Position, accounts: Accounts, inputs: int | None) -> list[tuple[str, bytes | None]]:  # noqa: ANN401  the stage's own
        """Return the records to write with a commit; empty if none is due.

        If outputs change no subject (dead letters, accounts), the manifest alone is written often enough to keep the tail short.

        Args:
            state: state of the stage after all outputs of the commit.
            after: position of the shard after the commit.
            accounts: accounts after the commit.
            inputs: number of inputs in the commit; `None`: the shard is idle, and writes as much as fits a cycle.
        """
        if inputs is None:
            self._credit = quota = self._count
        else:
            self._credit = min(self._credit + self._count * inputs / self._every, self._count)
            quota = int(self._credit)
        if quota <= 0 and (self._dirty or (not self._versions and after.shardsequence - self.low.shardsequence < self._every)):
            return []
        written: list[tuple[str, bytes | None]] = []
        size = 0
        while len(written) < quota and size < _CYCLE_BYTES:
            for name in self._dirty.popitem(last=False)[1].records:
                record = self._stage.dump(state, name)
                if name not in self._hashes:
                    self._unwritten -= 1
                written.append(self._replace(name, record))
                size += len(record or b"")
        self._count -= len(written)
        self._credit -= len(written)
        self.low = next(iter(self._dirty.values())).since if self._dirty else after
        passed: dict[str, bytes | None] = {}
        while self._versions and (not self._dirty or self._versions[0].before.shardsequence < self.low.shardsequence):
            version = self._versions.popleft()
            passed[version.record] = version.content
        written += (self._replace(*version) for version in passed.items())
        written.append(self._replace(ACCOUNTS, accounts.dump()))
        written.append((MANIFEST, self._manifest()))
        return written

    def _replace(self, subject: str, record: bytes | None) -> tuple[str, bytes | None]:
        self._total -= self._hashes.pop(subject, 0)
        if record is None:
            return subject, None
        framed = self._generation.to_bytes(_GENERATION_BYTES, "big") + record
        self._hashes[subject] = added = record_hash(subject, framed)
        self._total += added
        return subject, framed

    def _manifest(self) -> bytes:
        while len(self._marks) > 1 and self._marks[1][0] <= self.low.shardsequence:
            self._marks.popleft()
        vector: Vector = self.low.vector
        return json.dumps(
            {
                "generation": self._generation,
                "state_version": self._stage.state_version,
                "shardsequence": self.low.shardsequence,
                "vector": vector,
                "now": self.low.now,
                "offsets": [[topic, number, offset] for (topic, number), offset in self._marks[0][1].items()],
                "hash": f"{self._total % _MODULUS:032x}",
            }
        ).encode()
