"""Whatever stands in a log, an argument or a file, no command writes a control character of it to a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from test_feed import pod
from typer.testing import CliRunner

from engine.cli.main import app

CODES = (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
CONTROLS = frozenset(map(chr, CODES)) - {"\n"}
HOSTILE = "x\x1b[2J\x1b]0;owned\x07\x9b31m" + "".join(map(chr, CODES)) + "y"
SHORT = "z\x1b[1A\u202e\u2028\x85"

ELSEWHERE = {"worker", "agents run", "topics plan", "topics apply", "bench", "run"}
"""They need brokers, or minutes; how they log is tested with the journal."""
GIVEN: dict[str, list[list[str]]] = {
    "as-of": [["2100-01-01"], ["2100-01-01", "JOB"], [HOSTILE]],
    "diff": [["2000-01-01", "2100-01-01"], ["2000-01-01", HOSTILE]],
    "import": [["hostile.jsonl"]],
    "import-trace": [["--cluster", SHORT, "hostile.csv"], ["--format", HOSTILE, "hostile.csv"]],
    "ingest": [["hostile.json"], [f"no{SHORT}"], ["--cluster", SHORT, "hostile.json"]],
    "apply": [["hostile.yaml"], ["hostile.json"], [f"no{SHORT}"]],
    "inspect pod": [["hostile.json"]],
    "inspect job": [["hostile.json"]],
    "conform": [["hostile.jsonl"]],
    "job submit": [["hostile.yaml"]],
    "job command": [["JOB", "AbortJob", "--reason", HOSTILE[:400], "--by", SHORT], ["JOB", HOSTILE], [HOSTILE, "AbortJob"]],
    "job raise": [["JOB", HOSTILE[:400]], ["JOB", "E", "--data", HOSTILE]],
    "job unpark": [["JOB", "--by", SHORT]],
    "log backup": [[f"copy{SHORT}.db"]],
    "callbacks resume": [[HOSTILE]],
    "dead-letters redrive": [[], [HOSTILE]],
    "dead-letters discard": [[HOSTILE], ["", "--by", SHORT, "--reason", HOSTILE[:400]]],
    "dead-letters list": [[], ["--all"]],
    "schema": [[], [HOSTILE]],
    "job list": [[], ["--all"], ["--queue", HOSTILE], ["--phase", HOSTILE]],
    "events": [[], ["--type", HOSTILE]],
    "export": [["--job", HOSTILE], ["--first", HOSTILE]],
    "summary": [[], ["--cluster", HOSTILE]],
    "simulate": [["--trace", f"no{SHORT}"], ["--jobs", "2", "--queues", "hostile.yaml"], ["--jobs", "2", "--nodes", "hostile.csv"]],
    "": [
        [HOSTILE],
        ["--config", f"no{SHORT}", "summary"],
        ["--log", f"sqlite:no{SHORT}", "summary"],
        ["--log", HOSTILE, "summary"],
    ],
}


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


LEAVES = dict(leaves(typer.main.get_command(app)))


def hostile(value: Any) -> Any:
    """Return an object with a control in each of its texts that no rule fixes."""
    if isinstance(value, dict):
        return {key: entry if key in {"apiVersion", "kind", "phase", "uid"} else hostile(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [hostile(entry) for entry in value]
    return value + SHORT if isinstance(value, str) and value[:2] != "20" else value


def objects() -> list[dict[str, Any]]:
    full = pod("a", 1, "Failed", labels={"lahar/user": "u", "lahar/tenant": "t"}, annotations={"lahar/job": "j"})
    full["metadata"]["ownerReferences"] = [{"kind": "Job", "apiVersion": "batch/v1", "name": "o", "uid": "j-1", "controller": True}]
    full["status"] |= {"reason": "Evicted", "message": HOSTILE}
    waiting = pod("w", 1, "Pending")
    waiting["status"]["containerStatuses"] = [{"name": "c", "state": {"waiting": {"reason": "ErrImagePull", "message": HOSTILE}}}]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "seen",
            "namespace": "n",
            "uid": "j-1",
            "resourceVersion": "7",
            "labels": {"kueue.x-k8s.io/queue-name": "q"},
        },
        "spec": {"completions": 2, "template": {"spec": {"containers": [{"name": "c"}]}}},
        "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "R", "message": HOSTILE}]},
    }
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "uid": "n-1", "labels": {"a": "b"}}}
    broken = pod("x", uid=None)
    other = {"kind": f"Kind{SHORT}", "metadata": {"name": "a"}}
    error = {"type": "ERROR", "object": {"kind": "Status", "message": HOSTILE, "reason": SHORT, "code": 410}}
    return [*map(hostile, (job, full, waiting, node, broken, other)), error]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with hostile files, and a log that has taken them."""
    folder = tmp_path_factory.mktemp("hostile")
    text = "\n".join(map(json.dumps, objects()))
    (folder / "hostile.json").write_text(f"{text}\nwhat{SHORT}\n{{{SHORT}", encoding="utf-8")
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"bad{SHORT}", f"odd{SHORT}": 1},
        "spec": {f"field{SHORT}": SHORT, "queue": SHORT, "tasks": [{"name": SHORT, "replicas": SHORT}]},
    }
    (folder / "hostile.yaml").write_text(json.dumps(manifest), encoding="utf-8")
    (folder / "hostile.jsonl").write_text(json.dumps({"id": SHORT, "kind": SHORT, "input": SHORT}) + "\n", encoding="utf-8")
    head = "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\n"
    (folder / "hostile.csv").write_text(
        f"{head}a\x1b,u\x1b\u202e,1,1,1,1,5,1,Pass\nb\x1b,u,1,1,1,x\x1b,1,1,Pa\x9bss\n", encoding="utf-8"
    )
    here = Path.cwd()
    os.chdir(folder)
    try:
        for arguments in (
            ["ingest", "hostile.json"],
            ["ingest", "--cluster", SHORT, "hostile.json"],
            ["import-trace", "hostile.csv"],
        ):
            assert CliRunner().invoke(app, arguments).exit_code in {0, 1}, arguments
        assert CliRunner().invoke(app, ["apply", "hostile.yaml"]).exit_code == 2
    finally:
        os.chdir(here)
    return folder


