"""Recorded traces of real clusters as inputs of the engine.

File → `files` (lines) → a format (`openb`, `philly`, `philly_status`, `swf`: rows in a common form) → `facts` (inputs in time
order) → log. Facts that a trace lacks stay unknown.
"""

from engine.simulation.traces.files import cluster_of
from engine.simulation.traces.importing import FORMATS, ImportReport, import_rows, import_trace, read_trace
from engine.simulation.traces.rows import BadRow, with_tenants
from engine.simulation.traces.sample import sample_trace

__all__ = [
    "FORMATS",
    "BadRow",
    "ImportReport",
    "cluster_of",
    "import_rows",
    "import_trace",
    "read_trace",
    "sample_trace",
    "with_tenants",
]
