"""What changed between two moments."""

from __future__ import annotations

from engine.events.times import SECOND
from engine.history.asof import job_as_of
from engine.history.diff import Change, diff, diff_documents


def between(story, first, second):
    views = [job_as_of(story.events, seconds * SECOND) for seconds in (first, second)]
    return {change.path: (change.before, change.after) for change in diff(*views)}


def test_every_level_is_compared(training):
    changes = between(training, 200, 305)
    assert changes["tasks.worker.phase"] == ("Running", "Restarting")
    assert changes["attempts.worker[1]#1.phase"] == ("Running", "Failed")
    assert changes["attempts.worker[1]#1.exit_code"] == (None, 137)
    assert changes["attempts.worker[1]#2.phase"] == (None, "Pending")
    assert changes["attempts.worker[1]#2.requests.gpu"] == (None, 1)
    assert not any(path.startswith(("attempts.worker[0]", "attempts.ps", "phase")) for path in changes)


def test_a_zero_is_a_change_of_what_was_there(training):
    assert between(training, 500, 1000)["attempts.ps[0]#1.exit_code"] == (None, 0)


def test_a_job_that_was_not_yet_there(training):
    changes = between(training, -5, 0)
    assert changes["phase"] == (None, "Pending")
    assert changes["tasks.worker.replicas"] == (None, 2)
    assert "restarts" not in changes


def test_no_change(training):
    assert between(training, 100, 200) == {}


def test_documents_key_by_key():
    before, after = {"a": {"x": 1, "y": [1]}, "b": 2}, {"a": {"x": 1, "y": [2]}, "c": {"z": 0, "w": 4}}
    assert diff_documents(before, after) == [Change("a.y", [1], [2]), Change("b", 2, None), Change("c.w", None, 4)]
    assert diff_documents(after, after) == []
