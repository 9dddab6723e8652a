"""Read model: tables of the projection, and the events from which they are folded."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import ClassVar, Protocol

from engine.events import Data, Event, Topic


class ReadModel(Protocol):
    """Tables of one subject. Receives batches of events (`apply`), then writes them in a transaction (`write`)."""

    NAME: ClassVar[str]
    VERSION: ClassVar[int]
    """Incremented when the same events give other rows, so that the projection is rebuilt."""
    TABLES: ClassVar[str]
    """SQL that creates its tables."""
    TOPICS: ClassVar[tuple[Topic, ...]]
    TYPES: ClassVar[Collection[str]]
    """Event types to apply."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Use the connection of the projection; the tables may not exist yet."""

    def apply(self, event: Event[Data]) -> None:
        """Apply one event, in commit order, within a transaction of the projection. Must not fail on any event of a log."""

    def write(self) -> None:
        """Write the changes of the events since the last call, in the same transaction."""

    def forget(self) -> None:
        """Drop cached state: another process has written since, or the transaction was rolled back."""
