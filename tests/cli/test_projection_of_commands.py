"""Commands answer from the projection: caught up first, whoever has followed before, and never silently from behind."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path

import pytest
from test_run import lines_until, running, started, stop

from engine.history.listing import LISTED, Listing
from engine.history.reading import job_events
from engine.log.sqlite import SqliteLog
from engine.projection.projection import Projection

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "ml", "creationTimestamp": "2026-03-01T12:00:00Z", "resourceVersion": "1"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    "status": {"phase": "Pending"},
}


def pods(*numbers: int) -> str:
    """Pods of a job each, as lines of JSON."""
    owned = [{"apiVersion": "batch/v1", "kind": "Job", "controller": True}]
    return "\n".join(
        json.dumps(
            POD
            | {
                "metadata": POD["metadata"]
                | {"name": f"p{n}", "uid": f"u{n}", "ownerReferences": [owned[0] | {"name": f"train-{n}", "uid": f"o{n}"}]}
            }
        )
        for n in numbers
    )


def listed(log: Path) -> list[str]:
    with_log, jobs = SqliteLog(log, readonly=True), Listing()
    for event in job_events(with_log, LISTED):
        jobs.add(event)
    with_log.close()
    return [line.name for line in jobs.lines()]


def test_what_has_come_since_the_last_question_is_in_the_answer(lahar, folder):
    for numbers in ((1, 2), (3,), ()):
        lahar("ingest", given=pods(*numbers) or "\n")
        answer = [line["name"] for line in lahar("job", "list", "--json").records]
        assert answer == listed(folder / "lahar.db")
        assert lahar("summary", "--json").record["jobs"] == len(answer)
    assert answer == ["train-1", "train-2", "train-3"]
    assert (folder / "lahar.db-projection").exists()


def test_a_name_that_has_just_come_is_known(lahar):
    lahar("ingest", given=pods(1))
    lahar("why", "ml/train-2", code=3)
    lahar("ingest", given=pods(2))
    assert "ml/train-2" in lahar("why", "ml/train-2").out


def test_a_log_that_is_damaged_is_answered_as_far_as_it_can_be_read(lahar, folder):
    """The answer says as of when it is, and the exit code that it is not all."""
    lahar("ingest", given=pods(1))
    lahar("job", "list")
    with sqlite3.connect(folder / "lahar.db") as connection:
        (last,) = connection.execute('SELECT max("offset") FROM "job-events/0"').fetchone()
        lahar("ingest", given=pods(2))
        connection.execute('UPDATE "job-events/0" SET data = \'{}\' WHERE "offset" = ?', (last + 1,))
    connection.close()
    told = lahar("job", "list", "--json", code=4)
    assert [line["name"] for line in told.records] == ["train-1"]
    assert "the answer is as of 20" in told.err
    assert "does not match its checksum" in told.err
    (folder / "lahar.db-projection").unlink()
    lahar("why", "ml/train-1", code=4)


@pytest.mark.parametrize("when", ["while it runs", "before"])
def test_a_run_keeps_it_at_the_end_of_the_log(lahar, folder, when):
    given = pods(1, 2)
    lahar("ingest", "--no-process", given=given if when == "before" else pods(7))
    with running() as engine, started("events", "--follow", "--json") as reader:
        if when != "before":
            lahar("ingest", given=given)
        lines_until(reader, "train-2")
        code, _, _ = stop(engine, signal.SIGTERM)
        assert code == 0
    log = SqliteLog(folder / "lahar.db", readonly=True)
    with Projection(folder / "lahar.db-projection") as projection:
        assert projection.follow(log) == 0
    log.close()
