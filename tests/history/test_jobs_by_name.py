"""The list of jobs, and which job a command means."""

from __future__ import annotations

import pytest

from engine.events.jobs import JobParked, JobRevised
from engine.history.errors import AmbiguousError, NotFoundError
from engine.history.listing import LISTED, Filter, Listing
from engine.history.reading import find_event, job_events
from engine.history.resolve import resolve, resolve_among
from statemachines.spec import JobSpec, Requests


@pytest.fixture
def jobs(story, whole):
    one = [Requests(gpu=1)]
    stories = [
        whole("aa11", 20, 1, 5, one, name="bert", user="ann", queue="vip", tenant="lab"),
        whole("aa22", 10, 1, 5, one, name="bert", user="bob", phase="Failed", end=("Failed", "AppFailed")),
        whole("bb33", 30, 1, 5, one, name="proxy", kind="Other"),
    ]
    waiting = story("cc44")
    waiting.opened(40, name="gpt", namespace="lab")
    waiting.started(40)
    waiting.add(JobRevised(user="eve", spec=JobSpec(queue="night")), 41)
    waiting.add(JobParked("x"), 42)
    return [event for told in [*stories, waiting] for event in told.events]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (Filter(), ["aa22", "aa11", "cc44"]),
        (Filter(other=True), ["aa22", "aa11", "bb33", "cc44"]),
        (Filter(queue="vip"), ["aa11"]),
        (Filter(phase="Failed"), ["aa22"]),
        (Filter(user="eve"), ["cc44"]),
        (Filter(tenant="lab"), ["aa11"]),
        (Filter(queue="night", phase="Pending"), ["cc44"]),
        (Filter(user="nobody"), []),
    ],
)
def test_filters(jobs, wanted, ids):
    listing = Listing()
    for event in jobs:
        listing.add(event)
    assert [line.id for line in listing.lines(wanted)] == ids


def test_line_of_a_job(jobs):
    listing = Listing()
    for event in jobs:
        if event.type in LISTED:
            listing.add(event)
    first, *_, last = [line.document() for line in listing.lines()]
    assert (first["phase"], first["attempts"], first["live"]) == ("Failed", 1, 0)
    assert (first["submitted"], first["started"], first["ended"]) == tuple(f"1970-01-01T00:00:{s}.000000Z" for s in (10, 11, 16))
    assert (last["live"], last["ended"], last["parked"], last["queue"]) == (1, None, True, "night")


@pytest.mark.parametrize(
    ("given", "job"),
    [
        ("aa11", "aa11"),
        ("aa1", "aa11"),
        ("c", "cc44"),
        ("default/bert", "aa11"),
        ("default/bert@aa22", "aa22"),
        ("default/bert@aa2", "aa22"),
        ("lab/gpt", "cc44"),
    ],
)
def test_a_job_is_meant_by_id_prefix_or_name(jobs, given, job):
    """The newest of a name is the one submitted last, not the one that the log holds last."""
    assert resolve_among(jobs, given) == job


def test_ambiguous_prefix_names_the_matches(jobs):
    with pytest.raises(AmbiguousError, match="'aa' means 2 jobs: aa11, aa22; give more of the id") as error:
        resolve_among(jobs, "aa")
    assert error.value.matches == ["aa11", "aa22"]


@pytest.mark.parametrize("given", ["zz", "", "default/none", "default/bert@cc", "bert"])
def test_no_such_job(jobs, given):
    with pytest.raises(NotFoundError, match="lahar job list"):
        resolve_among(jobs, given)


def test_renamed_job_is_found_by_its_new_name(story):
    told = story("dd")
    told.opened(0, name="pod-1")
    told.add(JobRevised(name="bert", namespace="ml"))
    assert resolve_among(told.events, "ml/bert") == "dd"
    with pytest.raises(NotFoundError):
        resolve_among(told.events, "default/pod-1")


def test_jobs_and_events_of_a_log(played):
    log = played()
    events = list(job_events(log))
    assert resolve(log, "default/philly-1") == next(e.subject for e in events if getattr(e.data, "name", "") == "philly-1")
    assert find_event(log, events[7].id) == events[7]
    assert find_event(log, events[7].id[:12]) == events[7]
    with pytest.raises(NotFoundError, match="no event 'nothing'"):
        find_event(log, "nothing")
    with pytest.raises(AmbiguousError, match=r"means \d+ events"):
        find_event(log, events[7].id[:1])
