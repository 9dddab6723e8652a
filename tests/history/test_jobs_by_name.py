"""The list of jobs, and which job a command means."""

from __future__ import annotations

import json

import pytest

from engine.events import Event, encode, to_cloudevent
from engine.events.attempts import AttemptChanged
from engine.events.bounds import NAME_CHARACTERS
from engine.events.inputs import CommandIssued, JobObserved, JobSubmitted, PodDeleted, PodObserved
from engine.events.jobs import JobRevised
from engine.events.outcomes import InputParked, InputReleased, JobParked, JobUnparked
from engine.history.errors import AmbiguousError, NotFoundError
from engine.history.job_reference import _Names, resolve, resolve_among, resolve_known
from engine.history.listing import LISTED, Filter, Listing
from engine.history.reading import find_event, job_events
from engine.history.summary import Summary
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
    waiting.bound(40, node="node-1", reason="Pulling")
    waiting.add(JobRevised(user="eve", spec=JobSpec(queue="night")), 41)
    waiting.add(JobParked("x"), 42)
    return [event for told in [*stories, waiting] for event in told.events]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (Filter(), ["aa22", "aa11", "cc44"]),
        (Filter(other=True), ["aa22", "aa11", "bb33", "cc44"]),
        (Filter(queue="vip"), ["aa11"]),
        (Filter(phases=frozenset({"Failed", "Aborted"})), ["aa22"]),
        (Filter(user="eve"), ["cc44"]),
        (Filter(tenant="lab"), ["aa11"]),
        (Filter(queue="night", phases=frozenset({"Pending"})), ["cc44"]),
        (Filter(user="nobody"), []),
        (Filter(namespace="lab"), ["cc44"]),
        (Filter(node="node-1"), ["cc44"]),
        (Filter(node="node-2"), []),
        (Filter(reasons=frozenset({"AppFailed", "NodeLost"})), ["aa22"]),
        (Filter(reasons=frozenset({"Pulling"})), ["cc44"]),
        (Filter(since=26_000_000), ["aa11", "cc44"]),
        (Filter(since=26_000_001), ["cc44"]),
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


def test_a_job_that_runs_shows_what_it_has_used_so_far(story, whole):
    """Up to the latest time of the log; a finished one shows none, and one that waits none."""
    told = story("aa")
    told.opened(0)
    for index in range(2):
        told.started(0, ("main", index, 1), Requests(gpu=2, cpu_milli=500))
        told.running(10, ("main", index, 1))
    told.ended(12, ("main", 1, 1))
    told.add(AttemptChanged("main", 0, 1, requests=Requests(gpu=1)), 20)
    waiting = story("cc")
    waiting.opened(40)
    waiting.started(40)
    listing, summed = Listing(), Summary()
    for event in [*told.events, *whole("bb", 0, 1, 5, [Requests(gpu=1)]).events, *waiting.events]:
        listing.add(event)
        summed.add(event)
    documents = {line.id: line.document() for line in listing.lines()}
    assert {job: (line["run_seconds_so_far"], line["gpu_seconds_so_far"]) for job, line in documents.items()} == {
        "aa": (30, 40),
        "bb": (None, 0),
        "cc": (None, 0),
    }
    assert (documents["aa"]["cpu_seconds_so_far"], documents["aa"]["gpu_share_seconds_so_far"]) == (5, 40)
    assert summed.result()["gpu_seconds_so_far"] == 40, "of one arithmetic"


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
        ("gpt", "cc44"),
        ("bert", "aa11"),
        ("bert@aa2", "aa22"),
    ],
)
def test_a_job_is_meant_by_id_prefix_or_name(jobs, given, job):
    """The newest of a name is the one submitted last, not the one that the log holds last."""
    assert resolve_among(jobs, given) == job


def test_ambiguous_prefix_names_the_matches(jobs):
    with pytest.raises(AmbiguousError, match="'aa' matches 2 jobs: aa11, aa22; give more of the id") as error:
        resolve_among(jobs, "aa")
    assert error.value.matches == ["aa11", "aa22"]


