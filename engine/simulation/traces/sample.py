"""The trace that ships with Lahar: real jobs to look at without fetching anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

__all__ = ["sample_trace"]


@contextmanager
def sample_trace() -> Iterator[Path]:
    """Yield the path of the first 3,000 jobs of the Philly trace, of format `philly-status` (CC-BY-4.0, © Microsoft)."""
    with as_file(files("engine.simulation") / "data" / "philly_status_3000.csv.gz") as path:
        yield path
