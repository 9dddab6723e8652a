"""The three stories of `examples/`, played as their `play.sh` plays them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from causes_in_order import must_be_in_order
from typer.testing import CliRunner

from engine.cli.main import app
from engine.events import Data, Event
from engine.events.actions import ActionDeferred, ActionTaken, EffectRequested, EventRaised
from engine.events.jobs import JobPhaseChanged
from engine.history.fold import fold
from engine.history.reading import events_of, history_of
from engine.history.view import JobView
from engine.kubernetes.observation.pods import observe_pod
from engine.kubernetes.reading.documents import Document, read_documents
from engine.log.url import open_log

EXAMPLES = Path(__file__).parent.parent / "examples"
STORIES = ("ensemble", "out-of-memory", "lost-node")


@dataclass
class Played:
    """A story that was played."""

    folder: Path
    output: dict[str, str]
    """What each command printed."""
    events: list[Event[Data]]
    job: JobView

    def phases(self) -> list[str]:
        return [event.data.phase for event in self.events if isinstance(event.data, JobPhaseChanged)]

    def ends(self) -> dict[str, tuple[str, str | None, int | None]]:
        return {name: (one.phase, one.reason, one.exit_code) for name, one in ((a.name, a) for a in self.job.attempts.values())}

    def told(self) -> list[str]:
        """What the callbacks printed."""
        lines = [line for output in self.output.values() for line in output.splitlines()]
        return [line for line in lines if line.startswith(("[live]", "[catchup]"))]

    def said(self, command: str) -> str:
        return next(output for line, output in self.output.items() if line.startswith(f"lahar {command}"))


def commands_of(story: str) -> list[str]:
    lines = (EXAMPLES / story / "play.sh").read_text().splitlines()
    return [line for line in lines if line.startswith("lahar ")]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Played]:
    """Plays a story into a log of its own; a second time into the same one."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("COLUMNS", "120")

    def run(story: str) -> Played:
        url = f"sqlite:{tmp_path / story}.db"
        monkeypatch.setenv("LAHAR_LOG", url)
        monkeypatch.setenv("LAHAR_CONFIG", str(EXAMPLES / story / "lahar.toml"))
        monkeypatch.chdir(EXAMPLES / story)
        output: dict[str, str] = {}
        for line in commands_of(story):
            # Each command is a process of its own, with its own modules.
            monkeypatch.delitem(sys.modules, "callbacks", raising=False)
            result = CliRunner().invoke(app, shlex.split(line)[1:])
            assert result.exit_code == 0, f"{line}\n{result.output}"
            output[line] = result.output
        monkeypatch.delitem(sys.modules, "callbacks", raising=False)
        log = open_log(url, create=False, readonly=True)
        try:
            job = json.loads(CliRunner().invoke(app, ["job", "list", "--json"]).output)
            events = events_of(log, job["id"])
            must_be_in_order(history_of(log, job["id"]))
        finally:
            log.close()
        view = fold(events)
        assert view is not None
        return Played(EXAMPLES / story, output, events, view)

    return run


def of(played: Played, cls: type[Data]) -> list[Any]:
    return [event.data for event in played.events if isinstance(event.data, cls)]


def test_an_ensemble_completes_when_its_combiner_does(play) -> None:
    """The combiner's end raises MainTaskEvent; the learners that still run are stopped, and nothing waits for them."""
    played = play("ensemble")
    assert played.phases() == ["Running", "Completing", "Completed"]
    assert played.ends() == {
        "combiner[0]#1": ("Succeeded", None, 0),
        "learner[0]#1": ("Succeeded", None, 0),
        "learner[1]#1": ("Failed", "KilledByAction", 143),
        "learner[2]#1": ("Failed", "KilledByAction", 143),
    }
    (main,) = (event for event in played.events if isinstance(event.data, EventRaised) and event.data.event == "MainTaskEvent")
    completing = next(
        event for event in played.events if isinstance(event.data, JobPhaseChanged) and event.data.phase == "Completing"
    )
    assert completing.time == main.time == played.job.attempts["combiner", 0, 1].ended
    assert [one.pod for one in of(played, EffectRequested) if one.effect == "delete_pod"] == [
        "ranking-ensemble-learner-1",
        "ranking-ensemble-learner-2",
    ]
    assert (played.job.retry_count, played.job.restarts) == (0, 0)
    assert played.told() == [
        "[live] search/ranking-ensemble: new → Pending",
        "[live] search/ranking-ensemble task combiner: Pending → Running",
        "[live] search/ranking-ensemble task learner: Pending → Running",
        "[live] search/ranking-ensemble: Pending → Running",
        "[live] search/ranking-ensemble task combiner: Running → Completed",
        "[live] search/ranking-ensemble: Running → Completing",
        "[live] search/ranking-ensemble: Completing → Completed",
        "[live] search/ranking-ensemble task learner: Running → Failed",
    ]
    why = " ".join(played.said("why").split())
    assert "Of 4 replicas: 2 Succeeded, 2 stopped." in why
    assert "because the end of the main task combiner raised MainTaskEvent" in why
    assert "because pod ranking-ensemble-combiner-0 was seen Succeeded" in why
    assert "Running 09:00:34 → Completing 10:31:40 → Completed 10:31:49" in played.said("timeline")


