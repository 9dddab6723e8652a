"""Inputs that wait, jobs that are parked, jobs that are forgotten, and what everything else is counted as."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import pytest
from lifecycle_driver import SECOND, START, Driver, pod, records, vcjob

from engine.events.actions import ActionTaken, EffectSettled, TimerCancelled, TimerFired, TimerSet
from engine.events.attempts import AttemptStarted
from engine.events.inputs import CommandIssued, EffectReported, JobObserved, RowUnreadable
from engine.events.jobs import JobForgotten, JobOpened
from engine.events.outcomes import (
    Anomaly,
    CommandRefused,
    InputOrphaned,
    InputParked,
    InputReleased,
    JobParked,
    JobUnparked,
    RowRejected,
)
from engine.history.fold import fold
from engine.lifecycle import inputs
from engine.lifecycle.errors import InvariantError
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.steps import PACE

DAY = 86_400


@pytest.fixture
def driver():
    return Driver()


# --- pods before their job --------------------------------------------------------------------------------


def early(version=1, phase="Running", uid="u", **fields):
    fields = {"node": "n", "bound": 1, "running": 2} | fields
    return pod(uid, "j1", version, phase, name="train-w-0", task="w", index=0, attempt=1, managed=True, kind="VCJob", **fields)


def test_a_pod_that_names_an_unknown_managed_job_waits_for_it(driver):
    made = driver.see(early())
    assert driver.outcome == "waiting"
    assert [type(event.data) for event in made] == [InputOrphaned, TimerSet]
    assert driver.of(TimerSet)[0].due == START + 60 * SECOND
    assert not driver.job().opened


def test_the_job_takes_in_the_pods_that_waited_for_it_in_order(driver):
    driver.see(early(1))
    driver.see(early(2, "Succeeded", ended=9))
    driver.crash()
    driver.wait(10)
    made = driver.submit(vcjob({"name": "w"}))
    assert [(one.kept, one.outcome) for one in driver.of(InputReleased, made)] == [("waiting", "applied")] * 2
    assert len(driver.of(TimerCancelled)) == 1
    assert driver.path() == ["Running", "Completed"]
    assert (driver.job().waiting, driver.job().timers) == ({}, {})
    submission = made[0].causationid
    assert {event.causationid for event in made if isinstance(event.data, InputReleased)} == {submission}
    driver.see(early(1))
    assert driver.outcome == "duplicate"


def own_job(driver):
    """Id of the job that a pod has become that nothing but an annotation gave to a job."""
    (opened,) = (event for event in driver.events if isinstance(event.data, JobOpened) and event.subject != "j1")
    assert not opened.data.managed
    return opened.subject


def test_after_the_wait_the_pods_become_an_observed_job_of_their_own(driver):
    driver.see(early(1))
    driver.wait(5)
    driver.see(early(2, "Running", reason="CrashLooping", restarts=1))
    driver.crash()
    made = driver.wait(55)
    assert isinstance(made[0].data, TimerFired)
    assert [one.outcome for one in driver.of(InputReleased)] == ["applied", "applied"]
    assert driver.phase(own_job(driver)) == "Running"
    assert not driver.job().opened


def test_who_claimed_a_job_in_vain_is_not_taken_in_by_it_later(driver):
    driver.see(early(1))
    driver.wait(60)
    own = own_job(driver)
    driver.submit(vcjob({"name": "w"}))
    assert driver.outcome == "applied"
    driver.see(early(2, "Failed", reason="AppFailed", exit_code=1, ended=9))
    assert (driver.phase(), driver.phase(own)) == ("Pending", "Failed")


def test_after_the_wait_an_owners_pods_become_its_observed_job(driver):
    driver.see(early(1, owner="train"))
    driver.see(early(1, uid="v", owner="train"))
    driver.wait(60)
    assert len(driver.of(AttemptStarted)) == 2
    assert driver.phase() == "Running"
    driver.submit(vcjob({"name": "w"}))
    assert driver.outcome == "refused"


def test_a_job_object_takes_in_the_pods_that_waited(driver):
    driver.see(early())
    driver.owner(JobObserved("train", "VCJob", version="5", phase="Running"))
    assert len(driver.of(InputReleased)) == 1
    assert driver.phase() == "Running"
    driver.wait(100)
    assert len(driver.of(JobOpened)) == 1


def test_a_pod_that_opens_the_job_takes_in_those_that_waited(driver):
    driver.see(early())
    driver.see(pod("other", "j1", 7, "Running", node="n", running=1))
    assert len(driver.of(AttemptStarted)) == 2
    driver.wait(100)
    assert len(driver.of(JobOpened)) == 1
    assert not driver.job().waiting


def test_a_rejected_job_leaves_its_pods_waiting(driver):
    driver.see(early())
    driver.submit(vcjob({"name": "w", "minAvailable": 9}))
    assert driver.outcome == "rejected"
    assert len(driver.job().waiting) == 1
    driver.submit(vcjob({"name": "w"}))
    assert driver.phase() == "Running"


def test_a_deletion_waits_like_any_observation(driver):
    driver.see(early(1))
    driver.gone(early(2, "Failed", reason="DeletedByApi"))
    driver.wait(60)
    assert driver.phase(own_job(driver)) == "Failed"


def test_pods_that_carry_no_job_of_ours_wait_for_nothing(driver):
    driver.see(pod("u", "j1", 1, "Running", node="n", running=2))
    assert driver.outcome == "applied"


# --- parked jobs --------------------------------------------------------------------------------


class Faulty(LifecycleStage):
    """Fails on strict submissions and on pods whose name says so, until it is mended."""

    mended = False

    def decide(self, state, event, now):
        made = super().decide(state, event, now)
        broken = not self.mended and (getattr(event.data, "name", "") == "bad" or getattr(event.data, "strict", False))

        def failing():
            outcome = yield from made
            if broken and outcome == "applied":
                raise InvariantError(event.subject, "broken on purpose")
            return outcome

        return failing()


class ParkingDriver(Driver):
    """Parks as the processor does: from the state before the input, on which nothing was written."""

    def take(self, event):
        self.until(max(self.now, event.recordedtime))
        before = records(self.state)
        told = len(self.events)
        followed = {name: copy(getattr(self, name)) for name in ("sequences", "attempts", "phases", "ids")}
        try:
            return super().take(event)
        except InvariantError as error:
            for name in ("state", "shadow"):
                fresh = self.stage.initial()
                self.stage.load(fresh, before.items())
                setattr(self, name, fresh)
            del self.events[told:]
            for name, before_it in followed.items():
                setattr(self, name, before_it)
            made, self.outcome = self.drain(self.stage.park(self.state, event, self.now, f"InvariantError: {error}"))
            assert self.outcome == self.stage.outcome(made[0])
            self.outcomes[self.outcome] += 1
            self.check()
            return made


@pytest.fixture
def parking():
    return ParkingDriver(Faulty())


def bad(version=2):
    return pod("u", "j1", version, "Succeeded", name="bad", node="n", running=2, ended=5)


def test_an_input_that_breaks_an_invariant_parks_its_job_and_nothing_else(parking):
    parking.see(pod("u", "j1", 1, "Running", node="n", running=2))
    made = parking.see(bad())
    assert parking.outcome == "parked"
    assert [type(event.data) for event in made] == [JobParked, InputParked]
    assert "broken on purpose" in made[0].data.error
    assert parking.phase() == "Running"
    parking.see(pod("v", "j2", 1, "Running", node="n", running=2))
    assert parking.outcome == "applied"


def test_later_inputs_of_a_parked_job_are_kept_in_order(parking):
    parking.see(pod("u", "j1", 1, "Running", node="n", running=2))
    parking.see(bad(2))
    parking.see(pod("u", "j1", 3, "Running", node="n", running=2, restarts=1))
    parking.command("AbortJob")
    assert parking.outcome == "parked"
    parking.see(bad(2))
    assert parking.outcome == "duplicate"
    assert [kept["type"] for kept in parking.job().held.values()] == [
        "lahar.pod.observed.v1",
        "lahar.pod.observed.v1",
        "lahar.command.issued.v2",
    ]


def test_an_unparked_job_decides_on_everything_again_in_order(parking):
    parking.see(pod("u", "j1", 1, "Running", node="n", running=2))
    parking.see(bad(2))
    parking.command("AbortJob")
    parking.crash()
    parking.stage.mended = True
    made = parking.command("Unpark", by="op")
    assert isinstance(made[0].data, JobUnparked)
    assert (made[0].data.inputs, made[0].data.by) == (2, "op")
    assert [(one.kept, one.outcome) for one in parking.of(InputReleased, made)] == [("parked", "applied"), ("parked", "refused")]
    assert parking.phase() == "Completed"
    assert (parking.job().parked, parking.job().held) == (False, {})
    parking.see(bad(2))
    assert parking.outcome == "duplicate"


def test_a_job_that_was_parked_by_its_submission_takes_in_everything_once(parking):
    parking.see(early(1))
    parking.submit(vcjob({"name": "w"}), strict=True)
    assert parking.outcome == "parked"
    parking.see(early(2, "Succeeded", ended=9))
    assert parking.outcome == "parked"
    parking.stage.mended = True
    made = parking.command("Unpark")
    released = [(one.kept, one.outcome) for one in parking.of(InputReleased, made)]
    assert released == [("waiting", "applied"), ("parked", "applied"), ("parked", "applied")]
    assert (parking.job().held, parking.job().waiting, parking.job().timers) == ({}, {}, {})
    assert parking.path() == ["Running", "Completed"]


def fail_timer(driver):
    """Fire the next timer as the processor does after its decision failed."""
    driver.now = driver.stage.due(driver.state)
    made, _ = driver.drain(driver.stage.fire(driver.state, driver.now, "ValueError: broken"))
    driver.check()
    return made


def test_a_timer_that_cannot_be_decided_on_parks_its_job(driver):
    driver.submit(vcjob({"name": "a"}, lahar={"activeDeadlineSeconds": 10}))
    made = fail_timer(driver)
    assert [type(event.data) for event in made] == [TimerFired, JobParked, TimerSet]
    driver.command("AbortJob")
    assert driver.outcome == "parked"
    driver.command("Unpark")
    assert driver.phase() == "Aborting"


def test_a_timer_of_which_nothing_can_be_made_is_gone_with_an_anomaly(driver):
    driver.submit(vcjob({"name": "a"}, lahar={"activeDeadlineSeconds": 10}))
    driver.now = driver.stage.due(driver.state)
    made, _ = driver.drain(driver.stage.drop(driver.state, driver.now, "ValueError: broken"))
    driver.check()
    assert [type(event.data) for event in made] == [TimerFired, Anomaly]
    assert made[1].data == Anomaly("the timer active_deadline was given up: ValueError: broken")
    assert driver.stage.outcome(made[0]) is None, "no input has caused it"
    assert driver.stage.due(driver.state) is None
    driver.crash()
    assert (driver.job().parked, driver.phase()) == (False, "Pending")
    driver.command("AbortJob")
    assert driver.phase() == "Aborting"


def give_up(driver):
    """Let the next timer be given up."""
    driver.now = max(driver.now, driver.stage.due(driver.state))
    driver.drain(driver.stage.drop(driver.state, driver.now, "ValueError: broken"))


def test_inputs_whose_release_was_given_up_are_released_by_an_unparking(monkeypatch):
    monkeypatch.setattr(inputs, "RELEASED", 2)
    driver = Driver(checked=False, quiet=False)
    driver.see(pod("u", "j1", 1, "Running", node="n", running=2))
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("AbortJob"), "j1"), driver.now, "broken"))
    for version in range(2, 6):
        driver.see(pod("u", "j1", version, "Running", node="n", running=2, restarts=version))
    driver.command("Unpark")
    give_up(driver)
    driver.see(pod("u", "j1", 6, "Succeeded", node="n", running=2, ended=5))
    assert (driver.outcome, driver.job().parked) == ("parked", False)
    driver.crash()
    driver.command("Unpark")
    assert driver.outcome == "applied"
    driver.command("Unpark")
    assert driver.outcome == "refused", "it goes on already"
    driver.wait(1)
    assert (driver.job().held, driver.phase()) == ({}, "Completed")


@pytest.mark.parametrize("opened", [False, True])
def test_pods_whose_wait_was_given_up_go_on_after_an_unparking(monkeypatch, opened):
    monkeypatch.setattr(inputs, "RELEASED", 1)
    driver = Driver(checked=False, quiet=False)
    driver.see(early(1))
    driver.see(early(2, "Succeeded", ended=9))
    if opened:
        driver.submit(vcjob({"name": "w"}))
    give_up(driver)
    driver.wait(DAY)
    assert len(driver.job().waiting) == 2 - opened
    driver.crash()
    driver.command("Unpark")
    assert driver.outcome == "applied"
    driver.wait(61)
    assert driver.job().waiting == {}
    (ident,) = [event.subject for event in driver.events if isinstance(event.data, JobOpened)]
    assert driver.phase(ident) == "Completed"


def test_a_timer_that_parked_its_job_stops_and_fires_after_unparking(driver):
    driver.submit(vcjob({"name": "a"}, lahar={"activeDeadlineSeconds": 10}))
    fail_timer(driver)
    assert driver.stage.due(driver.state) is None
    driver.wait(DAY)
    driver.crash()
    driver.command("Unpark")
    assert driver.phase() == "Pending"
    driver.wait(1)
    assert driver.phase() == "Terminating"


def test_the_wait_for_a_pod_that_nobody_sees_goes_on_after_the_unparking(driver):
    driver.submit(vcjob({"name": "a"}, maxRetry=9))
    driver.command("RestartJob")
    fail_timer(driver)
    assert driver.phase() == "Restarting"
    driver.command("Unpark")
    driver.wait(60)
    assert driver.phase() == "Pending"


def test_a_timer_of_a_parked_job_waits_for_the_unparking(driver):
    driver.submit(vcjob({"name": "a"}, lahar={"activeDeadlineSeconds": 10}))
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("AbortJob", by="x"), "j1"), driver.now, "broken"))
    driver.wait(DAY)
    assert driver.path() == []
    driver.command("Unpark")
    driver.wait(1)
    assert driver.path() == ["Aborting"]


def as_seen(driver):
    """The job as its events show it; its timers stand still where they do."""
    view = fold(driver.events)
    assert {timer.id: timer.held for timer in driver.job().timers.values()} == {
        ident: timer.held for ident, timer in view.timers.items()
    }
    return view


@pytest.mark.parametrize("cancelled", [True, False])
@pytest.mark.parametrize("due", ["while it was parked", "between two steps"])
def test_a_delayed_action_waits_for_held_inputs_one_of_which_may_cancel_it(monkeypatch, due, cancelled):
    monkeypatch.setattr(inputs, "RELEASED", 2)
    driver = Driver(checked=False, quiet=False)
    delayed = {"event": "PodFailed", "action": "TerminateJob", "timeout": "30s"}
    driver.submit(vcjob({"name": "w", "replicas": 2}, policies=[delayed], maxRetry=9))
    driver.run("w")
    driver.end("w", 0, code=1)
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("ResumeJob"), "j1"), driver.now, "broken"))
    for ready in (True, False, True, False):
        driver.see(driver.replica("w", 1, phase="Running", node="n0", bound=0, running=0, ready=ready))
    driver.command("RestartJob" if cancelled else "ResumeJob")
    driver.wait(DAY if due == "while it was parked" else 30 - PACE / SECOND / 2)
    driver.crash()
    driver.command("Unpark")
    assert len(driver.job().held) == as_seen(driver).held == 4
    driver.wait(2.5 * PACE / SECOND)
    assert len(driver.job().held) == as_seen(driver).held == 0
    assert [action.action for action in driver.of(ActionTaken)] == ["RestartJob" if cancelled else "TerminateJob"]


def test_pods_whose_wait_could_not_be_ended_wait_until_the_unparking(driver):
    driver.see(early())
    fail_timer(driver)
    driver.wait(DAY)
    assert len(driver.job().waiting) == 1
    driver.command("Unpark")
    driver.wait(1)
    assert driver.phase(own_job(driver)) == "Running"


class StillFaulty(LifecycleStage):
    """Fails on everything."""

    def decide(self, state, event, now):
        made = super().decide(state, event, now)

        def failing():
            outcome = yield from made
            raise InvariantError(event.subject, f"still broken, would be {outcome}")

        return failing()


def test_an_undecidable_unparking_is_refused_also_for_a_job_not_parked(driver):
    driver.submit(vcjob({"name": "w"}))
    made, outcome = driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("Unpark"), "j1"), driver.now, "broken"))
    assert (outcome, [event.data for event in made]) == ("refused", [CommandRefused("Unpark", "nothing is released: broken")])
    assert (driver.job().parked, driver.job().held) == (False, {})


def test_a_job_that_cannot_be_unparked_stays_parked_with_a_refusal():
    driver = ParkingDriver(StillFaulty())
    driver.see(bad(2))
    driver.command("Unpark")
    assert driver.outcome == "refused"
    assert "still broken" in driver.of(CommandRefused)[-1].reason
    assert driver.job().parked
    assert len(driver.job().held) == 1


# --- forgetting --------------------------------------------------------------------------------


def finished(driver):
    driver.see(pod("u", "j1", 1, "Running", node="n", running=2))
    driver.see(pod("u", "j1", 2, "Succeeded", node="n", running=2, ended=5))


@pytest.mark.parametrize("crash", [False, True])
def test_a_finished_job_is_forgotten_in_time(driver, crash):
    finished(driver)
    driver.wait(30 * DAY - 1)
    if crash:
        driver.crash()
    assert driver.of(JobForgotten) == []
    driver.wait(1)
    assert len(driver.of(JobForgotten)) == 1
    assert "j1" not in driver.state.jobs
    driver.see(pod("u", "j1", 9, "Failed", reason="AppFailed", ended=9))
    assert driver.outcome == "late"
    driver.submit(vcjob({"name": "a"}))
    assert driver.outcome == "late"
    assert driver.stage.dump(driver.state, "job/j1") is None


def test_a_job_with_something_under_way_is_not_forgotten(driver):
    finished(driver)
    driver.see(pod("v", "j1", 3, "Running", node="n", running=6))
    driver.wait(60 * DAY)
    assert driver.of(JobForgotten) == []
    driver.see(pod("v", "j1", 4, "Succeeded", node="n", running=6, ended=9))
    driver.wait(30 * DAY)
    assert len(driver.of(JobForgotten)) == 1


def test_late_facts_do_not_keep_a_job_for_ever(driver):
    finished(driver)
    driver.wait(10 * DAY)
    driver.crash()
    driver.see(pod("u", "j1", 3, "Failed", reason="AppFailed", node="n", running=2, ended=6))
    assert driver.outcome == "late"
    driver.wait(20 * DAY)
    assert len(driver.of(JobForgotten)) == 1


def test_how_long_a_job_is_kept_and_a_pod_waits_is_configured():
    driver = Driver(LifecycleStage(forget_after=10 * SECOND, orphan_wait=5 * SECOND))
    finished(driver)
    driver.wait(10)
    assert len(driver.of(JobForgotten)) == 1
    driver.see(pod("w", "j9", 1, "Running", managed=True, node="n", running=1))
    driver.wait(5)
    assert len(driver.of(JobOpened)) == 2


# --- the rest --------------------------------------------------------------------------------


def test_a_row_that_makes_no_sense_is_rejected(driver):
    driver.take(driver.event(RowUnreadable("philly", 7, "no start"), "import/philly", "row-7"))
    assert driver.outcome == "rejected"
    assert driver.of(RowRejected)[0].line == 7
    driver.take(driver.event(RowUnreadable("philly", 7, "no start"), "import/philly", "row-7"))
    assert driver.outcome == "duplicate"


def test_a_report_about_an_effect_is_kept(driver):
    driver.submit(vcjob({"name": "a"}))
    driver.take(driver.event(EffectReported("e1", "failed", "hook", "503"), "j1", "report-1"))
    assert driver.outcome == "applied"
    assert driver.of(EffectSettled)[0].message == "503"
    driver.take(driver.event(EffectReported("e1", "failed", "hook", "503"), "j1", "report-1"))
    assert driver.outcome == "duplicate"


def test_a_finished_job_is_kept_as_its_record_once_it_is_written(driver):
    finished(driver)
    driver.stage.dump(driver.state, "job/j1")
    driver.stage.dump(driver.shadow, "job/j1")
    assert (list(driver.state.jobs), list(driver.state.closed)) == ([], ["j1"])
    driver.see(pod("u", "j1", 2, "Succeeded", node="n", running=2, ended=5))
    assert driver.outcome == "duplicate"
    assert list(driver.state.closed) == ["j1"]
    driver.see(pod("u", "j1", 3, "Succeeded", node="n", running=2, ended=6))
    assert driver.outcome == "late"
    assert list(driver.state.jobs) == ["j1"]


def test_what_was_held_is_known_when_it_comes_again():
    driver = Driver()
    driver.submit(vcjob({"name": "w"}, maxRetry=9))
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("SyncJob"), "j1"), driver.now, "broken"))
    driver.command("RestartJob", key="once")
    driver.command("Unpark")
    assert driver.job().version == 1
    driver.command("RestartJob", key="once")
    assert (driver.outcome, driver.job().version) == ("duplicate", 1)


def test_a_pod_that_has_waited_is_known_when_it_comes_again():
    """Also if it contradicts the job that has come."""
    driver = Driver()
    wrong = replace(early(1), task="none")
    driver.see(wrong)
    driver.submit(vcjob({"name": "w"}))
    assert len(driver.of(Anomaly)) == 1
    driver.see(wrong)
    assert (driver.outcome, len(driver.of(Anomaly))) == ("duplicate", 1)


def test_what_follows_from_a_report_on_what_is_no_job_has_ids_of_its_own():
    """Driver looks at the ids of all events: those of what is released share a turn."""
    driver = Driver(checked=False)
    driver.clusters.add("c1")
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("AbortJob"), "j1"), driver.now, "broken"))
    driver.take(driver.event(EffectReported("e", "failed"), "j1"))
    made = driver.command("Unpark")
    assert [event.data.outcome for event in made if isinstance(event.data, InputReleased)] == ["refused", "applied"]
