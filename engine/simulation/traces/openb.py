"""Pods of Alibaba's GPU-sharing Kubernetes cluster, 2023 (`openb_pod_list_*.csv`); each becomes a job with one pod."""

from __future__ import annotations

from typing import Final, Literal

from engine.simulation.errors import RowError
from engine.simulation.traces.rows import CsvFormat, Fields, TraceRow
from statemachines.spec import Requests

# `pod_phase` is the last phase before the deletion: a Running pod was stopped, a Pending one never started; the node of an Unknown
# one had stopped reporting.
_PHASES: Final[dict[str, Literal["Completed", "Failed", "Terminated"]]] = {
    "Succeeded": "Completed",
    "Failed": "Failed",
    "Running": "Terminated",
    "Pending": "Terminated",
    "Unknown": "Terminated",
}
_MEBIBYTE: Final = 1 << 20


class Openb(CsvFormat):
    """Format `openb`. Row key: `name`."""

    NAME = "openb"
    COLUMNS = (
        "name",
        "cpu_milli",
        "memory_mib",
        "num_gpu",
        "gpu_milli",
        "qos",
        "pod_phase",
        "creation_time",
        "deletion_time",
        "scheduled_time",
    )

    def submit(self, fields: Fields) -> int:
        """Return `creation_time` (microseconds); the trace does not document its origin."""
        return fields.seconds("creation_time")

    def row(self, fields: Fields, submit: int) -> TraceRow:
        """Return the pod as a job with one pod; a shared device counts as one whole device, and as its share."""
        name = fields.key("name")
        status = fields.text("pod_phase")
        if status not in _PHASES:
            raise RowError(f"pod_phase is none of {', '.join(_PHASES)}: {status[:40]!r}")
        gpu, milli = fields.count("num_gpu"), fields.count("gpu_milli")
        if milli > 1000:
            raise RowError(f"gpu_milli is {milli}, more than a whole device (1000)")
        requests = Requests(
            cpu_milli=fields.count("cpu_milli"),
            memory_bytes=fields.count("memory_mib") * _MEBIBYTE,
            gpu=gpu,
            gpu_share_milli=None if gpu * milli == gpu * 1000 else gpu * milli,
        )
        return TraceRow(
            line=fields.line,
            key=name,
            name=name,
            submit=submit,
            start=None if status == "Pending" else fields.seconds("scheduled_time"),
            end=fields.seconds("deletion_time"),
            phase=_PHASES[status],
            pods=(requests,),
            queue=fields.text("qos") or "default",
            reason=f"DeletedWhile{status}" if _PHASES[status] == "Terminated" else None,
            exit_unknown=status == "Unknown",
        )
