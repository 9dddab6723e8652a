"""Summaries of whole traces, through the log and the lifecycle stage, against sums made with nothing but csv."""

from __future__ import annotations

import csv
import gzip
import os
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from statistics import median

import pytest

from engine.history.reading import job_events
from engine.history.summary import SUMMARISED, Summary
from engine.log.memory import MemoryLog
from engine.simulation.traces import import_trace


@pytest.fixture
def summarise(process):
    def run(name, source_format):
        if "LAHAR_SHARED" not in os.environ:
            pytest.skip("LAHAR_SHARED does not say where the full traces are")
        path = Path(os.environ["LAHAR_SHARED"]) / "traces" / name
        log = MemoryLog()
        import_trace(log, path, source_format, "trace")
        process(log)
        fold = Summary()
        for event in job_events(log, SUMMARISED):
            fold.add(event)
        return fold.result(), gzip.decompress(path.read_bytes()).decode().splitlines()

    return run


def peak(changes):
    """Most in use after all changes of an instant."""
    used = best = 0
    by_time: defaultdict[int, int] = defaultdict(int)
    for time, change in changes:
        by_time[time] += change
    for time in sorted(by_time):
        used += by_time[time]
        best = max(best, used)
    return best


def test_each_partial_run_of_an_swf_job_counts_until_its_own_end(process, tmp_path):
    """A run that begins when an earlier one ends does not close it at its start."""
    path, log = tmp_path / "p.swf", MemoryLog()
    rest = "4 -1 -1 4 200 -1 {} 5 1 -1 1 -1 -1 -1"
    runs = (("20 10 100", 2), ("-1 0 70", 2), ("-1 5 50", 3))
    path.write_text("; UnixStartTime: 1700000000\n" + "".join(f"5 {run} {rest.format(end)}\n" for run, end in runs))
    import_trace(log, path, "swf", "trace")
    process(log)
    fold = Summary()
    for event in job_events(log, SUMMARISED):
        fold.add(event)
    result = fold.result()
    assert (result["attempts"], result["cpu_seconds"]) == (3, 4 * (100 + 70 + 50))
    assert result["attempts_by_reason"] == {"ExitUnknown": 2}


@pytest.mark.slow
def test_philly_status(summarise):
    result, lines = summarise("philly_status_15k.csv.gz", "philly-status")
    rows = list(csv.DictReader(lines))
    assert (result["jobs"], result["rejected_rows"], result["open_attempts"]) == (15_000, 0, 0)
    assert result["gpu_seconds"] == sum(int(r["gpu_num"]) * int(r["run_time"]) for r in rows) == 2_756_749_794
    assert result["attempts"] == sum(int(r["node_num"]) for r in rows)
    names = {"Pass": "Completed", "Failed": "Failed", "Killed": "Terminated"}
    assert result["jobs_by_phase"] == Counter(names[r["new_status"]] for r in rows)
    assert result["run_seconds"]["median"] == median(int(r["run_time"]) for r in rows)
    assert {user: group["jobs"] for user, group in result["by_user"].items()} == Counter(r["user"] for r in rows)
    clock, changes = 0, []
    for r in rows:
        clock += int(r["interval"])
        changes += [(clock, int(r["gpu_num"])), (clock + int(r["run_time"]), -int(r["gpu_num"]))]
    assert result["peak_gpus"]["value"] == peak(changes)


def test_openb(summarise):
    result, lines = summarise("openb_pods.csv.gz", "openb")
    rows = list(csv.DictReader(lines))
    ran = [(r, int(r["deletion_time"]) - int(r["scheduled_time"])) for r in rows if r["pod_phase"] != "Pending"]
    assert (result["jobs"], result["never_started"]) == (8_152, 897)
    assert result["jobs_by_phase"] == {"Completed": 192, "Failed": 1870, "Terminated": 6090}
    assert result["gpu_seconds"] == sum(int(r["num_gpu"]) * run for r, run in ran)
    assert result["gpu_share_seconds"] == Decimal(sum(int(r["num_gpu"]) * int(r["gpu_milli"]) * run for r, run in ran)) / 1000
    assert result["cpu_seconds"] == Decimal(sum(int(r["cpu_milli"]) * run for r, run in ran)) / 1000
    waits = sorted(int(r["scheduled_time"]) - int(r["creation_time"]) for r, _ in ran)
    assert (result["wait_seconds"]["n"], result["wait_seconds"]["max"]) == (len(waits), waits[-1])
    assert result["wait_seconds"]["median"] == median(waits)
    assert result["by_queue"].keys() == {r["qos"] for r in rows}
    assert result["peak_gpus"]["value"] == 71


def test_swf(summarise):
    result, lines = summarise("hpc2n_sample.swf.gz", "swf")
    rows = [list(map(Decimal, line.split())) for line in lines if line.strip() and not line.startswith(";")]
    assert (result["jobs"], result["without_end"], result["jobs_by_phase"]["Terminated"]) == (3_170, 25, 25)
    assert result["attempts_by_reason"] == {"EndUnknown": 25}
    assert result["cpu_seconds"] == sum(r[4] * r[3] for r in rows if r[3] >= 0)
    assert (result["wait_seconds"]["n"], result["wait_seconds"]["max"]) == (3_170, max(r[2] for r in rows))
    assert (result["run_seconds"]["n"], result["run_seconds"]["max"]) == (3_145, max(r[3] for r in rows))
    assert result["by_queue"].keys() == {"default"}
    assert result["peak_gpus"] == {"value": 0, "time": None}


@pytest.mark.slow
def test_philly(summarise):
    result, lines = summarise("philly_gpu_jobs.csv.gz", "philly")
    rows = [r for r in csv.DictReader(lines) if r["timestamp"]]
    assert (result["jobs"], result["jobs_by_phase"]) == (82_247, {"Completed": 82_247})
    assert result["gpu_seconds"] == sum(Decimal(r["duration"]) * int(r["num_gpus"]) for r in rows) == 3_521_082_502
    assert {queue: group["jobs"] for queue, group in result["by_queue"].items()} == Counter(r["cluster"] for r in rows)
