"""Events that are changes of phase, as transitions for raise rules and callback selectors."""

from __future__ import annotations

from engine.events.attempts import AttemptBound, AttemptEnded, AttemptRunning, AttemptStarted, AttemptTerminating
from engine.events.job_state import ENTERED
from engine.events.jobs import JobOpened, JobPhaseChanged, TaskPhaseChanged
from engine.events.vocabulary import Data
from statemachines.transition import Transition


def transition_of(data: Data) -> Transition | None:
    """Return an event as a change of phase; `None`: it is none."""
    match data:
        case AttemptEnded():
            return Transition("replica", data.phase, data.previous, data.task, data.index, data.reason, data.exit_code)
        case AttemptRunning() | AttemptBound() | AttemptTerminating():
            return Transition("replica", ENTERED[type(data)], data.previous, data.task, data.index, data.reason)
        case AttemptStarted():
            return Transition("replica", "Pending", None, data.task, data.index)
        case TaskPhaseChanged():
            return Transition("task", data.phase, data.previous, data.task, reason=data.reason)
        case JobPhaseChanged():
            return Transition("job", data.phase, data.previous, reason=data.reason)
        case JobOpened():
            return Transition("job", "Pending", None)
        case _:
            return None
