from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.events import Data, Event, Message, Topic, decode
from engine.simulation.traces.facts import Facts
from engine.simulation.traces.files import read_lines
from engine.simulation.traces.importing import FORMATS
from engine.simulation.traces.rows import BadRow, TraceRow, read_rows

Rows = Callable[[str, str], list[TraceRow | BadRow]]


class Appended:
    """The one method of a log that importers use; keeps what was appended."""

    def __init__(self) -> None:
        self.calls: list[tuple[Topic, list[Message]]] = []

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        self.calls.append((topic, list(messages)))

    def topic(self, topic: Topic) -> list[Event[Data]]:
        return [decode(message) for name, messages in self.calls if name == topic for message in messages]


@pytest.fixture
def appended() -> Appended:
    return Appended()


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """Reads a file of some format, given its content."""

    def read(source_format: str, content: str) -> list[TraceRow | BadRow]:
        path = tmp_path / "trace"
        path.write_text(content)
        return list(read_rows(FORMATS[source_format]({}), read_lines(path)))

    return read


@pytest.fixture
def events(rows: Rows) -> Callable[[str, str], list[Event[Data]]]:
    """The facts of a file of some format, given its content."""

    def read(source_format: str, content: str) -> list[Event[Data]]:
        return [decode(message) for message in Facts(rows(source_format, content), source_format, "seren")]

    return read


@pytest.fixture
def shared_trace() -> Callable[[str], Path]:
    """Path of a full trace, where these are at hand."""

    def find(name: str) -> Path:
        if "LAHAR_SHARED" not in os.environ:
            pytest.skip("LAHAR_SHARED does not say where the full traces are")
        return Path(os.environ["LAHAR_SHARED"]) / "traces" / name

    return find


@pytest.fixture
def text_of() -> Callable[[Path], str]:
    return lambda path: gzip.decompress(path.read_bytes()).decode()
