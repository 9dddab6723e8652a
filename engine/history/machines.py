"""The three state machines for subscribers: job events drive them, and user callbacks are attached to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from engine.events import Data, Event
from engine.events.jobs import JobForgotten, JobOpened
from engine.events.transitions import transition_of
from statemachines.job import JOB
from statemachines.machine import MachineTable, machine_of
from statemachines.replica import REPLICA
from statemachines.task import TASK
from statemachines.vocabulary import Level

_TABLES: Final[Mapping[Level, MachineTable[Any]]] = {"job": JOB, "task": TASK, "replica": REPLICA}


class Who(NamedTuple):
    """Job, task or replica of a machine."""

    job: str
    level: Level
    task: str = ""
    replica: int | None = None
    """Index of the replica in its task."""


class Machines:
    """A machine of `transitions` for each job, task and replica in the events.

    Args:
        model: returns the model that a machine drives; its `on_enter_Running(event)` and the like are called when it enters a
            phase, with the job event in `event.kwargs["event"]`. `None`: no machine for this one.
    """

    def __init__(self, model: Callable[[Who], Any | None]) -> None:
        self._model = model
        self._free: dict[str, bool] = {}
        """Jobs whose `opened` event was read; true if controllers other than Lahar decide their phases."""
        self._models: dict[str, dict[Who, Any]] = {}

    def take(self, event: Event[Data]) -> None:
        """Drive the machine of an event, if it changes a phase.

        Call it once per event, in the order of its job; the history may begin anywhere. A replica's next attempt has a new machine.
        A forgotten job's machines are dropped.

        Raises:
            transitions.MachineError: the tables lack the change. Only for jobs that Lahar manages and whose `opened` event was
            read; phases
                of other jobs follow their owners.
        """
        job = event.subject
        if isinstance(event.data, JobForgotten):
            self._free.pop(job, None)
            self._models.pop(job, None)
            return
        if isinstance(event.data, JobOpened):
            self._free[job] = not event.data.managed
        change = transition_of(event.data)
        if change is None:
            return
        who = Who(job, change.level, change.task or "", change.index)
        models = self._models.setdefault(job, {})
        if change.previous is None or who not in models:
            model = self._model(who)
            models[who] = model
            if model is not None:
                machine_of(_TABLES[who.level], model, state=change.previous, free=self._free.get(job, True))
        if change.previous is not None and models[who] is not None:
            models[who].trigger(f"enter_{change.phase}", event=event)
