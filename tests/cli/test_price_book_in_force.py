"""The price book in force is one, whatever its name and cluster: `apply`, `prices show` and the bill agree on it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from engine.events.inputs import ObjectApplied
from engine.log.sqlite import SqliteLog

NOW = {"version": "now", "from": "2023-01-01", "prices": {"gpu_seconds": {"*": "1"}}}
DEARER = {"version": "dearer", "from": "2999-01-01", "prices": {"gpu_seconds": {"*": "5"}}}


def book(name, *versions):
    """Write a price book to a file; returns the file's name."""
    spec = {"currency": "EUR", "versions": versions}
    content = {"apiVersion": "lahar.dev/v1", "kind": "PriceBook", "metadata": {"name": name}, "spec": spec}
    file = f"{name}-{len(versions)}.json"
    Path(file).write_text(json.dumps(content))
    return file


def versions(lahar):
    return [one["version"] for one in lahar("prices", "show").record["versions"]]


@pytest.fixture
def files(folder):
    """A book, and one of another name with a version more."""
    return book("prices", NOW), book("other", NOW, DEARER)


def test_a_book_is_compared_with_the_one_in_force_whatever_its_name(lahar, files):
    first, other = files
    assert lahar("apply", first).out == "PriceBook prices: created\n"
    for file, told, name, replaced, standing in (
        (other, "changed", "other", "prices", ["now", "dearer"]),
        (first, "changed", "prices", "other", ["now"]),
        (other, "changed", "other", "prices", ["now", "dearer"]),
    ):
        done = lahar("apply", file)
        assert done.out == f"PriceBook {name}: {told}\n"
        assert f"replaces PriceBook {replaced}: a log has one price book, whatever its name" in done.err
        assert versions(lahar) == standing
        again = lahar("apply", file)
        assert (again.out, again.err) == (f"PriceBook {name}: unchanged\n", "")
        assert lahar("prices", "diff", file).out == "nothing changes\n"
    assert lahar("apply", "--strict", first, code=2).out == ""
    assert versions(lahar) == ["now", "dearer"]


def test_two_books_at_once_are_refused(lahar, files):
    done = lahar("apply", *files, code=2)
    assert done.err == "lahar: other-2.json: line 1: a log has one price book; keep this one or PriceBook prices\n"
    assert lahar("prices", "show", code=3).out == ""


def test_a_book_is_compared_with_the_one_another_cluster_put_in_force(lahar, files):
    first, more = files[0], book("prices", NOW, DEARER)
    lahar("apply", first)
    Path("lahar.toml").write_text('cluster = "b"\n')
    assert lahar("apply", more).out == "PriceBook prices: changed\n"
    Path("lahar.toml").unlink()
    assert lahar("apply", first).out == "PriceBook prices: changed\n"
    assert versions(lahar) == ["now"]


def test_a_book_stays_in_force_when_its_object_is_deleted(lahar, files):
    first, _ = files
    lahar("apply", first)
    lahar("ingest", given=json.dumps({"type": "DELETED", "object": json.loads(Path(first).read_text())}))
    assert versions(lahar) == ["now"]
    assert lahar("apply", first).out == "PriceBook prices: unchanged\n"


def test_a_book_that_comes_back_at_its_own_time_is_refused(lahar, files):
    """Its event has the id of the first one, which billing takes for a repeat."""
    first, more = files[0], book("prices", NOW, DEARER)
    at = ("--at", "2023-06-01T00:00:00Z")
    lahar("apply", first, *at)
    lahar("apply", more, *at)
    told = lahar("apply", first, *at, code=2).err
    assert "was applied at 2023-06-01T00:00:00.000000Z already, and another price book after it" in told
    assert versions(lahar) == ["now", "dearer"]


def test_a_book_that_a_producer_repeats_does_not_come_back_in_force(lahar, folder, files):
    first, other = files
    lahar("apply", first)
    lahar("apply", other)
    with closing(SqliteLog(folder / "lahar.db")) as log:
        repeated = next(record.message for record in log.scan(("cluster",), {ObjectApplied.TYPE}))
        log.append("cluster", [repeated])
    assert versions(lahar) == ["now", "dearer"]
    assert lahar("apply", other).out == "PriceBook other: unchanged\n"


def test_a_check_and_the_summary_name_devices_that_are_used_and_not_billed(lahar, files):
    terminated = {"exitCode": 0, "startedAt": "2026-04-01T08:00:00Z", "finishedAt": "2026-04-01T09:00:00Z"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}
    container = {"name": "c", "resources": {"limits": {"google.com/tpu": "4", "koordinator.sh/gpu": "50"}}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "train-0", "uid": "u1", "creationTimestamp": "2026-04-01T08:00:00Z", "ownerReferences": [owner]},
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": {"terminated": terminated}}]},
    }
    Path("pod.json").write_text(json.dumps(pod))
    lahar("ingest", "pod.json")
    assert "google.com/tpu: is used and not billed" in lahar("prices", "check", files[0]).err
    assert lahar("prices", "check", files[0], "--json").record["not_billed"] == ["google.com/tpu"]
    assert "google.com/tpu, not billed" in lahar("summary").out
