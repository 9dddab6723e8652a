"""Filters with misspelt names, times in a zone, and names of jobs, as users of kubectl, git and journalctl expect."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from engine.cli.main import app

WAITING = Path(__file__).parents[2] / "examples" / "waiting-gang"
POD = {
    "kind": "Pod",
    "metadata": {
        "name": "etl-0",
        "namespace": "ml",
        "uid": "p1",
        "creationTimestamp": "2026-05-01T12:05:00Z",
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "etl-nightly", "uid": "j1", "controller": True}],
    },
    "spec": {"nodeName": "n1", "containers": [{"name": "m"}]},
    "status": {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "m",
                "state": {
                    "terminated": {
                        "exitCode": 137,
                        "reason": "OOMKilled",
                        "startedAt": "2026-05-01T12:05:10Z",
                        "finishedAt": "2026-05-01T12:06:00Z",
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def seen(lahar):
    lahar("ingest", "--recorded", given=json.dumps(POD))
    return lahar


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["events", "--type", "atempt.ended"], "did you mean attempt.ended?"),
        (["events", "--type", "lahar.job.phase_change.v1"], "did you mean job.phase_changed?"),
        (["events", "--reason", "OOMKilled"], "did you mean OomKilled?"),
        (["events", "--phase", "failed"], "did you mean Failed?"),
        (["events", "--topic", "budgets", "--type", "attempt.ended"], "write one of"),
        (["history", "etl-nightly", "--reason", "OomKiled"], "did you mean OomKilled?"),
        (["history", "etl-nightly", "--phase", "Losst"], "did you mean Lost?"),
        (["job", "list", "--reason", "Nonsense"], "write one of"),
        (["job", "list", "--phase", "Complete"], "did you mean Completed?"),
        (["job", "command", "etl-nightly", "AbrtJob"], "did you mean AbortJob?"),
        (["simulate", "--format", "openbb"], "did you mean openb?"),
        (["import-trace", "--format", "openbb", "x.csv"], "did you mean openb?"),
        (["job", "list", "--phase", ""], "--phase is empty"),
        (["job", "list", "--reason", "AppFailed,,OomKilled"], "a phase or a reason is empty"),
        (["events", "--reason", ""], "--reason is empty"),
        (["history", "etl-nightly", "--phase", ","], "a phase or a reason is empty"),
        (["events", "--since", "1h", "--until", "2h"], "--since is later than --until (1h, 2h): nothing lies between"),
        (["events", "--from", "2026-05-02", "--until", "2026-05-01"], "--from is later than --until"),
        (["history", "etl-nightly", "--since", "now", "--until", "2026-05-01"], "--since is later than --until"),
        (["export", "--first", "2026-05-02", "--last", "2026-05-01"], "--first is later than --last"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest_one(seen, arguments, hint):
    assert hint in seen(*arguments, code=2).err


@pytest.mark.parametrize("option", ["--queue", "--namespace", "--tenant", "--user", "--node"])
def test_a_name_that_users_choose_is_an_empty_answer(seen, option):
    assert seen("job", "list", option, "nobody", "--json").records == []


NAMES = {"NAME", "PHASE", "REASON", "TYPE", "JOB", "YYYY-MM", "ID", "TIME"}
"""Options that take names or times."""


def options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each option of each command that takes a name and may be left out, with the arguments that the command requires."""
    for name, one in getattr(command, "commands", {}).items():
        yield from options(one, (*path, name))
    required = [text for given in command.params if given.required for text in (*_flag(given), "x")]
    for option in command.params:
        if option.metavar in NAMES and option.default is None and _flag(option):
            yield (*path, *required), option.opts[0]


def _flag(given: Any) -> list[str]:
    return [name for name in given.opts[:1] if name.startswith("-")]


@pytest.mark.parametrize(("command", "option"), list(options(get_command(app))))
def test_an_empty_name_is_refused_by_every_command(lahar, command, option):
    assert lahar(*command, option, "", code=2).err == f"lahar: {option} is empty: leave it out, or name one\n"


def test_a_reason_of_a_controller_is_known_once_it_is_in_the_log(seen):
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "etl-weekly", "namespace": "ml", "uid": "j2", "resourceVersion": "9"},
        "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "OurOwnReason"}]},
    }
    seen("job", "list", "--reason", "OurOwnReason", code=2)
    seen("ingest", given=json.dumps(job))
    assert len(seen("job", "list", "--reason", "OurOwnReason", "--json").records) == 1


def test_why_a_job_waits_for_the_scheduler_is_no_reason_of_a_job(lahar):
    for name in ("nodes", "first", "second"):
        lahar("apply", str(WAITING / f"{name}.yaml"))
    assert "`lahar podgroup list`" in lahar("job", "list", "--reason", "GangNotComplete", code=2).err
    assert "GangNotComplete" in lahar("podgroup", "list").out
    assert "GangNotComplete" in lahar("events", "--reason", "GangNotComplete").out


def test_a_job_that_does_not_exist_is_named_with_the_nearest(seen):
    for command in (["why", "etl"], ["why", "ml/etl-nightl"], ["history", "etl-nigthly"], ["job", "show", "etl-nightyl"]):
        done = seen(*command, code=3)
        assert done.err.startswith(f"lahar: no job {command[-1]!r} in this log")
    assert "did you mean ml/etl-nightly?" in seen("why", "etl-nightl", code=3).err


