"""Jobs of Microsoft's Philly cluster with user and outcome (`philly_data_training.csv` of DIR-LAB), without queue and wait."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from engine.simulation.errors import RowError
from engine.simulation.traces.rows import MAX_PODS, CsvFormat, Fields, TraceRow, split
from statemachines.spec import Requests

_PHASES: Final[dict[str, Literal["Completed", "Failed", "Terminated"]]] = {
    "Pass": "Completed",
    "Failed": "Failed",
    "Killed": "Terminated",
}


class PhillyStatus(CsvFormat):
    """Format `philly-status`. Row key: `u_id`."""

    NAME = "philly-status"
    COLUMNS = ("u_id", "user", "gpu_num", "cpu_num", "node_num", "interval", "run_time", "new_status")

    def __init__(self, columns: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(columns)
        self._clock = 0

    def submit(self, fields: Fields) -> int:
        """Return the sum of `interval` up to this row (microseconds). A rejected row with a valid `interval` counts too."""
        self._clock += fields.seconds("interval")
        return self._clock

    def row(self, fields: Fields, submit: int) -> TraceRow:
        """Return the job: `node_num` pods that share its devices and cores, started at submission."""
        key = fields.key("u_id")
        status = fields.text("new_status")
        if status not in _PHASES:
            raise RowError(f"new_status is none of {', '.join(_PHASES)}: {status[:40]!r}")
        nodes = fields.count("node_num", least=1)
        if nodes > MAX_PODS:
            raise RowError(f"node_num is {nodes}, more than any cluster has")
        shares = zip(split(fields.count("gpu_num"), nodes), split(fields.count("cpu_num"), nodes), strict=True)
        return TraceRow(
            line=fields.line,
            key=key,
            name=f"philly-{key}",
            submit=submit,
            start=submit,
            end=submit + fields.seconds("run_time"),
            phase=_PHASES[status],
            pods=[Requests(gpu=gpu, cpu_milli=cpu * 1000) for gpu, cpu in shares],
            user=fields.text("user"),
            reason=status if status == "Killed" else None,
        )
