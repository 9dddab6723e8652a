"""The library: what a program puts in, asks and hears, on every log, without a command."""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import lahar
from engine.application.questions import Questions
from engine.effects.notice import Notice
from engine.effects.registry import Registry, callback
from engine.events.jobs import JobOpened, JobPhaseChanged
from engine.events.times import from_micros
from engine.lifecycle.stage import LifecycleStage
from engine.processor.watchdog import ENDED
from engine.projection.projection import Projection

JOB: dict[str, Any] = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "ml"},
    "lahar": {"customEvents": {"Checkpointed": None}},
    "spec": {
        "minAvailable": 1,
        "queue": "research",
        "tasks": [{"name": "worker", "replicas": 2, "template": {"spec": {"containers": [{"name": "main", "image": "train"}]}}}],
    },
}
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "research"},
    "spec": {"weight": 1},
}


def pod(phase: str, version: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "namespace": "ml",
            "uid": "web-1",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-03-01T12:00:00Z",
        },
        "spec": {"containers": [{"name": "main", "image": "web"}]},
        "status": {"phase": phase},
    }


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[lahar.Lahar]:
    with lahar.open("memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'lahar.db'}") as opened:
        opened.apply(QUEUE)
        yield opened


def test_a_job_is_submitted_and_shown(log: lahar.Lahar) -> None:
    taken = log.submit(JOB)
    assert (taken.name, taken.outcome, taken.faults) == ("ml/train", "applied", ())
    assert isinstance(taken.events[0].data, JobOpened)
    view = log.job("ml/train")
    assert (view.id, view.phase, len(view.attempts)) == (taken.job, "Pending", 2)
    assert [line.id for line in log.jobs(lahar.Filter(queue="research"))] == [taken.job]
    assert log.jobs(lahar.Filter(queue="other")) == []


def test_the_same_submission_twice_is_one(log: lahar.Lahar) -> None:
    assert [log.submit(JOB, command="nightly").outcome for _ in range(2)] == ["applied", "duplicate"]
    assert len(log.jobs()) == 1


def test_what_is_wrong_with_a_manifest_is_an_answer(log: lahar.Lahar) -> None:
    taken = log.submit({**JOB, "spec": {**JOB["spec"], "minAvailable": -1}})
    assert (taken.outcome, taken.failed, log.jobs()) == ("rejected", True, [])
    assert taken.faults[0].path == "spec.minAvailable"


def test_applying_twice_changes_nothing(log: lahar.Lahar) -> None:
    (queue, job) = log.apply(QUEUE, JOB)
    assert (queue.outcome, job.outcome) == ("unchanged", "applied")
    events = len(log.history("ml/train"))
    (queue, job) = log.apply(QUEUE, JOB)
    assert (queue.outcome, job.outcome) == ("unchanged", "unchanged")
    assert len(log.history("ml/train")) == events


def test_what_cannot_be_applied_leaves_all_as_it_was(log: lahar.Lahar) -> None:
    with pytest.raises(ValueError, match=r"^object 2 \(ConfigMap a\): ConfigMap cannot be applied"):
        log.apply(JOB, {"kind": "ConfigMap", "metadata": {"name": "a"}})
    assert log.jobs() == []


def test_commands_and_custom_events_are_answered(log: lahar.Lahar) -> None:
    log.submit(JOB)
    assert log.raise_event("ml/train", "Checkpointed", {"step": 7}).outcome == "applied"
    refused = log.raise_event("ml/train", "Unknown")
    assert (refused.outcome, len(refused.faults)) == ("refused", 1)
    aborted = log.command("ml/train", "AbortJob", by="ann", reason="wrong data")
    assert aborted.events[0].type == "lahar.job.action_taken.v1"
    assert "ann" in " ".join(log.why("ml/train").sentences())


def test_the_past_is_compared_selected_and_explained(log: lahar.Lahar) -> None:
    log.submit(JOB)
    submitted = log.jobs()[0].submitted
    log.command("ml/train", "AbortJob")
    assert ("phase", None, "Aborting") in log.diff("2020-01-01", "now", "ml/train")
    assert "jobs_by_phase.Aborting" in [change.path for change in log.diff("2020-01-01", "now")]
    (aborting,) = log.history("ml/train", lahar.Selection(phases="Aborting"))
    assert aborting.type == "lahar.job.phase_changed.v1"
    assert "Aborting" not in log.why("ml/train", at=from_micros(submitted)).sentences()[0]


