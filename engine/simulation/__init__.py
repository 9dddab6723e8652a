"""Worlds that are not this one: importers of recorded traces, and clusters that exist in memory only."""

from engine.simulation.errors import RowError, SimulationError, TraceError
from engine.simulation.traces import FORMATS, ImportReport, cluster_of, import_trace, sample_trace

__all__ = [
    "FORMATS",
    "ImportReport",
    "RowError",
    "SimulationError",
    "TraceError",
    "cluster_of",
    "import_trace",
    "sample_trace",
]
