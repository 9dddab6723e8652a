"""What records a fact is no cause of it: an observation later than the fact, or a timer that ends a wait."""

from __future__ import annotations

from engine.events import Event
from engine.events.actions import TimerFired, TimerSet
from engine.events.attempts import AttemptChanged
from engine.events.inputs import PodObserved
from engine.events.times import SECOND
from engine.history.reading import JobHistory
from engine.history.why import why_event, why_job


def at(seconds: int) -> str:
    return f"1970-01-01 00:00:{seconds:02}Z"


def test_an_observation_that_came_later_is_told_in_a_sentence_of_its_own(story):
    told = story()
    told.opened(0, managed=True)
    told.started(0)
    began = told.running(5, cause="seen")
    told.job_phase("Running", 5, cause=began.id)
    pod = PodObserved("u", told.job, "train-0", "Running", 0)
    seen = Event("seen", "t", pod.TYPE, told.job, 30 * SECOND, 30 * SECOND, 0, told.job, "", "c", pod)
    answer = why_job(JobHistory(told.events, {"seen": seen}))
    assert answer.sentences()[-2:] == [
        f"The job went from Pending to Running at {at(5)}, because main[0] attempt 1 began to run at {at(5)}.",
        f"Recorded when pod train-0 was seen Running at {at(30)}.",
    ]
    said = answer.document()
    assert ([step["id"] for step in said["causes"]], [step["id"] for step in said["recorded"]]) == (
        [told.events[-1].id, began.id],
        ["seen"],
    )


def test_a_pod_that_a_timer_gave_up_had_ended_before(story):
    told = story()
    told.opened(0, managed=True)
    told.started(0)
    told.running(1)
    waits = told.add(TimerSet("lost", 40 * SECOND), 20)
    fired = told.add(TimerFired(waits.id), 40, cause=waits.id)
    ended = told.ended(10, phase="Lost", reason="EndUnknown", inferred=True, cause=fired.id)
    assert why_event(JobHistory(told.events), ended).sentences()[-1] == (
        f"Recorded when a timer fired at {at(40)}, "
        f"because the wait for pods that are no longer seen was set at {at(20)} to end at {at(40)}."
    )


def test_effects_earlier_than_the_event_did_not_follow_from_it(story):
    """Histories of earlier releases hold such effects."""
    told = story()
    told.opened(0, managed=True)
    told.started(0)
    news = told.add(AttemptChanged("main", 0, 1, restarts=1), 30)
    told.job_phase("Running", 5, cause=news.id, known=30)
    told.job_phase("Aborting", 30, cause=news.id)
    assert why_event(JobHistory(told.events), news).details == [
        f"From this followed: the job went from Running to Aborting at {at(30)}.",
        f"With it was recorded: the job went from Pending to Running at {at(5)}.",
    ]