def calls() -> list[tuple[str, list[str]]]:
    found = [("", given) for given in GIVEN[""]]
    for name, command in LEAVES.items():
        if name not in ELSEWHERE:
            needs_job = any(parameter.param_type_name == "argument" and parameter.required for parameter in command.params)
            found += [(name, given) for given in GIVEN.get(name, [["JOB"], [HOSTILE]] if needs_job else [[]])]
    return found


@pytest.mark.parametrize(("name", "given"), calls(), ids=lambda value: ascii(value)[:40])
def test_no_command_writes_a_control(place: Path, monkeypatch: pytest.MonkeyPatch, name: str, given: list[str]) -> None:
    monkeypatch.chdir(place)
    for variable in ("LAHAR_LOG", "LAHAR_DEBUG"):
        monkeypatch.delenv(variable, raising=False)
    for job in ("j-1", next(iter(jobs()))) if "JOB" in given else ("",):
        arguments = [*name.split(), *(job if word == "JOB" else word for word in given)]
        done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
        assert done.exit_code in {0, 1, 2, 3, 4}, (arguments, done.output, done.exception)
        for stream in (done.stdout, done.stderr):
            written = CONTROLS & set(stream)
            assert not written, (arguments, written, stream[:2000])


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_of_a_process_has_a_control(place: Path, tmp_path: Path, form: str) -> None:
    """What a process that goes on writes about itself, dead letters and parked jobs included."""
    log = f"sqlite:{tmp_path}/other.db"
    written = b""
    for arguments in (["ingest", "--no-process", str(place / "hostile.json")], ["run", "--once"], ["status"], ["verify"]):
        command = [sys.executable, "-c", "from engine.cli.main import main; main()", "--log", log, *arguments]
        done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "LAHAR_LOG_FORMAT": form})
        assert done.returncode in {0, 1}, done
        written += done.stdout + done.stderr
    assert b"dead letter" in written
    assert not CONTROLS & set(written.decode()), written


def jobs() -> list[str]:
    answer = CliRunner().invoke(app, ["job", "list", "--all", "--json"])
    return [json.loads(line)["id"] for line in answer.stdout.splitlines()]


def test_commands_that_are_not_tried_are_few() -> None:
    assert set(LEAVES) >= ELSEWHERE
    assert len(LEAVES) - len(ELSEWHERE) > 25


def test_hostile_names_are_in_the_log(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried above could not fail otherwise."""
    monkeypatch.chdir(place)
    answer = CliRunner().invoke(app, ["job", "list", "--all"], env={"COLUMNS": "200"}).stdout
    assert r"\x1b[1A\u202e\u2028\x85" in answer
