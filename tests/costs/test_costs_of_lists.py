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
# `ru_maxrss` has the memory of the process that started it, too: of this one, which may be more.
RUN = (
    "import sys\nfrom engine.cli.main import app\n"
    "try:\n    app(sys.argv[1:])\nexcept SystemExit as stop:\n    code = stop.code\n"
    "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0], file=sys.stderr)\nsys.exit(code)"
)


def ingest(log: Path, *files: Path, options: tuple[str, ...] = ()) -> tuple[dict[str, Any], int]:
    """Take files in, in a process of its own; returns its answer and the most memory that it had (bytes)."""
    command = [sys.executable, "-c", RUN, "ingest", *map(str, files), "--log", f"sqlite:{log}", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *notes, memory = done.stderr.splitlines()
    assert notes == []
    return json.loads(done.stdout), int(memory) * 1024


@pytest.mark.parametrize(
    "indent", [pytest.param(4, id="as kubectl prints it"), pytest.param(None, id="in one line", marks=pytest.mark.slow)]
)
def test_a_list_is_read_in_bounded_memory(tmp_path: Path, indent: int | None) -> None:
    # What one List shows is one moment, up to 10,000 inputs.
    write_pods(tmp_path / "few.json", range(11_000), indent=indent)
    size = write_pods(tmp_path / "many.json", range(25_000), indent=indent)
    few, least = ingest(tmp_path / "few.db", tmp_path / "few.json", options=("--no-process",))
    many, most = ingest(tmp_path / "many.db", tmp_path / "many.json", options=("--no-process",))
    assert (few["taken"], many["taken"], many["unreadable"]) == (11_000, 25_000, 0)
    assert size > 30 * MIB
    assert most - least < 16 * MIB


def write_large(path: Path, form: str, count: int) -> None:
    """Write jobs of 200 KB, or nodes of 3 KB whose kind stands behind all of them."""
    labels, spec = {f"l{key}": "v" * 30 for key in range(60)}, {"managedBy": "lahar", "notes": "x" * 200_000}
    with path.open("w", encoding="ascii") as file:
        file.write("" if form == "lines" else '{"items": [')
        for number in range(count):
            name = {"name": f"n{number}", "uid": f"u{number}"}
            job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": name, "spec": spec}
            item = {"metadata": {**name, "labels": labels}, "status": {}} if form == "without kind" else job
            comma = "," if form != "lines" and number < count - 1 else ""
            file.write(f"{json.dumps(item)}{comma}\n")
        file.write("" if form == "lines" else f'], "kind": "{"NodeList" if form == "without kind" else "List"}"}}\n')


@pytest.mark.parametrize(("form", "few", "many"), [("list", 100, 300), ("lines", 100, 300), ("without kind", 1_000, 15_000)])
def test_what_is_held_back_is_bounded_in_bytes(tmp_path: Path, form: str, few: int, many: int) -> None:
    memory = []
    for count in (few, many):
        write_large(tmp_path / "objects.json", form, count)
        record, most = ingest(tmp_path / f"{count}.db", tmp_path / "objects.json", options=("--no-process",))
        assert (record["taken"], record["unreadable"]) == (count, 0)
        memory.append(most)
    held = (tmp_path / "objects.json").stat().st_size if form == "without kind" else 0  # as bytes, which have a bound of their own
    # A moment of 10,000 nodes is some 20 MB beside that.
    assert memory[1] - memory[0] - held < 28 * MIB


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
def test_memory_for_100000_pods_is_that_of_a_few_and_of_their_states(tmp_path: Path) -> None:
    """The states of lifecycle, scheduling and billing are some 4 KB a pod together."""
    assert write_pods(tmp_path / "pods.json", range(100_000), indent=4) > 265 * MIB
    record, most = ingest(tmp_path / "taken.db", tmp_path / "pods.json", options=("--no-process",))
    assert (record["taken"], record["unreadable"]) == (100_000, 0)
    assert most < 120_000_000
    record, most = ingest(tmp_path / "pods.db", tmp_path / "pods.json")
    assert (record["taken"], record["unreadable"], record["processed"]) == (100_000, 0, 100_000)
    assert most < 520_000_000
