"""Why, for one replica: its current attempt, the causes of its state, and its earlier attempts."""

from __future__ import annotations

import re
from typing import Final

from engine.events.attempts import AttemptEnded, AttemptEvent, AttemptMoved
from engine.formatting import plural, sentence
from engine.history.advice import advice
from engine.history.errors import HistoryError
from engine.history.explanation import Explanation
from engine.history.fold import fold
from engine.history.reading import JobHistory
from engine.history.replicas import MISSING, Group, grouped, needs, refusals, waiting_tasks
from engine.history.sentences import describe
from engine.history.why import depends, of_object, steps

_REPLICA: Final = re.compile(r"(?P<task>.+)\[(?P<index>[0-9]{1,9})\]")
_EARLIER: Final = 8
"""Maximum number of earlier attempts described, last first."""


def read_replica(text: str) -> tuple[str, int]:
    """Parse task and index of a replica: `worker[2]`.

    Raises:
        ValueError: the text has another form.
    """
    found = _REPLICA.fullmatch(text)
    if found is None:
        raise HistoryError(f"{text!r} is no replica: write TASK[INDEX], as in 'worker[2]'")
    return found["task"], int(found["index"])


def why_replica(history: JobHistory, task: str, index: int) -> Explanation | None:
    """Explain why a replica is in its phase; `None` if the job has no such replica."""
    job = fold(history.events)
    if job is None or task not in job.tasks:
        return None
    name = f"{job.namespace}/{job.name}"
    attempts = [attempt for attempt in job.attempts.values() if (attempt.task, attempt.index) == (task, index)]
    if not attempts and index >= job.tasks[task].replicas:
        return None
    present = max(attempts, key=lambda attempt: attempt.number, default=None)
    own = [
        event
        for event in history.events
        if isinstance(event.data, AttemptEvent) and (event.data.task, event.data.index) == (task, index)
    ]
    if present is None:
        state = "has no pod any more" if own and isinstance(own[-1].data, AttemptMoved) else "has no pod yet"
        groups = [Group(task, MISSING, state=state, missing=[index])]
    else:
        groups = grouped(job, [present], refusals(history.events))
    details = [f"The job is {job.phase}."]
    if present is not None and present.pod:
        details.append(f"Its pod is {present.pod}" + (f", uid {present.uid}." if present.uid else "."))
    details += of_object(job) + waiting_tasks(job, [needed for needed in depends(job) if needed[0] == task])
    ends = [
        event for event in own if isinstance(event.data, AttemptEnded) and (present is None or event.data.attempt != present.number)
    ]
    details += [sentence(f"earlier, {describe(event)}") for event in reversed(ends[-_EARLIER:])]
    if len(ends) > _EARLIER:
        details.append(f"{plural(len(ends) - _EARLIER, 'more attempt')} ended before that.")
    causes, recorded = steps(history, own[-1]) if own else ([], [])
    return Explanation(f"{name}: {groups[0].sentence()}", details, causes, recorded, groups, advice(needs(groups), job.namespace))
