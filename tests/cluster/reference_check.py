"""Runs the reference beside the engine and compares the two after every input."""

from __future__ import annotations

from collections import Counter
from typing import Any

from engine_shard import Taking
from simulated_world import World
from volcano_reference import Delay, DifferenceError, RefJob

from engine.events import Event
from engine.events.actions import DelaysCancelled, EffectRequested, TimerCancelled, TimerFired, TimerSet
from engine.events.attempts import AttemptEnded, AttemptObjectChanged, AttemptStarted
from engine.events.inputs import CommandIssued, EffectReported, JobDeleted, PodDeleted, PodObserved
from engine.events.jobs import JobForgotten, JobOpened, JobPhaseChanged, JobRevised
from engine.events.outcomes import CommandRefused
from statemachines.vocabulary import FINISHED_JOB_PHASES


class ReferenceCheck:
    """Listens to a world; raises `DifferenceError` at the first input after which the two disagree."""

    def __init__(self, world: World) -> None:
        self._engine = world.engine
        self._timeline = world.timeline
        self.jobs: dict[str, RefJob] = {}
        self._timers: dict[str, tuple[str, TimerSet]] = {}
        """Timers of the engine that run: id → (job, what was set)."""
        self._creations: dict[str, tuple[Any, Any, Any]] = {}
        """Id of the request → (task, index, number)."""
        world.listeners.append(self)

    def __call__(self, taking: Taking) -> None:
        """Let the reference take what the engine has taken, and compare."""
        for job in self.jobs.values():
            job.now = self._timeline.now
            job.path.clear()
            job.made.clear()
        if taking.input is None:
            self._fire(taking.made)
        else:
            self._take(taking.input, taking.made)
            self._follow(taking.made)
        for ident in [event.subject for event in taking.made if isinstance(event.data, JobForgotten)]:
            if (forgotten := self.jobs.pop(ident)).phase not in FINISHED_JOB_PHASES:
                raise DifferenceError(f"the engine has forgotten a job that goes on: {forgotten}")
        for ident, job in self.jobs.items():
            self._compare(ident, job, [event for event in taking.made if event.subject == ident], taking)

    def _take(self, given: Event[Any], made: list[Event[Any]]) -> None:
        data, ident = given.data, given.subject
        opened = next((event.data for event in made if isinstance(event.data, JobOpened)), None)
        if opened is not None:
            self.jobs[ident] = RefJob(opened.name, opened.spec, now=self._timeline.now)
            self.jobs[ident].settle()
        job = self.jobs.get(ident)
        if job is None:
            return
        for revised in (event.data for event in made if isinstance(event.data, JobRevised)):
            job.revise(revised.spec)
        if isinstance(data, PodObserved | PodDeleted):
            deleted = isinstance(data, PodDeleted)
            job.see(data.last if isinstance(data, PodDeleted) else data, deleted=deleted)
        elif isinstance(data, JobDeleted):
            if not job.object_deleted:
                job.delete_object()
        elif isinstance(data, CommandIssued):
            accepted = job.accepts(data.action, data.task, data.index)
            refused = any(isinstance(event.data, CommandRefused) for event in made)
            if accepted == refused:
                raise DifferenceError(f"{data.action} in {job.phase}: the reference {'takes' if accepted else 'refuses'} it")
            if accepted:
                job.execute(data.action, task=data.task, index=data.index)
                job.settle()
        elif isinstance(data, EffectReported):
            if data.effect in self._creations:
                job.answer(*self._creations[data.effect], refused=data.outcome == "failed", made=data.outcome == "done")
            self._give_up(job, made)

    def _fire(self, made: list[Event[Any]]) -> None:
        """Let the timers fire that the engine fired, one by one, in its order."""
        turns: list[list[Event[Any]]] = []
        for event in made:
            if isinstance(event.data, TimerFired):
                turns.append([event])
            elif turns:
                turns[-1].append(event)
        for fired, *rest in turns:
            ident, timer = self._timers[fired.data.id]
            job = self.jobs[ident]
            if timer.timer == "policy":
                job.expire(self._delay(job, timer))
            elif timer.timer == "lost":
                self._give_up(job, rest)
            self._follow([fired, *rest])

    def _follow(self, made: list[Event[Any]]) -> None:
        """Note the timers that run, and which request asked for which pod."""
        for event in made:
            if isinstance(event.data, EffectRequested) and event.data.effect == "create_pod":
                key = (event.data.task, event.data.index, event.data.attempt)
                self._creations[event.id] = key
                self.jobs[event.subject].answer(*key, refused=False)
            if isinstance(event.data, TimerSet):
                self._timers[event.id] = (event.subject, event.data)
            elif isinstance(event.data, TimerCancelled | TimerFired):
                self._timers.pop(event.data.id, None)
            elif isinstance(event.data, DelaysCancelled):
                for ident, (job, timer) in list(self._timers.items()):
                    if job == event.subject and event.data.include(timer.action, timer.task, timer.partition):
                        del self._timers[ident]

    def _delay(self, job: RefJob, timer: TimerSet) -> Delay:
        for delay in job.delays:
            if (delay.due, delay.action, delay.pod) == (timer.due, timer.action, timer.pod):
                return delay
        raise DifferenceError(f"{timer} fired, the reference has {job.delays}")

    def _give_up(self, job: RefJob, made: list[Event[Any]]) -> None:
        """Take from the engine's events that pods are given up: that is a fact for the reference."""
        for event in made:
            data = event.data
            if isinstance(data, AttemptEnded | AttemptObjectChanged):
                pod = next(one for one in job.pods if (one.task, one.index, one.number) == (data.task, data.index, data.attempt))
                if isinstance(data, AttemptObjectChanged):
                    pod.gone = True
                else:
                    job.end(pod, "Failed", data.reason, deleting=False, gone=True)
                    job.after_end(pod)
        job.settle()

    def _compare(self, ident: str, job: RefJob, made: list[Event[Any]], taking: Taking) -> None:
        known = self._engine.job(ident)
        ours = {
            "path": job.path,
            "phase": job.phase,
            "retries": job.retry_count,
            "restarts": job.restarts,
            "version": job.version,
            "made": job.made,
            "delays": Counter((delay.due, delay.action, delay.pod) for delay in job.delays),
        }
        theirs = {
            "path": [event.data.phase for event in made if isinstance(event.data, JobPhaseChanged)],
            "phase": known.phase,
            "retries": known.retry_count,
            "restarts": known.restarts,
            "version": known.version,
            "made": [
                (event.data.task, event.data.index, event.data.attempt)
                for event in made
                if isinstance(event.data, AttemptStarted) and event.data.uid is None
            ],
            "delays": Counter(
                (timer.due, timer.action, timer.pod)
                for of, timer in self._timers.values()
                if of == ident and timer.timer == "policy"
            ),
        }
        for name, value in ours.items():
            if value != theirs[name]:
                given = taking.input.data if taking.input is not None else "a timer"
                raise DifferenceError(f"{name} after {given}:\n  reference {value}\n  engine    {theirs[name]}\n  {job}")
