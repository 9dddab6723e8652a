"""Jobs of Microsoft's Philly cluster with submit time and virtual cluster (`philly.csv` of AdaptDL), without user and outcome."""

from __future__ import annotations

from typing import Final

from engine.events.times import parse_time
from engine.simulation.errors import RowError
from engine.simulation.traces.rows import MAX_PODS, CsvFormat, Fields, TraceRow
from statemachines.spec import Requests

_GPUS_PER_NODE: Final = 8
"""GPUs of Philly's largest nodes, and so the most of one pod."""


class Philly(CsvFormat):
    """Format `philly`. Row key: the row number, from 1."""

    NAME = "philly"
    COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")

    def submit(self, fields: Fields) -> int:
        """Return `timestamp`, read as UTC (microseconds)."""
        text = fields.text("timestamp")
        try:
            return parse_time(text)
        except ValueError:
            raise RowError(f"timestamp is not a time: {text[:40]!r}") from None

    def row(self, fields: Fields, submit: int) -> TraceRow:
        """Return the job: it starts at submission and completes after `duration`, in pods of at most eight devices."""
        gpus = fields.count("num_gpus", least=1)
        if gpus > MAX_PODS * _GPUS_PER_NODE:
            raise RowError(f"num_gpus is {gpus}, more than any cluster has")
        full, rest = divmod(gpus, _GPUS_PER_NODE)
        pods = [Requests(gpu=_GPUS_PER_NODE)] * full + ([Requests(gpu=rest)] if rest else [])
        return TraceRow(
            line=fields.line,
            key=str(fields.row),
            name=f"philly-{fields.row}",
            submit=submit,
            start=submit,
            end=submit + fields.seconds("duration"),
            phase="Completed",
            pods=pods,
            queue=fields.text("cluster") or "default",
        )
