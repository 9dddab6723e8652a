"""A List of any length costs the memory of some of its items."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pod_list import write_pods

MIB = 1 << 20
RUN = (
    "import resource, sys\nfrom engine.cli.main import app\n"
    "try:\n    app(sys.argv[1:])\nexcept SystemExit as stop:\n    code = stop.code\n"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\nsys.exit(code)"
)


def ingest(log: Path, *files: Path, options: tuple[str, ...] = ()) -> tuple[dict[str, Any], int]:
    """Take files in, in a process of its own; returns its answer and the most memory that it had (bytes)."""
    command = [sys.executable, "-c", RUN, "ingest", *map(str, files), "--log", f"sqlite:{log}", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *notes, memory = done.stderr.splitlines()
    assert notes == []
    return json.loads(done.stdout), int(memory) * 1024


@pytest.mark.parametrize("indent", [4, None], ids=["as kubectl prints it", "in one line"])
def test_a_list_is_read_in_bounded_memory(tmp_path: Path, indent: int | None) -> None:
    # What one List shows is one moment, up to 10,000 inputs.
    write_pods(tmp_path / "few.json", range(11_000), indent=indent)
    size = write_pods(tmp_path / "many.json", range(25_000), indent=indent)
    few, least = ingest(tmp_path / "few.db", tmp_path / "few.json", options=("--no-process",))
    many, most = ingest(tmp_path / "many.db", tmp_path / "many.json", options=("--no-process",))
    assert (few["taken"], many["taken"], many["unreadable"]) == (11_000, 25_000, 0)
    assert size > 30 * MIB
    assert most - least < 16 * MIB


def test_compressed_and_several_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json.gz", tmp_path / "b.json.gz"]
    for number, path in enumerate(paths):
        write_pods(tmp_path / "plain.json", range(5_000 * number, 5_000 * (number + 1)), indent=4)
        path.write_bytes(gzip.compress((tmp_path / "plain.json").read_bytes(), compresslevel=1))
    _, least = ingest(tmp_path / "one.db", paths[0], options=("--no-process",))
    record, most = ingest(tmp_path / "both.db", *paths, options=("--no-process",))
    assert (record["taken"], record["unreadable"]) == (10_000, 0)
    assert most - least < 8 * MIB


@pytest.mark.slow
def test_a_hundred_thousand_pods_are_taken_and_processed_within_300_mb(tmp_path: Path) -> None:
    assert write_pods(tmp_path / "pods.json", range(100_000), indent=4) > 300 * MIB
    record, most = ingest(tmp_path / "pods.db", tmp_path / "pods.json")
    assert (record["taken"], record["unreadable"], record["processed"]) == (100_000, 0, 100_000)
    assert most < 300_000_000