@pytest.mark.parametrize("given", ["zz", "", "default/none", "default/bert@cc", "ber", "bert@cc", "@aa11", "gpt/"])
def test_no_such_job(jobs, given):
    with pytest.raises(NotFoundError, match="lahar job list"):
        resolve_among(jobs, given)


def test_a_bare_name_of_two_namespaces_is_not_guessed(story):
    told, other = story("aa11"), story("bb22")
    told.opened(0, name="train", namespace="ml")
    other.opened(1, name="train", namespace="tenant-evil")
    with pytest.raises(AmbiguousError, match="'train' matches 2 jobs: ml/train, tenant-evil/train; give the namespace"):
        resolve_among([*told.events, *other.events], "train")
    assert resolve_among([*told.events, *other.events], "ml/train") == "aa11"


def test_a_name_that_begins_another_jobs_id_means_neither(story):
    """Who chooses a name must not choose which job somebody else's prefix means; an id is always the job's own."""
    told, other = story("aa11"), story("bb22")
    told.opened(0, name="train", namespace="ml")
    other.opened(1, name="aa1", namespace="tenant-evil")
    events = [*told.events, *other.events]
    with pytest.raises(AmbiguousError, match="'aa1' matches 2 jobs: aa11, bb22; give more of the id"):
        resolve_among(events, "aa1")
    assert (resolve_among(events, "aa11"), resolve_among(events, "tenant-evil/aa1")) == ("aa11", "bb22")


@pytest.mark.parametrize(("given", "job"), [("x/" * 40_000, None), ("lab/" + "/" * NAME_CHARACTERS, "j1")])
def test_of_what_is_given_no_more_is_looked_up_than_names_may_have_slashes(story, given, job):
    """Each slash may be where a name begins: what is looked up for all would be a text of gigabytes."""

    class Asked(_Names):
        def named(self, names):
            assert len(names) <= NAME_CHARACTERS + 1
            return super().named(names)

    known = Asked()
    told = story("j1")
    told.opened(10, name="/" * NAME_CHARACTERS, namespace="lab")
    for event in told.events:
        known.add(event)
    if job is None:
        with pytest.raises(NotFoundError):
            resolve_known(known, given)
    else:
        assert resolve_known(known, given) == job


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
    with pytest.raises(AmbiguousError, match=r"matches \d+ events"):
        find_event(log, events[7].id[:1])


# --- jobs whose first input is parked ------------------------------------------------------------------------------------------


def held(data, ident="first", subject="ee"):
    return json.loads(to_cloudevent(encode(Event(ident, "test", data.TYPE, subject, 0, 0, 0, subject, "", "seren", data))))


MANIFEST = {"kind": "Job", "metadata": {"name": "late", "namespace": "lab", "labels": {"lahar/tenant": "chem"}}, "spec": {}}
FIRST = [
    (JobSubmitted(MANIFEST), "lab/late"),
    (JobSubmitted({"metadata": 5}), None),
    (JobObserved("late", "Job", "lab"), "lab/late"),
    (PodObserved("u", "ee", "late-0", "Running", 0, "lab", owner="late"), "lab/late"),
    (PodDeleted(PodObserved("u", "ee", "late-0", "Running", 0, "lab")), "lab/late-0"),
    (CommandIssued("AbortJob"), None),
]


@pytest.mark.parametrize(("data", "name"), FIRST, ids=lambda value: getattr(value, "TYPE", value))
def test_a_job_whose_first_input_is_parked_is_found_by_its_name(story, data, name):
    told = story("ee")
    told.add(JobParked("broken"), 1)
    told.add(InputParked(held(data)), 1)
    told.add(InputParked(held(CommandIssued("AbortJob"), "second")), 2)
    assert resolve_among(told.events, "ee") == "ee"
    listing = Listing()
    for event in told.events:
        listing.add(event)
    named = [f"{line.namespace}/{line.name}" for line in listing.lines(Filter(other=True)) if line.parked]
    if name is None:
        assert [one for one in named if one.startswith("lab/")] == []
        return
    assert named == [name]
    assert resolve_among(told.events, name) == resolve_among(told.events, f"{told.events[0].clusterid}/{name}") == "ee"
    told.add(JobUnparked(2), 3)
    listing.add(told.events[-1])
    assert listing.lines(Filter(other=True)) != [], "nothing is released yet"
    for ident in ("first", "second"):
        told.add(InputReleased(ident, "parked", "rejected"), 3)
        listing.add(told.events[-1])
    assert listing.lines(Filter(other=True)) == [], "nothing but what it leads to says what it is"


