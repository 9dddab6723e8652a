"""Errors of requests: what a caller asked for cannot be done as asked.

LaharError
└── RequestError            an argument cannot be used
    └── AlreadyExistsError      a live job has the name of a submission

Other packages' errors that every caller may meet are here too.
"""

from __future__ import annotations

from engine.arguments import RequestError
from engine.effects.errors import UnknownCallbackError
from engine.kubernetes.reading.object_files import DamagedFileError
from engine.log.errors import LogError, LogUnavailableError

__all__ = ["AlreadyExistsError", "DamagedFileError", "LogError", "LogUnavailableError", "RequestError", "UnknownCallbackError"]


class AlreadyExistsError(RequestError):
    """Raised when a job is submitted without an id under the name of a live one; nothing was appended."""

    def __init__(self, place: str, name: str, live: str) -> None:
        super().__init__(
            f"{place + ': ' if place else ''}AlreadyExists: {name} {live}; `lahar apply` changes a live job; "
            "to submit another give an id (--id), or allow the same name (--allow-same-name)"
        )
