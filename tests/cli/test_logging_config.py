"""Logs of a process: text for people, lines of JSON for machines."""

from __future__ import annotations

import json
import logging
import re

import pytest
import typer

from engine.cli.logging_config import is_json, written
from engine.cli.output import Output
from engine.log.errors import LogUnavailableError

OURS = logging.getLogger("engine.test")
THEIRS = logging.getLogger("platform.callbacks")


def test_text_has_time_level_logger_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    with written("text"):
        OURS.info("shard %s is open", "lifecycle/0", extra={"shard": "lifecycle/0"})
        OURS.debug("not said")
    OURS.info("not said any more")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO engine\.test: shard lifecycle/0 is open\n", capsys.readouterr().err
    )


def test_what_a_job_is_called_begins_no_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with written("text"):
        OURS.warning("job %s is parked", "a\n2026-11-22T00:00:00.000Z INFO engine: all is well\x1b[2K\u2028ü")
    said = capsys.readouterr().err
    assert said.endswith(r"job a\n2026-11-22T00:00:00.000Z INFO engine: all is well\x1b[2K\u2028ü is parked" + "\n")
    assert len(said.splitlines()) == 1


def test_json_has_the_fields_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    with written("json"):
        OURS.warning("job %s is\nparked: ü", "a", extra={"job": "a", "offset": 3})
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {"level": "WARNING", "logger": "engine.test", "message": "job a is\nparked: ü", "job": "a", "offset": 3}


def test_an_exception_has_its_class_and_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with written("json"):
        OURS.error("it failed", exc_info=LogUnavailableError("gone"))
    found = json.loads(capsys.readouterr().err)
    assert found["error"] == "LogUnavailableError"
    assert found["traceback"].endswith("LogUnavailableError: gone")


def test_of_others_warnings_are_told_and_of_the_client_of_kafka_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with written("json"):
        THEIRS.info("not said")
        THEIRS.warning("said")
        logging.getLogger("aiokafka.client").error("not said")
    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == ["said"]


def test_what_a_command_says_for_people_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    with written("json"):
        assert is_json()
        output.note("running")
        output.warn("the log is gone")
    assert [(line["level"], line["message"]) for line in map(json.loads, capsys.readouterr().err.splitlines())] == [
        ("INFO", "running"),
        ("WARNING", "the log is gone"),
    ]
    assert not is_json()
    output.warn("the log is gone")
    assert capsys.readouterr().err == "warning: the log is gone\n"


def test_the_last_line_says_why_a_process_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, written("json"):
        raise LogUnavailableError("Kafka at a:1 cannot be reached")
    found = json.loads(capsys.readouterr().err)
    assert (found["level"], found["error"], found["message"]) == ("ERROR", "LogUnavailableError", "Kafka at a:1 cannot be reached")
    assert ended.value.exit_code == 4
    with pytest.raises(LogUnavailableError), written("text"):
        raise LogUnavailableError("gone")
    assert capsys.readouterr().err == ""
