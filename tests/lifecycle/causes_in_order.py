"""What must hold of causes in every history: none is later than its effect, in events, in answers and in their sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from engine.events import Data, Event
from engine.events.actions import TimerFired
from engine.events.attempts import AttemptEnded
from engine.events.times import parse_time
from engine.history.explanation import Explanation
from engine.history.reading import JobHistory
from engine.history.why import why_event, why_job
from engine.history.why_replica import why_replica

MOMENT = re.compile(r"(?:at|since) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?Z)")


def answers(history: JobHistory) -> Iterable[Explanation]:
    yield from (why_event(history, event) for event in history.events)
    job = why_job(history)
    if job is not None:
        yield job
    slots = {(event.data.task, event.data.index) for event in history.events if isinstance(event.data, AttemptEnded)}
    yield from (found for slot in slots if (found := why_replica(history, *slot)) is not None)


def sentences_out_of_order(answer: Explanation) -> list[str]:
    """Sentences of which a clause after "because" names a later moment than the clause before it."""
    wrong = []
    for text in answer.sentences():
        clauses = [MOMENT.findall(clause) for clause in re.split(r"[,;] because ", text)]
        moments = [parse_time(found[0].replace(" ", "T")) for found in clauses if found]
        if "because" in text and any(cause > effect for effect, cause in pairwise(moments)):
            wrong.append(text)
    return wrong


def events_before_their_causes(history: JobHistory) -> list[tuple[Event[Data], Event[Data]]]:
    """Events with a later cause of the same job.

    A pod that a timer gives up has ended when it was last seen alive; a timer set after it was due (the time to live of a job whose
    end was recorded late) fires at that moment.
    """
    found = []
    for event in history.events:
        cause = history.by_id.get(event.causationid)
        given_up = isinstance(event.data, AttemptEnded) and event.data.inferred and cause and isinstance(cause.data, TimerFired)
        if cause is not None and event.time < cause.time and not given_up and not isinstance(event.data, TimerFired):
            found.append((event, cause))
    return found


def must_be_in_order(history: JobHistory) -> int:
    """Check all events of a job and all answers about it; return how many answers there are."""
    assert events_before_their_causes(history) == []
    number = 0
    for answer in answers(history):
        assert all(cause.time <= effect.time for effect, cause in pairwise(answer.causes)), answer
        assert sentences_out_of_order(answer) == []
        number += 1
    return number
