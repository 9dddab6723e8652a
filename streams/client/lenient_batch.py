"""Records whose headers have names that are no UTF-8.

Kafka's protocol calls a header's name a string, and brokers do not look at it. aiokafka refuses the whole batch; one such record of
another producer would hold up for good whatever reads its partition.
"""

from __future__ import annotations

from typing import Any

from aiokafka.record.default_records import _DefaultRecordBatchPy

__all__ = ["LenientBatch"]


class _Lenient(bytearray):
    """Bytes that give a text for whatever they are; aiokafka's parser takes texts from them only for names of headers."""

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401  as of a bytearray
        found = super().__getitem__(place)
        return _Lenient(found) if isinstance(place, slice) else found

    def decode(self, encoding: str = "utf-8", _errors: str = "") -> str:
        return bytes(self).decode(encoding, "backslashreplace")


class LenientBatch(_DefaultRecordBatchPy):  # type: ignore[misc]  # aiokafka has no types
    """A batch as aiokafka parses it in Python; in names of headers, bytes that are no UTF-8 stand as escapes."""

    _buffer: bytearray

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        if not isinstance(self._buffer, _Lenient):
            self._buffer = _Lenient(self._buffer)
