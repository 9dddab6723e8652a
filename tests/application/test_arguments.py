"""Mistakes in calls of the library: each is one class of errors, with a sentence that shows what to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from inspect import Parameter, signature
from io import BytesIO, StringIO
from typing import Any

import pytest

import lahar
from engine.events.times import format_time, from_micros
from tests.application.test_client import JOB, QUEUE, pod

OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "name": "n", "uid": "o", "controller": True}
RING: dict[str, Any] = {}
RING["self"] = RING

Call = Callable[[Any], object]
"""Wrong calls: their arguments are of wrong types on purpose."""

MISTAKES: dict[str, tuple[Call, str]] = {
    "a list of manifests": (lambda log: log.submit([JOB]), "manifest must be a dict, not 'list' of 'dict'"),
    "a list of objects": (lambda log: log.apply([QUEUE]), "object 1 must be a dict, not 'list'"),
    "one object to ingest": (lambda log: log.ingest(pod("Running", 1)), r"write ingest\(\[object\]\)"),
    "an object without JSON": (lambda log: log.ingest([{"kind": {1}}]), "object 1 cannot be written as JSON: set"),
    "a list of prices": (lambda log: log.bills.check_prices([]), "book must be a dict, not 'list'"),
    "data as a list": (
        lambda log: log.raise_event("ml/train", "Checkpointed", [1]),
        "data must be a dict or None, not",
    ),
    "an action": (lambda log: log.command("ml/train", "AbrtJob"), "no action 'AbrtJob'; did you mean AbortJob?"),
    "a task of a job's end": (lambda log: log.command("ml/train", "AbortJob", task="worker"), "AbortJob is about no task"),
    "a notice of an abort": (
        lambda log: log.command("ml/train", "AbortJob", notice="n"),
        "AcknowledgeNotice and WithdrawNotice take",
    ),
    "a job": (lambda log: log.job("ml/trian"), "did you mean ml/train?"),
    "no job": (lambda log: log.command(None, "AbortJob"), "job must be a text, not 'NoneType'"),
    "a queue": (lambda log: log.close_queue("reserch"), "did you mean research?"),
    "a phase": (lambda log: log.jobs(lahar.Filter(phases={"Runing"})), "no job phase 'Runing'; did you mean Running?"),
    "a reason": (lambda log: log.jobs(lahar.Filter(reasons={"OomKiled"})), "no reason 'OomKiled'; did you mean OomKilled?"),
    "a level": (lambda log: list(log.subscribe(level="jobs")), "no level 'jobs'; did you mean job?"),
    "a type": (lambda log: list(log.subscribe(types=["job.opend"])), "did you mean job.opened?"),
    "a topic": (lambda log: log.subscribe(topic="budget"), "did you mean budgets?"),
    "a token": (lambda log: log.subscribe("yesterdy"), "not a subscription token"),
    "a moment": (lambda log: log.as_of("2026-…"), "is no time: write 2026-05-01"),
    "a number as a moment": (lambda log: log.as_of(5), "moment must be a datetime or a text, not 'int'"),
    "a day as a moment": (lambda log: log.as_of(date(2026, 5, 1)), "not 'date'"),
    "which time": (lambda log: log.as_of("now", by="recorded"), "did you mean recordedtime?"),
    "a quote until": (lambda log: log.bills.quote("tomorow"), "is no time"),
    "a window": (lambda log: log.what_if(begin="x"), "is no time"),
    "a month": (lambda log: log.bills.records(period="2026"), "is not a month"),
    "a format": (lambda log: log.bills.export("cvs", BytesIO()), "no format 'cvs'"),
    "a log": (lambda _: lahar.open("lahar.db"), "names no log; write sqlite:PATH"),
    "a setting": (lambda _: lahar.open("memory:", forget_after="x"), "forget_after"),
    "a text for a list of services": (lambda _: lahar.open("memory:", services="Notebook"), "services must be a list of texts"),
    "a text for a list of callbacks": (lambda _: lahar.open("memory:", callbacks="cbm"), "callbacks must be a list of texts"),
    "a list for a table": (lambda _: lahar.open("memory:", accelerators=[1]), "accelerators must be a dict of texts to"),
    "a module that there is not": (lambda _: lahar.open("memory:", callbacks=["no_such_module"]), "cannot be imported"),
    "a file that there is not": (lambda _: lahar.open("memory:", scheduler_config="no.yaml"), "no.yaml: No such file"),
    "a share of a GPU": (lambda _: lahar.open("memory:", accelerators={"a/b": "half"}), "accelerators: 'half' is no share"),
    "no action": (lambda log: log.command("ml/train", None), "action must be a text, not 'NoneType'"),
    "a number as a queue": (lambda log: log.open_queue(3), "name must be a text, not 'int'"),
    "a number among phases": (
        lambda _: lahar.Filter(phases=["Failed", 3]),
        "phases must be a text or a list of texts",
    ),
    "a number as phases": (lambda _: lahar.Filter(phases=3), "phases must be a text or a list of texts, not 'int'"),
    "a text that is no time": (lambda _: lahar.Filter(since="yesteday"), "'yesteday' is no time: write 2026-05-01"),
    "a day as a time": (
        lambda _: lahar.Filter(since=date(2026, 5, 1)),
        "since must be a whole number or a datetime or a text",
    ),
    "an empty queue": (lambda _: lahar.Filter(queue=""), "queue is empty: leave it out, or name one"),
    "an empty phase": (lambda _: lahar.Filter(phases=""), "no job phase ''"),
    "an empty reason": (lambda log: log.jobs(lahar.Filter(reasons=[""])), "no reason ''"),
    "an empty tenant": (lambda log: log.bills.records(tenant=""), "tenant is empty: leave it out, or name one"),
    "an empty cluster": (lambda log: log.summary(cluster=""), "cluster is empty: leave it out, or name one"),
    "an empty queue of events": (lambda log: log.subscribe(queue=""), "queue is empty: leave it out, or name one"),
    "a number in a filter": (lambda _: lahar.Filter(queue=3), "queue must be a text or None, not 'int'"),
    "a text as a filter": (lambda log: log.jobs("Failed"), "wanted must be a Filter or None, not 'str'"),
    "nothing to ingest": (lambda log: log.ingest(None), "objects must be a list of dicts, not 'NoneType'"),
    "a number as a replica": (lambda log: log.why("ml/train", 3), "replica must be a text or None, not 'int'"),
    "a number as types": (lambda log: log.subscribe(types=3), "types must be a text or a list of texts, not 'int'"),
    "a text as labels": (lambda log: log.subscribe(labels="x"), "labels must be a dict of texts to texts or None"),
    "a text that is neither time nor token": (lambda log: log.subscribe("yesteday"), "and 'yesteday' is no time"),
    "a number as a month": (lambda log: log.close_month(3), "period must be a text, not 'int'"),
    "a number as a tenant": (lambda log: log.bills.invoices(tenant=3), "tenant must be a text or None, not 'int'"),
    "a number as a job": (lambda log: log.bills.records(job=3), "job must be a text or None, not 'int'"),
    "a number as a notice": (lambda log: log.preemptions.notice(3), "name must be a text, not 'int'"),
    "a file of text": (lambda log: log.bills.export("csv", StringIO()), "stream must be a file open for bytes"),
    "no file": (lambda log: log.bills.export("csv", None), "stream must be a file open for bytes"),
    "a number as a file": (lambda log: log.what_if(scheduler=3), "scheduler must be a text or a Path or None, not 'int'"),
    "no log": (lambda _: lahar.open(None), "log must be a text, not 'NoneType'"),
    "a text as an index": (
        lambda log: log.command("ml/train", "RestartPod", task="worker", index="1"),
        "index must be a whole number or None, not 'str'",
    ),
    "a negative index": (
        lambda log: log.command("ml/train", "RestartPod", task="worker", index=-1),
        "^index: should be greater than or equal to 0$",
    ),
    "a number as a user": (lambda log: log.command("ml/train", "AbortJob", by=3), "by must be a text, not 'int'"),
    "a number as an id": (lambda log: log.submit(JOB, command=3), "command must be a text, not 'int'"),
    "no bool": (lambda log: log.summary(other=1), "other must be True or False, not 'int'"),
    "a manifest without JSON": (lambda log: log.submit({**JOB, "x": object()}), "the manifest cannot be written as JSON: object"),
    "an object of a ring": (lambda log: log.apply(RING), "object 1 cannot be written as JSON: Circular"),
    "data without JSON": (lambda log: log.raise_event("ml/train", "E", {"a": {1}}), "data cannot be written as JSON: set"),
    "half a character of a name": (lambda log: log.submit({**JOB, "metadata": {"name": "a\ud800"}}), "a text in it is no UTF-8"),
    "half a character": (lambda log: log.command("ml/train", "AbortJob", reason="\udc80"), "is no UTF-8 text"),
    "a live name": (lambda log: log.submit(JOB), "AlreadyExists: job ml/train is live"),
}


@pytest.fixture
def log() -> Iterator[lahar.Lahar]:
    with lahar.open("memory:") as opened:
        opened.apply(QUEUE, JOB)
        yield opened


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_class_of_errors(log: lahar.Lahar, mistake: str) -> None:
    call, sentence = MISTAKES[mistake]
    with pytest.raises(lahar.LaharError, match=sentence.replace("?", r"\?")):
        call(log)


def test_times_are_texts_as_on_the_command_line(log: lahar.Lahar) -> None:
    view = log.as_of("now", "ml/train")
    assert isinstance(view, lahar.JobView)
    assert view.phase == "Pending"
    assert log.as_of("2020-01-01", "ml/train") is None
    assert log.as_of(datetime(2020, 1, 1, tzinfo=UTC), "ml/train") is None
    assert [event.data.TYPE for event in log.subscribe("2 hours ago", types="job.opened")] == ["lahar.job.opened.v1"]
    assert list(log.subscribe("2099-01-01")) == []


def test_a_filter_takes_the_times_that_as_of_takes(log: lahar.Lahar) -> None:
    (job,) = log.jobs()
    for since in (job.since, from_micros(job.since), format_time(job.since), "2 hours ago", "yesterday 14:05"):
        assert [line.name for line in log.jobs(lahar.Filter(since=since))] == ["train"]
    for since in (job.since + 1, from_micros(job.since + 1), "+1h", "2099-01-01"):
        assert log.jobs(lahar.Filter(since=since)) == []


def test_a_filter_takes_one_name_or_several(log: lahar.Lahar) -> None:
    for phases in ("Pending", ["Pending", "Failed"], {"Pending"}):
        assert [line.name for line in log.jobs(lahar.Filter(phases=phases))] == ["train"]  # type: ignore[arg-type]  # as callers do
    assert log.jobs(lahar.Filter(name="train")) == log.jobs()
    assert log.jobs(lahar.Filter(name="other")) == []


def test_objects_of_a_yaml_reader_have_times(log: lahar.Lahar) -> None:
    given = pod("Running", 1)
    given["metadata"] = {**pod("Running", 1)["metadata"], "creationTimestamp": datetime(2026, 3, 1, 12, tzinfo=UTC)}  # type: ignore[dict-item]  # a dict
    assert log.ingest([given]).taken == 1
    assert log.ingest([pod("Running", 1)]).taken == 1
    assert len([line for line in log.jobs(lahar.Filter(other=True)) if line.name == "web"]) == 1


def test_a_repeated_id_has_the_first_outcome(log: lahar.Lahar) -> None:
    wrong = {**JOB, "metadata": {"name": "other", "namespace": "ml"}, "spec": {**JOB["spec"], "minAvailable": -1}}
    first = log.submit(wrong, command="c")
    again = log.submit({**wrong, "spec": JOB["spec"]}, command="c")
    assert (first.outcome, first.repeated, again.outcome, again.repeated) == ("rejected", False, "rejected", True)
    assert again.faults == first.faults
    assert "needs a new id" in again.warnings[0]
    assert [line.name for line in log.jobs()] == ["train"]


def test_another_job_of_a_live_name_is_asked_for(log: lahar.Lahar) -> None:
    assert log.submit(JOB, allow_same_name=True).outcome == log.submit(JOB, command="c").outcome == "applied"
    assert len(log.jobs()) == 3


def test_settings_of_a_program_are_used_as_given() -> None:
    for services in (["Notebook"], ("Notebook",), {"Notebook"}):
        with lahar.open("memory:", services=services) as log:  # type: ignore[arg-type]  # as callers do
            notebook = pod("Running", 1)
            notebook["metadata"] = {**notebook["metadata"], "ownerReferences": [OWNER]}  # type: ignore[dict-item]  # a dict
            assert log.ingest([notebook]).taken == 1
            assert [line.kind for line in log.jobs(lahar.Filter(other=True))] == ["Other"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cls", [lahar.Lahar, lahar.Bills, lahar.Preemptions, lahar.Scheduling])
def test_every_public_method_checks_the_types_of_its_arguments(log: lahar.Lahar, cls: type) -> None:
    """The type of the first argument is wrong: whatever the method, the error names it."""
    of = {lahar.Lahar: log, lahar.Bills: log.bills, lahar.Preemptions: log.preemptions, lahar.Scheduling: log.scheduling}[cls]
    for name, method in vars(cls).items():
        if name.startswith("_") or not callable(method):
            continue
        taken = [one for one in signature(method).parameters.values() if one.name != "self"]
        if taken and taken[0].kind is not Parameter.VAR_POSITIONAL:
            with pytest.raises(lahar.RequestError, match=f"^{taken[0].name} must be "):
                getattr(of, name)(**{one.name: NotImplemented for one in taken if one is taken[0] or one.default is one.empty})
