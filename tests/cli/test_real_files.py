"""The command on objects of real API servers and traces of real clusters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = os.environ.get("LAHAR_SHARED")
pytestmark = pytest.mark.skipif(SHARED is None, reason="LAHAR_SHARED does not say where the real files are")

OBJECTS = 180
"""Objects in all files, as their README counts them."""


def objects():
    return sorted(path for path in (Path(SHARED or "") / "pods").iterdir() if path.suffix in {".yaml", ".json"})


@pytest.mark.parametrize("level", ["pod", "job"])
def test_every_object_is_inspected(lahar, level):
    records = [record for path in objects() for record in lahar("inspect", level, path, "--json").records]
    assert len(records) == OBJECTS
    if level == "pod":
        pods = [record for record in records if record["kind"] == "Pod"]
        assert [record for record in pods if record["state"] is None or record["requests"] is None] == []
        assert [record for record in records if record["kind"] != "Pod" and record["state"] is not None] == []
    else:
        jobs = [record for record in records if record["kind"] in {"Job", "JobSet", "PyTorchJob", "MPIJob", "RayJob", "Framework"}]
        assert [record for record in jobs if not record["supported"] or not record["tasks"]] == []


def test_every_object_is_taken_in(lahar):
    taken = [lahar("ingest", path, "--json").record for path in objects()]
    assert sum(record["taken"] + record["ignored"] + record["unreadable"] for record in taken) >= OBJECTS
    status = lahar("status", "--json").lifecycle
    assert status["received"] == sum(status["outcomes"].values()) > 0
    assert [found["ok"] for found in lahar("verify", "--json").records] == [True] * 4
    for record in lahar("job", "list", "--all", "--json").records:
        assert lahar("why", record["id"]).out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source_format", "totals"),
    [
        ("philly_status_15k.csv.gz", "philly-status", {"jobs": 15_000, "gpu_seconds": 2_756_749_794}),
        ("openb_pods.csv.gz", "openb", {"jobs": 8_152, "never_started": 897}),
        ("hpc2n_sample.swf.gz", "swf", {"jobs": 3_170, "without_end": 25}),
        ("philly_gpu_jobs.csv.gz", "philly", {"jobs": 82_247, "gpu_seconds": 3_521_082_502}),
    ],
    ids=["philly-status", "openb", "swf", "philly"],
)
def test_a_whole_trace(lahar, name, source_format, totals):
    report = lahar("import-trace", "--format", source_format, Path(SHARED or "") / "traces" / name, "--json").record
    assert (report["rows"], report["rejected"], report["cluster"]) == (totals["jobs"], 0, name.partition(".")[0])
    summary = lahar("summary", "--json").record
    assert {key: summary[key] for key in totals} == totals
    assert (summary["open_attempts"], sum(summary["jobs_by_phase"].values())) == (0, totals["jobs"])
    assert [found["ok"] for found in lahar("verify", "--json").records] == [True] * 4
