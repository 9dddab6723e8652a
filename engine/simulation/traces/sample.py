"""Sample traces that ship with Lahar: real jobs without a download."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from engine.simulation.errors import TraceError
from engine.simulation.traces.importing import must_be_format

_FILES: Final = {"openb": "openb_pods_3000.csv.gz", "philly-status": "philly_status_3000.csv.gz"}
"""File in `engine/simulation/data` by format; ATTRIBUTION.md beside them has sources and licences."""


@contextmanager
def sample_trace(source_format: str = "philly-status") -> Iterator[Path]:
    """Yield the path of 3,000 rows of a real trace.

    Args:
        source_format: `openb` has waits, and dates in 2023; `philly-status` has jobs with several pods, starts each job at
            submission, and counts time from 1970.

    Raises:
        TraceError: the format is unknown, or no sample of it ships with Lahar.
    """
    must_be_format(source_format)
    if source_format not in _FILES:
        raise TraceError(f"no sample of format {source_format!r} ships with Lahar, only of {', '.join(_FILES)}; name a FILE")
    with as_file(files("engine.simulation") / "data" / _FILES[source_format]) as path:
        yield path