def test_a_worker_out_of_memory_is_replaced_and_the_training_completes(play) -> None:
    played = play("out-of-memory")
    assert played.phases() == ["Running", "Restarting", "Pending", "Running", "Completing", "Completed"]
    assert played.ends() == {
        "ps[0]#1": ("Failed", "KilledByAction", 143),
        "ps[1]#1": ("Failed", "KilledByAction", 143),
        "worker[0]#1": ("Succeeded", None, 0),
        "worker[1]#1": ("Failed", "OomKilled", 137),
        "worker[1]#2": ("Succeeded", None, 0),
        "worker[2]#1": ("Succeeded", None, 0),
    }
    assert [(one.policy, one.event, one.action) for one in of(played, ActionTaken)] == [
        ("spec.tasks[1].policies[0]", "PodFailed", "RestartPod"),
        ("spec.tasks[1].policies[1]", "TaskCompleted", "CompleteJob"),
    ]
    assert (played.job.retry_count, played.job.restarts) == (1, 1)
    assert played.told() == ["[live] to the owner of ads/ctr-training: worker[1] ran out of memory"]
    why = " ".join(played.said("why").split())
    assert "It was restarted once; retries used: 1 of 3." in why
    assert (
        "worker[1] attempt 1 was OOM-killed (exit 137) at 2026-03-03 11:52:40Z on gpu-2 after running 52 min 15 s; "
        "policy spec.tasks[1].policies[0] answers PodFailed with RestartPod on worker[1]"
    ) in why
    timeline = played.said("timeline")
    assert "worker[1]#1" in timeline
    assert "worker[1]#2" in timeline
    assert "Failed OomKilled exit 137" in timeline


def test_a_gang_that_lost_its_node_uses_no_retry_and_aborts_after_restart(play) -> None:
    played = play("lost-node")
    assert played.phases() == ["Running", "Restarting", "Pending", "Aborting", "Aborted"]
    assert played.ends() == {
        "worker[0]#1": ("Failed", "KilledByAction", 143),
        "worker[1]#1": ("Failed", "KilledByAction", 143),
        "worker[2]#1": ("Lost", "NodeLost", None),
        "worker[3]#1": ("Failed", "KilledByAction", 143),
    }
    assert (played.job.retry_count, played.job.restarts) == (0, 1)
    (deferred,) = of(played, ActionDeferred)
    assert (deferred.action, deferred.by, deferred.reason) == ("AbortJob", "amara", "the node is gone, I train elsewhere")
    assert [(one.action, one.deferred) for one in of(played, ActionTaken)] == [("RestartJob", False), ("AbortJob", True)]
    assert played.told() == [
        "[live] lost: nlp/bert-pretrain worker[2] (NodeLost)",
        "[live] nlp/bert-pretrain is Restarting, it was Running",
        "[live] nlp/bert-pretrain is Aborted, it was Aborting",
    ]
    assert "AbortJob by amara has to wait for the restart" in played.said("job command")
    why = " ".join(played.said("why").split())
    assert "Of 4 replicas: 1 Lost, 3 stopped." in why
    assert "It was restarted once; retries used: 0 of 2" in why
    assert "policy spec.policies[0] answers PodEvicted with RestartJob" in why
    assert "because AbortJob by amara, which had waited for the restart, was carried out at 2026-03-04 15:25:04Z" in why
    assert "because amara commanded AbortJob at 2026-03-04 15:24:50Z (the node is gone, I train elsewhere)." in why
    assert "Restarting 15:24:40 → Pending 15:25:04 → Aborting 15:25:04 → Aborted 15:25:04" in played.said("timeline")


@pytest.mark.parametrize("story", STORIES)
def test_a_story_is_the_same_on_every_run_and_on_replay(play, story: str, tmp_path: Path) -> None:
    first = play(story).events
    again = play(story).events  # into the same log
    for file in tmp_path.glob(f"{story}.db*"):
        file.unlink()
    anew = play(story).events
    assert first == again == anew


@pytest.mark.parametrize("story", STORIES)
def test_the_pods_of_a_story_belong_to_its_job(play, story: str) -> None:
    """`inspect` judges every object, and none is of a job, a task or a place that the manifest does not have."""
    job = play(story).job
    places = {(task.name, index) for task in job.tasks.values() for index in range(task.replicas)}
    for stream in sorted((EXAMPLES / story).glob("pods*.jsonl")):
        for document in read_documents(stream.read_bytes()):
            assert isinstance(document, Document)
            pod = observe_pod(document.content)
            assert pod.job == job.id
            assert (pod.task, pod.index) in places
            assert document.content["metadata"]["resourceVersion"].isdecimal()
        result = CliRunner().invoke(app, ["inspect", "pod", str(stream), "--json"])
        states = Counter(json.loads(line)["state"] for line in result.output.splitlines())
        assert sum(states.values()) == len(stream.read_text().splitlines())
        assert None not in states


def test_the_streams_are_what_their_script_writes(tmp_path: Path) -> None:
    """Whoever changes a story changes `record.py` and runs it."""
    for story in {path.parent.name for path in EXAMPLES.glob("*/*.jsonl")}:
        (tmp_path / story).mkdir()
        for manifest in (EXAMPLES / story).glob("*.yaml"):
            (tmp_path / story / manifest.name).write_bytes(manifest.read_bytes())
    script = tmp_path / "record.py"
    script.write_bytes((EXAMPLES / "record.py").read_bytes())
    subprocess.run([sys.executable, str(script)], check=True, env={**os.environ})
    written = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.glob("*/*.jsonl")}
    kept = {path.relative_to(EXAMPLES): path.read_text() for path in EXAMPLES.glob("*/*.jsonl")}
    assert written == kept
