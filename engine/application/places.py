"""Places of objects and of their fields in the files of users."""

from __future__ import annotations

from typing import Self

from engine.kubernetes.reading.documents import Document


class Place(str):
    """Where an object stands: `jobs.yaml: line 12`; empty: it was given by a program."""

    _source: str
    _document: Document | None

    def __new__(cls, source: str = "", document: Document | None = None) -> Self:
        """Return the place of a document.

        Args:
            source: name of its file; may be empty.
            document: the document.
        """
        made = super().__new__(cls, _joined(source, "" if document is None else document.place))
        made._source, made._document = source, document
        return made

    def at(self, path: str) -> str:
        """Return the place of a field: `jobs.yaml: line 14, column 7`; that of its object where it is not known."""
        return self if self._document is None else _joined(self._source, self._document.at(path))

    def of_warning(self, warning: str) -> str:
        """Return a warning that begins with the path of a field behind its place."""
        return _joined(self.at(warning.partition(": ")[0]), warning)


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)