def test_a_job_that_was_opened_comes_before_one_that_was_to_have_its_name(story, whole):
    told = story("ee")
    told.add(JobParked("broken"), 99)
    told.add(InputParked(held(JobSubmitted(MANIFEST))), 99)
    opened = whole("aa", 20, 1, 5, [Requests(gpu=1)], name="late", namespace="lab")
    assert resolve_among([*opened.events, *told.events], "lab/late") == "aa"
    assert resolve_among([*told.events, *opened.events], "lab/late") == "aa"


def test_a_job_that_is_opened_when_it_is_released_is_a_job_as_any_other(story):
    told = story("ee")
    told.add(JobParked("broken"), 1)
    told.add(InputParked(held(JobSubmitted(MANIFEST))), 1)
    told.add(JobUnparked(1), 2)
    told.opened(3, name="late", namespace="lab")
    listing = Listing()
    for event in told.events:
        listing.add(event)
    assert [(line.name, line.parked, line.opened) for line in listing.lines()] == [("late", False, True)]


def test_a_job_that_is_parked_anew_has_the_name_that_its_input_says_then(story):
    """What was released before has led to nothing."""
    told = story("ee")
    told.add(JobParked("broken"), 1)
    told.add(InputParked(held(JobSubmitted(MANIFEST))), 1)
    told.add(JobUnparked(1), 2)
    told.add(InputReleased("first", "parked", "rejected"), 2)
    with pytest.raises(NotFoundError):
        resolve_among(told.events, "lab/late")
    told.add(JobParked("broken"), 3)
    told.add(InputParked(held(JobObserved("gpt", "Job", "lab"))), 3)
    assert resolve_among(told.events, "lab/gpt") == "ee"
    listing = Listing()
    for event in told.events:
        listing.add(event)
    assert [(line.name, line.parked) for line in listing.lines()] == [("gpt", True)]


def test_a_job_that_is_parked_again_before_all_is_released_keeps_its_name(story):
    told, listing = story("ee"), Listing()
    told.add(JobParked("broken"), 1)
    told.add(InputParked(held(CommandIssued("AbortJob"))), 1)
    told.add(InputParked(held(JobSubmitted(MANIFEST), "second")), 1)
    told.add(JobUnparked(2), 2)
    told.add(InputReleased("first", "parked", "refused"), 2)
    told.add(JobParked("broken again"), 3)
    for event in told.events:
        listing.add(event)
    assert resolve_among(told.events, "lab/late") == "ee"
    assert [(line.name, line.parked) for line in listing.lines()] == [("late", True)]


def test_what_is_held_while_others_are_released_parks_nothing(story):
    told = story("ee")
    told.add(InputParked(held(JobSubmitted(MANIFEST))), 1)
    listing = Listing()
    listing.add(told.events[0])
    assert listing.lines() == []
    with pytest.raises(NotFoundError):
        resolve_among(told.events, "lab/late")


def test_of_two_jobs_of_a_name_the_parked_one_is_meant_by_its_id(story, whole):
    told = story("ee")
    told.add(JobParked("broken"), 99)
    told.add(InputParked(held(JobSubmitted(MANIFEST))), 99)
    opened = whole("aa", 20, 1, 5, [Requests(gpu=1)], name="late", namespace="lab")
    assert resolve_among([*opened.events, *told.events], "lab/late@ee") == "ee"
