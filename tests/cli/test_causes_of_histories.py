"""No history of a real trace or of an overloaded cluster has an effect before its cause, in its events or in its answers."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from causes_in_order import must_be_in_order

from engine.history.reading import history_of, job_events
from engine.runtime.opening import opened
from engine.runtime.settings import Settings
from engine.simulation import sample_trace

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "overload"
JOBS = 150
FULL = [("philly-status", "philly_status_15k.csv.gz"), ("openb", "openb_pods.csv.gz"), ("swf", "hpc2n_sample.swf.gz"),
        ("philly", "philly_gpu_jobs.csv.gz")]  # fmt: skip


def must_tell_causes_first() -> None:
    with opened(Settings(log="sqlite:./lahar.db")) as log:
        jobs = list(dict.fromkeys(event.subject for event in job_events(log)))
        assert len(jobs) > JOBS // 2
        assert sum(must_be_in_order(history_of(log, job)) for job in jobs[:JOBS]) > JOBS


def lines_of(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as lines:
        yield from islice(lines, 2 * JOBS)


@pytest.mark.parametrize("source_format", ["philly-status", "openb"])
def test_the_samples(lahar, source_format):
    file = Path("trace.csv")
    with sample_trace(source_format) as sample:
        file.write_bytes(b"".join(lines_of(sample)))
    lahar("import-trace", "--format", source_format, file)
    must_tell_causes_first()


@pytest.mark.parametrize(("source_format", "name"), FULL)
def test_the_first_rows_of_full_traces(lahar, source_format, name):
    if "LAHAR_SHARED" not in os.environ:
        pytest.skip("LAHAR_SHARED does not say where the full traces are")
    file = Path("trace")
    file.write_bytes(b"".join(lines_of(Path(os.environ["LAHAR_SHARED"]) / "traces" / name)))
    lahar("import-trace", "--format", source_format, file)
    must_tell_causes_first()


def test_an_overloaded_cluster_with_incidents_and_notices(lahar):
    files = [word for name in ("nodes.csv", "queues.yaml", "scheduler.yaml", "incidents.csv")
             for word in (f"--{name.partition('.')[0]}", EXAMPLE / name)]  # fmt: skip
    lahar(
        "--log",
        "sqlite:./lahar.db",
        "simulate",
        "--format",
        "openb",
        "--jobs",
        JOBS,
        "--speed-up",
        40,
        *files,
        "--privileged",
        "openb-pod-5265",
        "--out",
        "out",
    )
    must_tell_causes_first()
