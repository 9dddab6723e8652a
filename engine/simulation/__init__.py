"""Simulation: importers of recorded traces, and clusters in memory on which their jobs run."""

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
