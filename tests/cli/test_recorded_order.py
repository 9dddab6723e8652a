"""`ingest --recorded` keeps the order of a file's lines, and dates each by what the file shows up to it."""

from __future__ import annotations

import json
from typing import Any

import pytest


def at(second: int) -> str:
    return f"2026-04-01T08:00:{second:02}Z"


def line(change: str, kind: str, uid: str, version: int, **parts: Any) -> str:
    metadata = {"name": uid, "namespace": "lab", "uid": uid, "resourceVersion": str(version), "creationTimestamp": at(0)}
    group = {"Job": "batch.volcano.sh/v1alpha1", "Pod": "v1", "Node": "v1"}[kind]
    metadata |= parts.pop("metadata", {})
    return json.dumps({"type": change, "object": {"apiVersion": group, "kind": kind, "metadata": metadata, **parts}})


def job(change: str, version: int, phase: str | None = None, second: int = 0, **metadata: Any) -> str:
    status = {} if phase is None else {"state": {"phase": phase, "lastTransitionTime": at(second)}}
    return line(change, "Job", "train", version, metadata=metadata, status=status, spec={"tasks": [{"name": "w", "replicas": 1}]})


def pod(change: str, version: int, phase: str, second: int, **metadata: Any) -> str:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "train", "controller": True}
    state = {"running": {"startedAt": at(second)}} if phase == "Running" else {"waiting": {"reason": "ContainerCreating"}}
    status = {"phase": phase, "containerStatuses": [{"name": "c", "state": state}]}
    spec = {"nodeName": "n1", "containers": [{"name": "c"}]}
    return line(change, "Pod", "train-w-0", version, metadata={"ownerReferences": [owner], **metadata}, spec=spec, status=status)


def node(second: int) -> str:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": at(second), "lastTransitionTime": at(0)}
    return line("MODIFIED", "Node", "n1", second, status={"conditions": [ready]})


def path(lahar, folder, *lines: str) -> list[tuple[str, str]]:
    """The job's phases and the times at which they began."""
    (folder / "watch.jsonl").write_text("\n".join(lines) + "\n")
    lahar("ingest", "--recorded", "watch.jsonl")
    found = lahar("events", "--job", "lab/train", "--type", "lahar.job.phase_changed.v1", "--json").records
    return [(event["data"]["phase"], event["time"][17:19]) for event in found if "data" in event]


RAN_AND_WAS_DELETED = (
    job("ADDED", 1),
    pod("ADDED", 2, "Pending", 0),
    job("MODIFIED", 3, "Pending", 1),
    pod("MODIFIED", 4, "Running", 5),
    job("MODIFIED", 6, "Running", 5),
    pod("DELETED", 7, "Running", 5),
    job("DELETED", 8, "Running", 5),
)


def test_a_job_that_ran_and_was_deleted_was_running(lahar, folder):
    assert path(lahar, folder, *RAN_AND_WAS_DELETED) == [("Running", "05"), ("Terminated", "05")]


def test_a_node_that_reports_later_dates_nothing_of_a_job(lahar, folder):
    assert path(lahar, folder, *RAN_AND_WAS_DELETED, node(59)) == [("Running", "05"), ("Terminated", "05")]


def test_a_line_without_a_time_of_its_own_came_after_those_above_it(lahar, folder):
    *before, deletion = RAN_AND_WAS_DELETED
    assert path(lahar, folder, *before, node(59), deletion) == [("Running", "05"), ("Terminated", "59")]


def test_a_deletion_that_states_its_time_happened_then(lahar, folder):
    *before, _ = RAN_AND_WAS_DELETED
    deletion = job("DELETED", 8, "Running", 5, deletionTimestamp=at(20))
    assert path(lahar, folder, *before, node(59), deletion) == [("Running", "05"), ("Terminated", "20")]


ENDED_AND_WAS_DELETED = job("DELETED", 8, "Completed", 9, deletionTimestamp=at(30))


@pytest.mark.parametrize("before", [(), (job("ADDED", 1),), RAN_AND_WAS_DELETED[:6]])
def test_an_end_that_only_the_deletion_shows_is_the_end(lahar, folder, before):
    """A job may be deleted as soon as it ends, or while nobody watches."""
    assert path(lahar, folder, *before, ENDED_AND_WAS_DELETED)[-1] == ("Completed", "09")
    events = lahar("events", "--job", "lab/train", "--type", "lahar.job.object_deleted.v1", "--json").records
    assert [event["time"][17:19] for event in events if "data" in event] == ["30"]


def test_a_job_of_which_only_the_deletion_was_read_is_known(lahar, folder):
    assert path(lahar, folder, job("DELETED", 8, "Running", 5, deletionTimestamp=at(30))) == [
        ("Running", "05"),
        ("Terminated", "30"),
    ]


def test_a_grace_period_is_not_waited_for(lahar, folder):
    deleting = {"deletionTimestamp": at(50), "deletionGracePeriodSeconds": 30}
    lines = (*RAN_AND_WAS_DELETED[:5], pod("MODIFIED", 7, "Running", 5, **deleting), job("DELETED", 8, "Running", 5))
    assert path(lahar, folder, *lines)[-1] == ("Terminated", "20")