@pytest.mark.parametrize("condition", [{"node": 3}, {"reasons": [1]}, {"phases": 4}, {"node": ""}])
def test_a_selection_refuses_conditions_of_other_types(condition: dict[str, Any]) -> None:
    with pytest.raises(lahar.RequestError, match=f"^{next(iter(condition))} "):
        lahar.Selection(**condition)


def test_a_log_is_closed_though_its_questions_fail_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = lahar.open("memory:")
    closed: list[bool] = []
    monkeypatch.setattr(opened.log, "close", lambda: closed.append(True))
    monkeypatch.setattr(Questions, "close", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        opened.close()
    assert closed == [True]


def test_observations_become_jobs(log: lahar.Lahar) -> None:
    done = log.ingest([pod("Pending", 1), {"kind": "List", "items": [pod("Succeeded", 2)]}, {"kind": "Secret"}])
    assert (done.objects, done.taken, done.ignored_kinds, done.processed, done.complete) == (3, 2, {"Secret": 1}, 2, True)
    (line,) = log.jobs(lahar.Filter(other=True))
    assert (line.name, line.phase) == ("web", "Completed")


def test_what_cannot_be_taken_in_is_counted_with_the_first_reason(log: lahar.Lahar) -> None:
    error = {"type": "ERROR", "object": {"kind": "Status", "message": "too old resource version", "code": 410}}
    done = log.ingest([pod("Running", 1), {"kind": "Pod", "metadata": {"name": "bad"}}, {"kind": "Secret"}, error])
    assert (done.objects, done.taken, done.ignored, done.unreadable, done.errors, done.complete) == (4, 1, 2, 1, 1, False)
    assert done.first_unreadable.startswith("object 2: ")
    assert "metadata.uid" in done.first_unreadable
    assert "too old resource version" in done.first_error
    assert len(log.dead_letters()) == 1


def test_what_a_program_gave_before_it_failed_is_processed(log: lahar.Lahar) -> None:
    def objects() -> Iterator[dict[str, object]]:
        yield pod("Running", 1)
        raise ConnectionError("the watch ended")

    with pytest.raises(ConnectionError, match="the watch ended"):
        log.ingest(objects())
    (line,) = log.jobs(lahar.Filter(other=True))
    assert line.phase == "Running"


def test_a_dead_letter_is_discarded(log: lahar.Lahar) -> None:
    log.ingest([{"kind": "Pod", "metadata": {"name": name}} for name in "abc"])
    letters = log.dead_letters()
    assert len(letters) == 3
    taken = log.discard(letters[0].event.id, reason="a probe", by="ann")
    assert (taken.outcome, taken.job) == ("applied", letters[0].event.id)
    assert log.dead_letters() == letters[1:]
    (discarded,) = [letter.discarded for letter in log.dead_letters(discarded=True) if letter.discarded is not None]
    assert (discarded.data.reason, discarded.data.by) == ("a probe", "ann")
    with pytest.raises(lahar.NotFoundError, match="no dead letter 'zzz'"):
        log.discard("zzz")
    with pytest.raises(lahar.AmbiguousError, match="matches 3 dead letters"):
        log.discard("")


def test_a_list_is_one_moment(log: lahar.Lahar) -> None:
    """The pod that has succeeded stands first, and the other one of its job runs."""
    owner = [{"kind": "Job", "apiVersion": "batch/v1", "name": "train", "uid": "u", "controller": True}]
    items = [pod("Succeeded", 1), pod("Running", 1)]
    for number, item in enumerate(items):
        item["metadata"] |= {"name": f"p{number}", "uid": f"p{number}", "ownerReferences": owner}  # type: ignore[operator]  # a mapping
    log.ingest([{"kind": "List", "items": items}])
    (job,) = log.jobs()
    phases = [event.data.phase for event in log.history(job.id) if isinstance(event.data, JobPhaseChanged)]
    assert phases == ["Running"]


def test_the_past_can_be_asked_for(log: lahar.Lahar) -> None:
    before = datetime.now(UTC)
    taken = log.submit(JOB)
    log.command("ml/train", "AbortJob")
    assert log.as_of(before, "ml/train") is None
    opened = datetime.fromtimestamp(taken.events[0].time / 1e6, UTC)
    assert log.as_of(datetime.now(UTC), "ml/train").phase != "Pending"
    assert log.as_of(opened).document()["queues"]
    assert log.timeline("ml/train").job.id == taken.job
    assert log.summary()["jobs"] == 1


def test_an_event_is_explained_by_the_beginning_of_its_id(log: lahar.Lahar) -> None:
    (first, *_) = log.submit(JOB).events
    assert log.why(first.id[:12]).causes[0].event == first.id


def test_a_replica_and_a_node_are_explained(log: lahar.Lahar) -> None:
    log.ingest([{**pod("Running", 1), "spec": {"containers": [{"name": "main"}], "nodeName": "n1"}}])
    (name,) = [line.id for line in log.jobs(lahar.Filter(other=True))]
    assert "main[0] runs on n1" in log.why(name, "main[0]").headline
    assert [group.job for group in log.why_node("n1").replicas] == ["ml/web"]
    with pytest.raises(lahar.NotFoundError, match="no node"):
        log.why_node("n2")


def test_a_job_that_is_not_there_is_an_error_that_says_where_to_look(log: lahar.Lahar) -> None:
    for ask in (log.job, log.why, log.timeline, log.history):
        with pytest.raises(lahar.NotFoundError, match="lahar job list"):
            ask("ml/nobody")


def test_a_subscription_goes_on_behind_its_token(log: lahar.Lahar) -> None:
    log.submit(JOB)
    first = log.subscribe(types=["lahar.job.*"])
    heard = [event.id for event in first]
    assert first.is_caught_up
    log.command("ml/train", "AbortJob")
    heard += [event.id for event in log.subscribe(first.token, types=["lahar.job.*"])]
    whole = [event.id for event in log.subscribe(types=["lahar.job.*"])]
    assert heard == whole
    with pytest.raises(lahar.TokenError):
        log.subscribe("nonsense")


def test_a_subscription_from_now_or_from_a_moment_leaves_out_what_was(log: lahar.Lahar) -> None:
    log.submit(JOB)
    assert list(log.subscribe("now")) == []
    assert list(log.subscribe(datetime(2100, 1, 1, tzinfo=UTC))) == []
    assert next(iter(log.subscribe(datetime(1970, 1, 2, tzinfo=UTC), level="job"))) == log.history("ml/train")[0]


def test_what_is_only_appended_is_said_to_be(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'lahar.db'}"
    with lahar.open(url, process=False) as log:
        assert log.submit(JOB).outcome == "appended"
        assert log.jobs() == []
    with lahar.open(url) as log:
        log.apply(QUEUE)
        assert [line.name for line in log.jobs()] == ["train"]


def test_who_only_asks_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(lahar.LogError):
        lahar.open(f"sqlite:{tmp_path / 'none.db'}", readonly=True)
    assert list(tmp_path.iterdir()) == []


def test_a_callback_that_fails_is_told_to_the_logger(
    log: lahar.Lahar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @callback(name="bell", level="job")
    def bell(_notice: object) -> None:
        raise RuntimeError("no bell")

    monkeypatch.setattr("engine.runtime.callbacks.registered", lambda *_: Registry([bell]))
    log.submit(JOB)
    assert ("lahar", logging.WARNING) in {(record.name, record.levelno) for record in caplog.records}


def test_many_calls_hold_one_engine(tmp_path: Path) -> None:
    """Each opened the shards anew and left their files open."""
    with lahar.open(f"sqlite:{tmp_path / 'lahar.db'}") as log:
        log.apply(QUEUE, JOB)
        log.raise_event("ml/train", "Checkpointed")
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(5):
            log.raise_event("ml/train", "Checkpointed")
        assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert len(list(Path("/proc/self/fd").iterdir())) < before


def test_callbacks_hear_at_once_of_what_a_program_puts_in(log: lahar.Lahar, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    @callback(name="bell", level="job")
    def bell(notice: Notice) -> None:
        heard.append(notice.mode)

    monkeypatch.setattr("engine.runtime.callbacks.registered", lambda *_: Registry([bell]))
    log.submit(JOB)
    log.command("ml/train", "AbortJob")
    assert set(heard) == {"live"}


def test_a_refused_update_leaves_the_objects_as_they_were(log: lahar.Lahar) -> None:
    log.apply(JOB)
    changed = {**JOB, "spec": {**JOB["spec"], "queue": "other"}}
    with pytest.raises(ValueError, match=r"spec\.queue"):
        log.apply({**QUEUE, "metadata": {"name": "other"}}, changed)
    assert log.apply({**QUEUE, "metadata": {"name": "other"}})[0].outcome == "created"


def test_a_log_is_closed_while_another_thread_reads_it(tmp_path: Path) -> None:
    """SQLite crashed the interpreter."""
    log = lahar.open(f"sqlite:{tmp_path / 'lahar.db'}")
    log.apply(QUEUE, JOB)
    reading, ended = threading.Event(), threading.Event()

    def read() -> None:
        with contextlib.suppress(Exception):
            while True:
                list(log.subscribe())
                reading.set()
        ended.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    assert reading.wait(60)
    log.close()
    assert ended.wait(60)


def test_a_call_that_fails_loses_no_engine(tmp_path: Path) -> None:
    with lahar.open(f"sqlite:{tmp_path / 'lahar.db'}") as log:
        log.apply(QUEUE, JOB)
    changed = {**JOB, "spec": {**JOB["spec"], "queue": "other"}}
    with lahar.open(f"sqlite:{tmp_path / 'lahar.db'}") as log:
        counts = []
        for _ in range(3):
            with pytest.raises(ValueError, match=r"object 1 \(Job train\): spec\.queue"):
                log.apply(changed)
            counts.append(len(list(Path("/proc/self/fd").iterdir())))
        assert len(set(counts)) == 1
    assert len(list(Path("/proc/self/fd").iterdir())) < counts[0]


def test_what_is_wrong_names_the_object(log: lahar.Lahar) -> None:
    """The second of two, whatever is wrong with it: its shape, or what the rules say."""
    bad = {**JOB, "metadata": {"name": "other", "namespace": "ml"}, "spec": {**JOB["spec"], "minAvailable": -1}}
    applied = log.apply(JOB, bad)
    assert [taken.place for taken in applied if isinstance(taken, lahar.Taken)] == ["object 1 (Job train)", "object 2 (Job other)"]
    with pytest.raises(ValueError, match=r"^object 2 \(Queue q\): "):
        log.apply(JOB, {**QUEUE, "metadata": {"name": "q"}, "spec": {"weight": "heavy"}})
    with pytest.raises(ValueError, match=r"^object 1: an object without `kind` cannot be applied"):
        log.apply({})


def test_the_settings_of_stages_are_those_of_the_command(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'lahar.db'}"
    with lahar.open(url, max_replicas=1, forget_after="40d", orphan_wait=5, decide_limit="2m") as log:
        log.apply(QUEUE)
        assert log.submit(JOB).outcome == "rejected"
        assert log._settings.forget_after == 40 * 86_400 * 1_000_000
        assert (log._settings.orphan_wait, log._settings.decide_limit) == (5_000_000, 120_000_000)
    with pytest.raises(ValueError, match=r"forget_after: .*soon"):
        lahar.open(url, forget_after="soon")
    with pytest.raises(ValueError, match="max_replicas: should be greater"):
        lahar.open(url, max_replicas=0)
    with pytest.raises(ValueError, match="no_such_module"):
        lahar.open(url, callbacks=["no_such_module"])


CALLS: dict[str, Callable[[lahar.Lahar], object]] = {
    "submit": lambda log: log.submit(JOB),
    "apply": lambda log: log.apply(QUEUE),
    "command": lambda log: log.command("ml/train", "AbortJob"),
    "raise_event": lambda log: log.raise_event("ml/train", "Checkpointed"),
    "ingest": lambda log: log.ingest([pod("Running", 1)]),
    "discard": lambda log: log.discard("x"),
    "jobs": lambda log: log.jobs(),
    "bills": lambda log: log.bills,
    "scheduling": lambda log: log.scheduling.queues(),
    "scheduling_at": lambda log: log.scheduling_at("2026-03-01").queues(),
    "preemptions": lambda log: log.preemptions.notices(),
    "open_queue": lambda log: log.open_queue("default"),
    "close_queue": lambda log: log.close_queue("default"),
    "close_month": lambda log: log.close_month("2023-05"),
    "job": lambda log: log.job("ml/train"),
    "history": lambda log: log.history("ml/train"),
    "why": lambda log: log.why("ml/train"),
    "why_node": lambda log: log.why_node("n1"),
    "as_of": lambda log: log.as_of(datetime.now(UTC), "ml/train"),
    "diff": lambda log: log.diff("-1h", "now"),
    "partial": lambda log: log.partial(print),
    "timeline": lambda log: log.timeline("ml/train"),
    "status": lambda log: log.status(),
    "verify": lambda log: log.verify(),
    "summary": lambda log: log.summary(),
    "what_if": lambda log: log.what_if(queues="queues.yaml"),
    "dead_letters": lambda log: log.dead_letters(),
    "backup": lambda log: log.backup("copy.db"),
    "compact": lambda log: log.compact(),
    "subscribe": lambda log: log.subscribe(job="ml/train"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_log_that_is_closed_says_so(log: lahar.Lahar, call: str) -> None:
    log.submit(JOB)
    log.jobs()
    log.close()
    log.close()
    with pytest.raises(lahar.LogError, match=r"is closed; open it again with lahar\.open"):
        CALLS[call](log)


def test_every_call_is_tried_on_a_closed_log() -> None:
    public = {name for name in dir(lahar.Lahar) if not name.startswith("_")}
    assert public - {"close", "feed_of", "log", "opened"} == set(CALLS)


def test_a_subscription_of_a_file_that_was_closed_says_so(tmp_path: Path) -> None:
    log = lahar.open(f"sqlite:{tmp_path / 'lahar.db'}")
    log.apply(QUEUE, JOB)
    events = log.subscribe()
    log.close()
    with pytest.raises(lahar.LogError, match=r"lahar\.db was closed by this process; open it again"):
        next(events)


def test_many_questions_open_one_projection(log: lahar.Lahar, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Projection] = []

    class Counted(Projection):
        def __init__(self, path: Path | None) -> None:
            super().__init__(path)
            opened.append(self)

    monkeypatch.setattr("engine.application.questions.Projection", Counted)
    for number in range(3):
        log.submit({**JOB, "metadata": {"name": f"t{number}", "namespace": "ml"}})
        assert len(log.jobs()) == number + 1
        assert log.job(f"ml/t{number}").name == f"t{number}"
        assert log.summary()["jobs"] == number + 1
    assert len(opened) == 1


def test_a_question_sees_what_others_have_put_in_since(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'lahar.db'}"
    with lahar.open(url) as log:
        log.apply(QUEUE)
        assert log.jobs() == []
        with lahar.open(url) as other:
            other.submit(JOB)
            assert len(other.jobs()) == 1
        assert [line.name for line in log.jobs()] == ["train"]


def test_a_call_leaves_the_process_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its garbage collector, its switch interval, its timers and signals: other threads of it go on meanwhile."""

    def standing() -> tuple[object, ...]:
        armed = signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 500
        return gc.isenabled(), gc.get_freeze_count(), sys.getswitchinterval(), signal.getsignal(signal.SIGVTALRM), armed

    seen: list[tuple[object, ...]] = []

    def noting(method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any) -> Any:
            seen.append(standing())
            return method(*given)

        return noted

    monkeypatch.setattr(LifecycleStage, "decide", noting(LifecycleStage.decide))
    monkeypatch.setattr(LifecycleStage, "load", noting(LifecycleStage.load))
    monkeypatch.setattr(LifecycleStage, "initial", noting(LifecycleStage.initial))
    signal.setitimer(signal.ITIMER_VIRTUAL, 1_000)
    try:
        before = standing()
        assert before[0] is before[4] is True
        for _ in range(2):
            with lahar.open(f"sqlite:{tmp_path / 'lahar.db'}") as log:
                log.apply(QUEUE, JOB)
                log.command("ml/train", "AbortJob")
        assert (len(seen) > 4, set(seen), standing()) == (True, {before}, before)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


FOR_EVER = """
import sys
import lahar
from engine.application.questions import Questions
from engine.lifecycle.stage import LifecycleStage

def decide(*_):
    while True:
        pass

LifecycleStage.decide = decide
with lahar.open(sys.argv[1], decide_limit=1) as log:
    log.ingest([{"kind": "Node", "metadata": {"name": "n1", "uid": "n-1"}}])
"""


def test_a_decision_without_end_ends_the_process(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'lahar.db'}"
    done = subprocess.run([sys.executable, "-c", FOR_EVER, url], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "cluster/0@0 is not decided after 1 s" in done.stderr) == (ENDED, True)