def test_each_line_of_events_begins_with_its_job(seen):
    lines = seen("events").out.splitlines()
    assert {line.split()[0] for line in lines} == {"ml/etl-nightly"}
    late = seen("events", "--from", "2026-05-01 12:05:30", "--type", "attempt.*").out
    assert late.startswith("ml/etl-nightly ")


def test_a_job_from_outside_was_first_seen_in_its_queue(seen):
    assert "was first seen in queue default at" in seen("history", "etl-nightly").out


def test_times_are_read_and_shown_in_a_zone(seen):
    assert "2026-05-01T14:05:10.000+02:00" in seen("history", "etl-nightly", "--tz", "Europe/Berlin").out
    assert "2026-05-01 14:06:00+02:00" in seen("--tz", "Europe/Berlin", "why", "etl-nightly").out
    assert "2026-05-01T14:05:00+02:00" in seen("job", "list", LAHAR_TZ="Europe/Berlin").out
    assert "2026-05-01T12:05:00" in seen("job", "list").out
    assert seen("as-of", "2026-05-01 14:05:30", "--tz", "Europe/Berlin", "--json").record["as_of"] == "2026-05-01T12:05:30.000000Z"
    assert "did you mean Europe/Berlin" in seen("job", "list", "--tz", "Europe/Berln", code=2).err


def test_events_between_two_times(seen):
    every = seen("history", "etl-nightly", "--json").records
    some = seen("history", "etl-nightly", "--since", "2026-05-01 12:05:05", "--until", "2026-05-01 12:05:30", "--json").records
    assert 0 < len(some) < len(every)
    assert {event["time"] for event in some} == {"2026-05-01T12:05:10.000000Z"}
    assert seen("events", "--until", "2026-05-01 12:00", "--json").records == []
    assert len(seen("events", "--until", "2026-05-02", "--json").records) == len(seen("events", "--json").records) - 1
    assert "not both" in seen("events", "--until", "now", "--follow", code=2).err


def test_the_cluster_at_a_moment_is_a_table_of_its_jobs(seen):
    shown = seen("as-of", "2026-05-01 12:05:30").out
    assert "as of 2026-05-01 12:05:30Z: 1 Pending" in shown
    assert shown.splitlines()[3].split()[:2] == ["ml/etl-nightly", "Pending"]
    (job,) = seen("as-of", "2026-05-01 12:05:30", "--json").record["jobs"]
    assert (job["name"], job["phase"], job["live"]) == ("etl-nightly", "Pending", 1)


@pytest.mark.parametrize("command", ["status", "billing records", "job list --all", "events", "billing explain"])
def test_no_time_is_shown_in_another_zone_than_the_requested_one(lahar, folder, command):
    story = Path(__file__).parent.parent.parent / "examples" / "out-of-memory"
    lahar("apply", story / "nodes.yaml", story / "job.yaml", "--at", "2026-03-03T11:00:00")
    lahar("ingest", "--recorded", story / "pods.jsonl")
    if command == "billing explain":
        command += " " + lahar("billing", "records", "--json").records[0]["id"]
    shown = lahar(*command.split(), "--tz", "Asia/Tokyo").out
    assert re.search(r"\d\d:\d\d", shown)
    assert not re.findall(r"\d\d:\d\d:\d\d(?:\.\d+)?Z", shown)


def test_a_job_at_a_moment_before_it_was_recorded_is_said_to_come_later(seen):
    assert "was recorded after 2026-01-01 00:00:00Z" in seen("why", "etl-nightly", "--at", "2026-01-01", code=3).err


def test_a_misspelt_type_of_events_has_the_nearest(lahar):
    assert "did you mean lahar.job.opened.v1?" in lahar("schema", "lahar.job.opned.v1", code=3).err


def test_a_misspelt_field_of_a_price_book_has_the_nearest_of_its_own_level(lahar):
    book = {
        "apiVersion": "lahar.dev/v1",
        "kind": "PriceBook",
        "metadata": {"name": "p"},
        "spec": {"currency": "EUR", "version": []},
    }
    told = lahar("apply", "-", given=json.dumps(book), code=2).err
    assert "spec.version: Extra inputs are not permitted; did you mean versions?" in told


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"policies": [{"event": "PodFaild", "action": "RestartJob"}]},
            "TaskCompleted, TaskFailed, Unknown; did you mean PodFailed?",
        ),
        ({"policies": [{"event": "PodFailed", "action": "RestrtJob"}]}, "invalid policy action RestrtJob: write one of "),
        ({"policies": [{"event": "PodFailed", "action": "RestrtJob"}]}, "; did you mean RestartJob?"),
        ({"depends": ["wrk"]}, "spec.tasks[0].dependsOn.name[0]: the job has no task wrk: it has last, work; did you mean work?"),
    ],
)
def test_a_misspelt_name_of_a_manifest_is_shown_with_the_nearest(lahar, spec, told):
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    tasks = [{"name": name, "replicas": 1, "template": template} for name in ("last", "work")]
    if needed := spec.pop("depends", None):
        tasks[0]["dependsOn"] = {"name": needed}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"tasks": tasks, **spec}}
    assert told in lahar("apply", "-", given=json.dumps(job), code=2).err