@pytest.mark.parametrize("options", [(), ("--recorded",)])
@pytest.mark.parametrize("stated", [{}, {"deletionTimestamp": at(30)}])
def test_the_deletion_of_a_job_object_has_one_moment_in_an_answer(lahar, folder, options, stated):
    (folder / "watch.jsonl").write_text("\n".join((*RAN_AND_WAS_DELETED[:6], job("DELETED", 8, "Running", 5, **stated))) + "\n")
    lahar("ingest", *options, "watch.jsonl")
    answer = " ".join(lahar("why", "lab/train").out.split())
    change = next(said for said in answer.split(". ") if said.startswith("The job went"))
    assert len({word.rstrip(".,;Z") for word in change.split() if word.count(":") == 2}) == 1
    assert change.count("was deleted") == 1
    assert "because its deletion was seen" in change


@pytest.mark.parametrize("options", [(), ("--recorded",)])
def test_a_deletion_without_a_time_has_one_moment_in_an_answer(lahar, folder, options):
    owner = {"metadata": {"creationTimestamp": at(0)}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    status = {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": at(5)}}}]}
    lines = (line("ADDED", "Pod", "solo", 1, **owner, status=status), line("DELETED", "Pod", "solo", 2, **owner, status=status))
    (folder / "watch.jsonl").write_text("\n".join(lines) + "\n")
    lahar("ingest", *options, "watch.jsonl")
    answer = lahar("why", "solo").out
    moments = {word.rstrip(".,Z") for word in answer.split() if word.count(":") == 2}
    assert len(moments) == 1
    assert "because pod solo was deleted." in answer


def test_what_keeps_the_order_of_lines_is_in_no_time_of_a_job(lahar, folder):
    lines = [job("ADDED", 1), pod("ADDED", 2, "Running", 5), job("MODIFIED", 3, "Running", 5), job("DELETED", 4)]
    (folder / "watch.jsonl").write_text("\n".join(lines) + "\n")
    lahar("ingest", "--recorded", "watch.jsonl")
    found = lahar("events", "--job", "lab/train", "--level", "job", "--json").records
    times = {event["time"] for event in found if "data" in event}
    assert times == {"2026-04-01T08:00:00.000000Z", "2026-04-01T08:00:05.000000Z"}


def test_what_keeps_the_order_of_lines_is_in_no_time_of_an_attempt(lahar, folder):
    """The pod states no end: it ends with the last line that showed it live."""
    lines = [job("ADDED", 1), node(40), pod("ADDED", 2, "Running", 5), node(42), pod("DELETED", 5, "Running", 5)]
    (folder / "watch.jsonl").write_text("\n".join(lines) + "\n")
    lahar("ingest", "--recorded", "watch.jsonl")
    found = lahar("events", "--job", "lab/train", "--json").records
    ended = [event["time"] for event in found if event.get("type") == "lahar.attempt.ended.v1"]
    assert ended == ["2026-04-01T08:00:40.000000Z"]
    assert all(event["time"].endswith(".000000Z") for event in found if "data" in event)


def test_lines_of_one_moment_may_be_many(lahar, folder):
    """Thousands of lines of one time raise recorded times by more than a millisecond."""
    lines = [
        line for number in range(600) for line in (job("MODIFIED", 2 * number + 1), pod("MODIFIED", 2 * number + 2, "Running", 5))
    ]
    (folder / "watch.jsonl").write_text("\n".join([*lines, pod("DELETED", 2000, "Running", 5), job("DELETED", 2001)]) + "\n")
    lahar("ingest", "--recorded", "watch.jsonl")
    found = [event for event in lahar("events", "--job", "lab/train", "--json").records if "data" in event]
    assert found[-1]["recordedtime"] > "2026-04-01T08:00:05.001"
    assert {event["time"][19:] for event in found} == {".000000Z"}


def listed(*items: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [json.loads(item)["object"] for item in items]})


def batch(**status: Any) -> str:
    content = json.loads(line("ADDED", "Job", "train", 9, spec={"completions": 2, "parallelism": 2}, status=status))
    content["object"]["apiVersion"] = "batch/v1"
    return json.dumps(content)


def batch_pod(number: int, phase: str, started: int, **ended: Any) -> str:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "train", "controller": True}
    state = {"terminated": {"startedAt": at(started), **ended}} if ended else {"running": {"startedAt": at(started)}}
    status = {"phase": phase, "containerStatuses": [{"name": "c", "state": state}]}
    spec = {"nodeName": "n1", "containers": [{"name": "c"}]}
    return line("ADDED", "Pod", f"train-{number}", number, metadata={"ownerReferences": [owner]}, spec=spec, status=status)


@pytest.mark.parametrize("options", [(), ("--recorded",)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_job_that_only_counts_pods_runs_since_the_first_in_its_list(lahar, folder, options, turned):
    """The counts of a batch Job state no time; those of its pods in the same List do."""
    ended = batch_pod(1, "Succeeded", 7, finishedAt=at(20), exitCode=0)
    items = [node(50), batch(active=1, ready=1, succeeded=1, startTime=at(1)), batch_pod(2, "Running", 25), ended]
    lahar("ingest", *options, given=listed(*(items[::-1] if turned else items)))
    found = lahar("events", "--job", "lab/train", "--type", "lahar.job.phase_changed.v1", "--json").records
    assert [(event["data"]["phase"], event["time"][:19] + "Z") for event in found if "data" in event] == [("Running", at(7))]
