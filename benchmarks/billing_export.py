"""Measure exports of 1,000,000 billing records and print one JSON object a line: `python benchmarks/billing_export.py [FORMAT…]`.

Parquet has a budget, in time and in memory (`billing.MEASURES`). Each is written to a file by a process of its own: its processor
time counts, which other work on the machine does not lengthen, and the peak of its resident memory. Expanding runs
into records is part of it, reading a log is not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final

from engine.billing.calendar import HOUR
from engine.billing.exports.formats import FORMATS, export
from engine.billing.exports.seller import Seller
from engine.billing.records import Record, records_of
from engine.events import Event
from engine.events.billing import Charge, UsageRecorded
from engine.events.times import SECOND, parse_time

RECORDS: Final = 1_000_000
_BEGIN: Final = parse_time("2026-10-01T00:00:00Z")


def runs() -> Iterator[Event[UsageRecorded]]:
    """Yield runs without end, 40 minutes on the average, each charged by three meters: five records a run."""
    number = 0
    while True:
        number += 1
        start = _BEGIN + number * 12 * SECOND % (30 * 24 * HOUR) + number % 1_000_003
        end = start + 1 + number * 7_919 % (80 * 60 * SECOND)
        charges = [
            Charge("gpu_seconds", "2", "0.000833333333"),
            Charge("cpu_seconds", "15.5", "0.0000111"),
            Charge("memory_byte_seconds", str(2**36 + number % 4_096), "0.0000000000000012"),
        ]
        data = UsageRecorded(
            task="worker",
            index=number % 64,
            attempt=number % 3,
            uid=f"7f1e0c9a-0000-4000-8000-{number:012x}",
            record="usage",
            start=start,
            end=end,
            length=end - start,
            kind="running",
            begun=f"{number:032x}",
            ended=f"{number + 1:032x}",
            period="2026-10",
            charges=charges,
            currency="EUR",
            price_version="2026-10",
            factors={"queue=research": "0.8"},
            tenant=f"tenant-{number % 20}",
            project=f"project-{number % 200}",
            queue=f"queue-{number % 40}",
            user=f"user-{number % 500}",
            namespace=f"namespace-{number % 40}",
            job_kind="Job",
            job_name=f"train-{number // 8}",
            labels={"team": f"team-{number % 30}"},
            node=f"node-{number % 1_000}",
            node_type="p4d.24xlarge",
            gpu_model="NVIDIA-A100-SXM4-40GB",
        )
        job = f"{number // 8:032x}"
        yield Event(f"{number:032x}", "lahar/billing", data.TYPE, job, end, end, 1, job, data.begun, "west", data)


def records() -> Iterator[Record]:
    """Yield so many records of them as are measured."""
    return islice((record for event in runs() for record in records_of(event)), RECORDS)


def write(name: str, path: str) -> tuple[float, float]:
    """Write them in a format; return the processor time (seconds), and the most memory that was resident (MB)."""
    began = process_time()
    with Path(path).open("wb") as stream:
        export(name, records(), Seller("Example GmbH", "gpu-west", "EUR"), stream)
    return process_time() - began, _peak() / 1_000_000


def _peak() -> int:
    """Return the most bytes that were resident since this program began: `ru_maxrss` has those of the process that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) * 1_024


def main(names: list[str]) -> None:
    """Measure the named formats, all without names."""
    for name in names or FORMATS:
        with TemporaryDirectory() as folder, get_context("spawn").Pool(1) as pool:
            path = Path(folder) / "records"
            seconds, megabytes = pool.apply(write, (name, str(path)))
            size = path.stat().st_size
        line = {"format": name, "seconds": round(seconds, 1), "megabytes": round(megabytes, 1), "records": RECORDS, "bytes": size}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
