"""Errors of the vocabulary.

EventError
├── NotKeptError         an input that its stage can neither decide on nor keep
├── UndecodableError     bytes that are no event or break its schema
└── UnknownTypeError     a type or version that this release does not know
"""

from __future__ import annotations

from pydantic_core import PydanticSerializationError

from statemachines.errors import LaharError


class EventError(LaharError, ValueError):
    """Base of all errors of this package."""


class NotKeptError(EventError):
    """Raised by a stage, before any event, for an input to be held without room for it; it becomes a dead letter."""


class UndecodableError(EventError):
    """Raised when bytes are no CloudEvent, or their data break the schema of their type."""


class UnknownTypeError(EventError):
    """Raised when an event's type is neither in the vocabulary nor has an upcaster."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown event type {name!r}: a newer Lahar wrote it, or it is not Lahar's")
        self.name = name


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C.

    A serializer of pydantic runs Python code where it compares a value with its default. It wraps the KeyboardInterrupt that comes
    there in a ValueError, which keeps only its name.
    """
    wrapped = isinstance(error, PydanticSerializationError) and "KeyboardInterrupt" in str(error)
    return wrapped or isinstance(error, KeyboardInterrupt)
