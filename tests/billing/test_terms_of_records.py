"""Whom a record bills, and in which queue: what is known of the job at the time of its use."""

from __future__ import annotations

import pytest
from bill_story import Story

from engine.events.jobs import JobOpened, JobRevised
from statemachines.spec import JobSpec

HOUR = 3600
PREEMPTIBLE = {"volcano.sh/preemptable": "true"}
OPENED = JobOpened(
    "VCJob",
    "train",
    managed=False,
    spec=JobSpec(queue="research", priority_class="high"),
    namespace="vision",
    tenant="lab",
    project="faces",
    user="ann",
    labels={"b": "2", "a": "1"},
)
FIRST = {
    "tenant": "lab",
    "project": "faces",
    "queue": "research",
    "user": "ann",
    "namespace": "vision",
    "job_kind": "VCJob",
    "job_name": "train",
    "labels": {"a": "1", "b": "2"},
    "priority_class": "high",
    "preemptible": False,
}


def terms(story):
    """Of each record, in the order of its use: when it begins (hours), and its terms."""
    records = sorted(story.records(), key=lambda record: record.start)
    began = records[0].start
    return [((record.start - began) / HOUR / 1e6, {name: getattr(record.run, name) for name in FIRST}) for record in records]


@pytest.fixture
def story():
    """A job runs for two hours, from noon on."""
    told = Story()
    told.say("job-events", OPENED, "j", 0)
    told.start("j", 0, 0)
    told.run("j", 0, 0)
    return told


def test_records_bear_the_terms_of_their_job(story):
    story.end("j", 0, 2 * HOUR)
    assert terms(story) == [(0, FIRST), (1, FIRST)]


def test_a_job_without_a_tenant_is_billed_to_its_namespace():
    story = Story()
    story.say("job-events", JobOpened("VCJob", "train", managed=False, spec=JobSpec(), namespace="vision"), "j", 0)
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, HOUR)
    assert [record.run.tenant for record in story.records()] == ["vision"]


def test_terms_that_change_hold_from_then_on(story):
    spec = JobSpec(queue="batch", priority_class="low")
    revised = JobRevised(spec, "Job", "train-2", "other", "shop", "carts", "bob", PREEMPTIBLE)
    story.say("job-events", revised, "j", HOUR / 2)
    story.end("j", 0, 2 * HOUR)
    later = {
        "tenant": "shop",
        "project": "carts",
        "queue": "batch",
        "user": "bob",
        "namespace": "other",
        "job_kind": "Job",
        "job_name": "train-2",
        "labels": PREEMPTIBLE,
        "priority_class": "low",
        "preemptible": True,
    }
    assert terms(story) == [(0, FIRST), (0.5, later), (1, later)]


def test_terms_of_a_pods_owner_hold_from_the_start_and_changes_from_then(story):
    """The owner's first labels hold from the start of the job, later ones from their own time."""
    story.say("job-events", JobRevised(tenant="shop", owner=True), "j", HOUR / 2)
    story.say("job-events", JobRevised(tenant="mint", owner=True), "j", HOUR)
    story.end("j", 0, 2 * HOUR)
    assert terms(story) == [(0, FIRST | {"tenant": "shop"}), (1, FIRST | {"tenant": "mint"})]


def test_later_terms_of_a_job_opened_by_its_owner_hold_from_then():
    story = Story()
    story.say("job-events", JobOpened("Job", "j", managed=False, spec=JobSpec(), tenant="lab", owner=True), "j", 0)
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.say("job-events", JobRevised(tenant="shop", owner=True), "j", HOUR)
    story.end("j", 0, 2 * HOUR)
    assert [record.run.tenant for record in story.records()] == ["lab", "shop"]
