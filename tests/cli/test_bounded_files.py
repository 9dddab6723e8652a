"""Hostile files as a user gives them to the commands: an error of one line, and whatever else there is goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.cli.main import app
from engine.events.bounds import NAME_CHARACTERS
from engine.kubernetes.reading import object_splitter as pieces
from engine.kubernetes.reading.documents import DocumentReader, Unreadable

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, annotations: {lahar/spec: "main: %s"}}
spec: {tasks: [{replicas: 1, template: {spec: {containers: [{name: c, image: "busybox:1"}]}}}]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("LAHAR_LOG", "LAHAR_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def lahar(*arguments: str, given: bytes | None = None):
    return CliRunner().invoke(app, list(arguments), input=given, env={"COLUMNS": "300"})


def test_a_row_with_a_long_field_is_rejected_and_the_rest_goes_on(folder: Path) -> None:
    row = "{0} 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n"
    (folder / "a.swf").write_text(row.format("1" * (NAME_CHARACTERS + 1)) + row.format("2"))
    result = lahar("import-trace", "--format", "swf", "a.swf", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["rows"], report["rejected"]) == (2, 1)


@pytest.mark.parametrize("command", [("ingest",), ("inspect", "pod"), ("inspect", "job"), ("apply",)])
@pytest.mark.parametrize(
    "content",
    [
        b"main: " + b"[" * 500_000,
        b"[" * 500_000,
        b'{"a":' * 100_000,
        b"- " * 100_000,
        b"{" + b"a: {" * 60_000,
        b"a: " + b"1:" * 300_000 + b"1",
    ],
    ids=["YAML flow", "JSON", "JSON objects", "YAML block", "YAML braces", "sixties"],
)
def test_every_reader_says_in_a_line_what_it_cannot_read(folder: Path, command: tuple[str, ...], content: bytes) -> None:
    (folder / "hostile.yaml").write_bytes(content)
    result = lahar(*command, "hostile.yaml")
    assert result.exit_code == (2 if command == ("apply",) else 1), result.output
    assert len(result.stderr.splitlines()[0]) < 400
    assert "line 1" in result.stderr
    if command == ("ingest",):
        assert "kept as a dead letter" in result.stderr


def test_an_endlessly_nested_annotation_rejects_its_job_and_no_other(folder: Path) -> None:
    """What ended the process, at every start anew, and every other tenant's apply with it."""
    hostile = lahar("apply", "-", given=(JOB % ("[" * 60_000)).encode())
    assert hostile.exit_code == 2
    assert "metadata.annotations[lahar/spec]: cannot be read: nested more than 100 levels deep" in hostile.stderr
    assert lahar("apply", "-", given=(JOB % "true").replace("train", "other").encode()).exit_code == 0
    assert lahar("run", "--once").exit_code == 0


def test_a_command_beyond_a_bound_ends_with_its_name(folder: Path) -> None:
    lahar("apply", "-", given=(JOB % "true").encode())
    result = lahar("job", "command", "default/train", "AbortJob", "--reason", "x" * 5_000)
    assert result.exit_code == 2
    assert "reason" in result.stderr
    assert "4096" in result.stderr


def test_json_that_stands_for_more_values_than_its_bytes_say_is_no_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "VALUES", 1_000)
    reader = DocumentReader()
    found = [*reader.feed(b"[" + b"[]," * 2_000 + b"[]]\n"), *reader.feed(b'{"kind": "Pod"}\n')]
    assert isinstance(found[0], Unreadable)
    assert found[0].reason == "more than 1,000 values"
    assert found[1].content == {"kind": "Pod"}
