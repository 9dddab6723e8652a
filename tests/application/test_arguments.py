"""Mistakes in calls of the library: each is one class of errors, with a sentence that shows what to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from io import BytesIO
from typing import Any

import pytest

import lahar
from tests.application.test_client import JOB, QUEUE, pod

OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "name": "n", "uid": "o", "controller": True}

Call = Callable[[Any], object]
"""Wrong calls: their arguments are of wrong types on purpose."""

MISTAKES: dict[str, tuple[Call, str]] = {
    "a list of manifests": (lambda log: log.submit([JOB]), "the manifest must be one decoded object (a dict), not 'list'"),
    "a list of objects": (lambda log: log.apply([QUEUE]), "object 1 must be one decoded object"),
    "one object to ingest": (lambda log: log.ingest(pod("Running", 1)), r"write ingest\(\[object\]\)"),
    "an object without JSON": (lambda log: log.ingest([{"kind": {1}}]), "object 1 cannot be written as JSON: set"),
    "a list of prices": (lambda log: log.bills.check_prices([]), "the price book must be one decoded object"),
    "data as a list": (lambda log: log.raise_event("ml/train", "Checkpointed", [1]), "data must be one decoded object"),
    "an action": (lambda log: log.command("ml/train", "AbrtJob"), "no action 'AbrtJob'; did you mean AbortJob?"),
    "a task of a job's end": (lambda log: log.command("ml/train", "AbortJob", task="worker"), "AbortJob is about no task"),
    "a notice of an abort": (
        lambda log: log.command("ml/train", "AbortJob", notice="n"),
        "AcknowledgeNotice and WithdrawNotice take",
    ),
    "a job": (lambda log: log.job("ml/trian"), "did you mean ml/train?"),
    "no job": (lambda log: log.command(None, "AbortJob"), "a job is meant by its id or namespace/name"),
    "a queue": (lambda log: log.close_queue("reserch"), "did you mean research?"),
    "a phase": (lambda log: log.jobs(lahar.Filter(phases={"Runing"})), "no job phase 'Runing'; did you mean Running?"),
    "a reason": (lambda log: log.jobs(lahar.Filter(reasons={"OomKiled"})), "no reason 'OomKiled'; did you mean OomKilled?"),
    "a level": (lambda log: list(log.subscribe(level="jobs")), "no level 'jobs'; did you mean job?"),
    "a type": (lambda log: list(log.subscribe(types=["job.opend"])), "did you mean job.opened?"),
    "a topic": (lambda log: log.subscribe(topic="budget"), "did you mean budgets?"),
    "a token": (lambda log: log.subscribe("yesterdy"), "not a subscription token"),
    "a moment": (lambda log: log.as_of("2026-…"), "is no time: write 2026-05-01"),
    "a number as a moment": (lambda log: log.as_of(5), "a moment is a datetime or a text"),
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
    with pytest.raises(lahar.LaharError, match=sentence.replace("(a dict)", r"\(a dict\)").replace("?", r"\?")):
        call(log)


def test_times_are_texts_as_on_the_command_line(log: lahar.Lahar) -> None:
    view = log.as_of("now", "ml/train")
    assert isinstance(view, lahar.JobView)
    assert view.phase == "Pending"
    assert log.as_of("2020-01-01", "ml/train") is None
    assert log.as_of(datetime(2020, 1, 1, tzinfo=UTC), "ml/train") is None
    assert [event.data.TYPE for event in log.subscribe("2 hours ago", types="job.opened")] == ["lahar.job.opened.v1"]
    assert list(log.subscribe("2099-01-01")) == []


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
