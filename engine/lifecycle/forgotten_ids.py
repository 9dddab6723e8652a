"""Ids of forgotten jobs, and of ids that never became a job: 20 bytes each, stored twice."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

PER_CHUNK: Final = 4096
"""Entries per snapshot record, 80 KiB."""

_DIGEST: Final = 16
_ENTRY: Final = _DIGEST + 4
_BUCKETS: Final = 4096


class Forgotten:
    """A set of forgotten ids, each with the last sequence if it was no job, so that later events about it continue from there."""

    def __init__(self) -> None:
        """Create an empty set."""
        self._order = bytearray()
        self._buckets: dict[int, bytearray] = {}

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._order) // _ENTRY

    def __contains__(self, ident: str) -> bool:
        """Return true if a job with this id was forgotten."""
        return self._find(_digest(ident)) == 0

    def sequence(self, ident: str) -> int:
        """Return the last sequence of an id that was no job; 0: it is absent, or was a job."""
        return self._find(_digest(ident)) or 0

    def add(self, ident: str, sequence: int) -> int | None:
        """Add an id.

        Args:
            ident: the id.
            sequence: sequence of the last event about it; 0: it was a job.

        Returns:
            The changed chunk; `None`: the id is present with this sequence or a later one.
        """
        digest = _digest(ident)
        known = self._find(digest)
        if known is not None and (not known or 0 < sequence <= known):
            return None
        self._append(digest + sequence.to_bytes(4, "big"))
        return (len(self) - 1) // PER_CHUNK

    def chunks(self) -> range:
        """Return the numbers of the chunks."""
        return range(-(-len(self) // PER_CHUNK))

    def chunk(self, number: int) -> bytes:
        """Return a chunk; only the last one may grow."""
        size = PER_CHUNK * _ENTRY
        return bytes(self._order[number * size : (number + 1) * size])

    def load(self, chunk: bytes) -> None:
        """Add a chunk, in order."""
        for at in range(0, len(chunk), _ENTRY):
            self._append(chunk[at : at + _ENTRY])

    def _append(self, entry: bytes) -> None:
        self._order += entry
        self._buckets.setdefault(_bucket(entry), bytearray()).extend(entry)

    def _find(self, digest: bytes) -> int | None:
        """Return the sequence in the last entry of a digest."""
        bucket = self._buckets.get(_bucket(digest))
        if bucket is None:
            return None
        at = bucket.rfind(digest)
        while at > 0 and at % _ENTRY:  # a match across entries
            at = bucket.rfind(digest, 0, at + _DIGEST - 1)
        return None if at < 0 else int.from_bytes(bucket[at + _DIGEST : at + _ENTRY], "big")


def _digest(ident: str) -> bytes:
    return blake2b(ident.encode(), digest_size=_DIGEST).digest()


def _bucket(digest: bytes) -> int:
    return int.from_bytes(digest[:2], "big") % _BUCKETS
