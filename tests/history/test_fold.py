"""What was known at a moment, what was so at a moment, and the intervals that say both."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.events import inputs
from engine.events.actions import EffectRequested, TimerCancelled, TimerSet
from engine.events.attempts import AttemptChanged, AttemptEnded, AttemptLateFact
from engine.events.jobs import JobRevised
from engine.events.outcomes import JobParked, JobUnparked
from engine.events.times import SECOND
from engine.history.asof import ClusterAsOf, job_as_of
from engine.history.fold import fold, tracks
from engine.history.listing import Listing
from engine.history.summary import Summary
from statemachines.spec import JobSpec, Requests, TaskSpec


def at(events, seconds, by="time"):
    return job_as_of(events, seconds * SECOND, by)


def phases(view):
    """Every phase of a view: job, tasks, attempts."""
    found = {(): view.phase}
    found |= {(task.name,): task.phase for task in view.tasks.values()}
    return found | {key: attempt.phase for key, attempt in view.attempts.items()}


def relisted(story):
    """A job whose pod was first seen at 100, when it had long ended: all its phases were skipped."""
    told = story()
    told.opened(10, known=100)
    told.started(10, known=100)
    told.bound(20, known=100, inferred=True)
    told.running(30, known=100)
    told.ended(60, known=100)
    told.task_phase("main", "Completed", 60, known=100)
    told.job_phase("Completed", 60, known=100, inferred=True)
    return told.events


def test_nothing_was_so_before_the_job_opened(training):
    assert at(training.events, -1) is None
    assert fold([]) is None


def test_skipped_phases_were_so_though_nobody_knew(story):
    """By time the pod ran at 40; by recorded time nothing was known of the job then."""
    events = relisted(story)
    assert phases(at(events, 40)) == {(): "Pending", ("main",): "Pending", ("main", 0, 1): "Running"}
    assert at(events, 25).attempts["main", 0, 1].phase == "Bound"
    assert at(events, 40, "recordedtime") is None
    assert at(events, 100, "recordedtime").phase == "Completed"


def test_the_moment_itself_has_happened(training):
    assert at(training.events, 30).phase == "Running"
    assert job_as_of(training.events, 30 * SECOND - 1).phase == "Pending"


def test_times_of_an_attempt_are_kept(training):
    view = fold(training.events)
    lost, won = view.attempts["worker", 1, 1], view.attempts["worker", 1, 2]
    assert (lost.created, lost.bound, lost.running, lost.ended) == (0, 20 * SECOND, 30 * SECOND, 300 * SECOND)
    assert (lost.phase, lost.reason, lost.exit_code, lost.node) == ("Failed", "OomKilled", 137, "node-2")
    assert (won.phase, won.node) == ("Succeeded", "node-3")
    assert [attempt.name for attempt in view.current()] == ["ps[0]#1", "worker[0]#1", "worker[1]#2"]


def test_changes_that_are_no_phase(story):
    told = story()
    told.opened(0)
    told.started(0)
    told.running(1)
    told.add(
        AttemptChanged("main", 0, 1, reason="CrashLooping", reason_changed=True, restarts=3, disruption="EvictionByEvictionAPI"), 5
    )
    told.add(JobRevised(spec=JobSpec(queue="vip", tasks=(TaskSpec("main", 1), TaskSpec("ps", 2))), user="bob"), 6)
    timer = told.add(TimerSet("policy", 99 * SECOND, action="RestartJob", policy="spec.policies[0]"), 7)
    told.add(JobParked("broken"), 8)
    view = fold(told.events)
    attempt = view.attempts["main", 0, 1]
    assert (attempt.phase, attempt.reason, attempt.restarts, attempt.disruption) == (
        "Running",
        "CrashLooping",
        3,
        "EvictionByEvictionAPI",
    )
    assert (view.queue, view.user, view.tasks["ps"].replicas, view.parked) == ("vip", "bob", 2, "broken")
    assert view.timers[timer.id].due == 99 * SECOND
    told.add(TimerCancelled(timer.id), 9)
    told.add(JobUnparked(1), 9)
    assert (fold(told.events).timers, fold(told.events).parked) == ({}, None)


def test_an_object_that_is_gone_is_not_deleted_again(story):
    """Older releases asked for the deletion all the same."""
    told = story()
    told.opened(0)
    told.started(0)
    told.running(1)
    told.add(AttemptEnded("main", 0, 1, phase="Succeeded", previous="Running", exit_code=0, object="gone"), 3)
    told.add(EffectRequested("delete_pod", uid="u", task="main", index=0, attempt=1, cause="KilledByAction"), 4)
    assert fold(told.events).attempts["main", 0, 1].object == "gone"


def test_late_fact_stands_beside_the_closed_attempt(story):
    told = story()
    told.opened(0)
    told.started(0)
    told.running(1)
    told.ended(5, phase="Lost", reason="NodeLost", rank="inferred")
    told.add(AttemptLateFact("main", 0, 1, phase="Succeeded", exit_code=0, ended=4 * SECOND), 4, known=9)
    attempt = fold(told.events).attempts["main", 0, 1]
    assert (attempt.phase, attempt.reason, attempt.ended) == ("Lost", "NodeLost", 5 * SECOND)
    assert [(late.phase, late.ended, late.known) for late in attempt.late] == [("Succeeded", 4 * SECOND, 9 * SECOND)]


def test_document_is_json_with_written_names_and_times(training):
    document = fold(training.events).document()
    assert list(document["attempts"]) == ["ps[0]#1", "worker[0]#1", "worker[1]#1", "worker[1]#2"]
    assert document["attempts"]["worker[1]#1"]["ended"] == "1970-01-01T00:05:00.000000Z"
    assert document["tasks"]["ps"]["phase"] == "Completed"


def test_tracks_cover_all_levels_in_order(training):
    found = tracks(training.events)
    assert [(track.level, track.task, track.index, track.attempt) for track in found] == [
        ("job", None, None, None),
        ("task", "ps", None, None),
        ("replica", "ps", 0, 1),
        ("task", "worker", None, None),
        ("replica", "worker", 0, 1),
        ("replica", "worker", 1, 1),
        ("replica", "worker", 1, 2),
    ]
    assert [(i.phase, i.start // SECOND, i.end and i.end // SECOND) for i in found[5].intervals] == [
        ("Pending", 0, 20),
        ("Bound", 20, 30),
        ("Running", 30, 300),
        ("Failed", 300, None),
    ]


def test_job_first_seen_as_one_of_its_pods_is_as_old_as_the_oldest(story):
    """Pods come in any order; a wait is never negative and no pod ran before its job was there."""
    told = story()
    told.opened(30, {"main": 2})
    told.started(30, ("main", 0, 1))
    told.started(10, ("main", 1, 1), known=30)
    told.running(12, ("main", 1, 1), known=30)
    assert at(told.events, 9) is None
    view = at(told.events, 15)
    assert (view.submitted, view.since, view.tasks["main"].since) == (10 * SECOND,) * 3
    assert phases(view) == {(): "Pending", ("main",): "Pending", ("main", 1, 1): "Running"}
    cluster = ClusterAsOf(15 * SECOND)
    for event in told.events:
        cluster.add(event)
    assert cluster.document()["jobs_by_phase"] == {"Pending": 1}
    assert [track.intervals[0].start for track in tracks(told.events)] == [second * SECOND for second in (10, 10, 30, 10)]
    listing, summary = Listing(), Summary()
    for event in told.events:
        listing.add(event)
        summary.add(event)
    assert [line.submitted for line in listing.lines()] == [10 * SECOND]
    assert summary.result()["wait_seconds"]["max"] == 2


def test_phase_that_came_out_of_order_begins_where_the_one_before_does(story):
    """A job's end may be reported with a time before the phase that it ends was entered: no interval has a negative length."""
    told = story()
    told.opened(0)
    told.job_phase("Running", 50)
    told.job_phase("Completed", 40, known=60)
    job = tracks(told.events)[0]
    assert [(i.phase, i.start // SECOND) for i in job.intervals] == [("Pending", 0), ("Running", 50), ("Completed", 50)]
    assert at(told.events, 45).phase == "Pending"


@st.composite
def histories(draw):
    """A job with a few attempts, each observed some time after its phases, in any order of recording."""
    facts = []
    for index in range(draw(st.integers(1, 3))):
        times = sorted(draw(st.lists(st.integers(0, 60), min_size=4, max_size=4)))
        seen = [time + draw(st.integers(0, 40)) for time in times]
        steps = draw(st.integers(1, 4))
        known = 0
        for step in range(steps):
            known = max(known, seen[step])
            facts.append((known, index, step, times[step]))
    facts.sort(key=lambda fact: fact[0])
    return facts


STEPS = ("started", "bound", "running", "ended")


def build(story, facts, opened=0):
    told = story()
    told.opened(opened, {"main": 3}, known=0)
    for known, index, step, time in facts:
        getattr(told, STEPS[step])(time, ("main", index, 1), known=known)
        if step == 2:
            told.job_phase("Running", time, known=known)
    return told.events


@given(histories(), st.integers(0, 120), st.integers(0, 60))
def test_state_by_time_is_the_interval_at_that_time(story, facts, moment, opened):
    """At every level the fold of what had happened gives the phase of the interval that holds the moment."""
    events = build(story, facts, opened)
    view = at(events, moment)
    found = {
        tuple(part for part in (track.task, track.index, track.attempt) if part is not None): track.at(moment * SECOND)
        for track in tracks(events)
    }
    were = {key: interval.phase for key, interval in found.items() if interval is not None}
    assert (phases(view) if view is not None else {}) == were


@given(histories(), st.integers(0, 120))
def test_state_by_recorded_time_is_the_fold_of_the_prefix(story, facts, moment):
    events = build(story, facts)
    prefix = [event for event in events if event.recordedtime <= moment * SECOND]
    assert at(events, moment, "recordedtime") == fold(prefix)


@given(histories(), st.integers(0, 60))
def test_intervals_leave_no_gap(story, facts, opened):
    for track in tracks(build(story, facts, opened)):
        for before, after in zip(track.intervals, track.intervals[1:], strict=False):
            assert before.start <= before.end == after.start
        assert track.intervals[-1].end is None


def node(name, time, data=None):
    from engine.events import Event

    data = data or inputs.NodeObserved(name, cpu_milli=8000, gpu=8)
    return Event(f"{name}{time}", "s", data.TYPE, name, time * SECOND, time * SECOND, 0, name, "", "seren", data)


def cluster(moment, events, by="time"):
    fold = ClusterAsOf(moment * SECOND, by)
    for event in events:
        fold.add(event)
    return fold.document()


def test_cluster_at_a_moment(training, whole):
    facts = [
        node("node-1", 0),
        node("node-9", 0),
        node("node-9", 100, inputs.NodeDeleted("node-9")),
        node("vip", 0, inputs.ObjectApplied("Queue", "vip", {"weight": 3})),
    ]
    service = whole("s", 0, 0, 900, [Requests(cpu_milli=500)], kind="Other", queue="vip").events
    document = cluster(200, [*facts, *training.events, *service])
    assert document["jobs_by_phase"] == {"Running": 1}
    assert document["queues"]["research"]["allocated"] == {"cpu_milli": 0, "memory_bytes": 0, "gpu": 3}
    assert document["queues"]["vip"] == {
        "spec": {"weight": 3},
        "jobs_by_phase": {},
        "allocated": {"cpu_milli": 500, "memory_bytes": 0, "gpu": 0},
        "requested": {"cpu_milli": 0, "memory_bytes": 0, "gpu": 0},
    }
    assert set(document["nodes"]) == {"node-0", "node-1", "node-2"}
    assert document["nodes"]["node-1"]["allocated"]["gpu"] == 1
    assert document["nodes"]["node-2"]["capacity"] is None
    before = cluster(10, [*facts, *training.events])
    assert before["queues"]["research"]["requested"]["gpu"] == 3
    assert set(before["nodes"]) == {"node-1", "node-9"}


def test_cluster_by_recorded_time(story):
    events = relisted(story)
    assert cluster(50, events, "recordedtime")["jobs_by_phase"] == {}
    assert cluster(50, events)["jobs_by_phase"] == {"Pending": 1}
