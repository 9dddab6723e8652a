"""Filters on the events of a history by their own fields."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from engine.arguments import must_fit, set_of_texts
from engine.events import Data, Topic
from engine.events.decisions import DecisionAccepted
from engine.events.scheduling import JobExplained
from engine.events.topics import types_by_topic
from engine.events.transitions import transition_of
from engine.history.reading import job_events
from engine.log.port import Searchable
from statemachines.errors import UnknownNameError
from statemachines.names import must_be_known
from statemachines.vocabulary import ATTEMPT_PHASES, JOB_PHASES, REASONS, TASK_PHASES

Followed = Literal["job-events", "budgets"]
"""Topics of subscriptions. Of budgets the filters are tenant and types."""

_PHASES: Final = tuple(dict.fromkeys((*JOB_PHASES, *TASK_PHASES, *ATTEMPT_PHASES)))
"""Phases of all levels."""

_OF_SCHEDULER: Final = (DecisionAccepted, JobExplained)
"""Events whose reason explains why the scheduler does not place a job."""

_VERSION: Final = re.compile(r"\.v[0-9]+$|\*$")


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions on an event; `None` or empty matches all."""

    node: str | None = None
    reasons: frozenset[str] = frozenset()
    phases: frozenset[str] = frozenset()
    """Phases entered, at any level."""

    def __post_init__(self) -> None:
        """Check types and phases; one phase or reason may be given as a text, several in any collection.

        Raises:
            RequestError: a condition has a wrong type, or is an empty text.
            UnknownNameError: the phase is unknown.
        """
        must_fit("node", self.node, str | None)
        for name in ("reasons", "phases"):
            object.__setattr__(self, name, set_of_texts(name, getattr(self, name)))
        must_be_known("phase", self.phases, _PHASES)

    def passes(self, data: Data) -> bool:
        """Return true if an event matches."""
        if self.phases:
            entered = transition_of(data)
            if entered is None or entered.phase not in self.phases:
                return False
        return self.node in {None, getattr(data, "node", None)} and (
            not self.reasons or getattr(data, "reason", None) in self.reasons
        )


def must_be_types(given: Iterable[str], topic: Topic) -> None:
    """Check that each pattern matches a type of a topic's events.

    Raises:
        UnknownNameError: one matches none.
    """
    known = [cls.TYPE for cls in types_by_topic()[topic]]
    for pattern in given:
        if not any(fnmatchcase(name, full_type(pattern)) for name in known):
            short = pattern.removeprefix("lahar.")
            must_be_known(f"type of event in {topic}", [short], {_VERSION.sub("", name.removeprefix("lahar.")) for name in known})


def must_be_reasons(log: Searchable, given: Iterable[str], *, of_phases: bool = False) -> None:
    """Check reasons: each is one of Lahar's, or a controller's own that is in the log.

    Args:
        log: log with the events.
        given: the reasons.
        of_phases: only reasons of phases of jobs and attempts, not pending reasons of the scheduler.

    Raises:
        UnknownNameError: a reason is neither.
    """
    given = set(given)
    if not given - REASONS:
        return
    known, waits = set(REASONS), set[str]()
    for event in job_events(log):
        if reason := getattr(event.data, "reason", None):
            (waits if of_phases and isinstance(event.data, _OF_SCHEDULER) else known).add(reason)
    for reason in sorted(given & (waits - known)):
        raise UnknownNameError(
            "reason of a job or an attempt",
            reason,
            "it is why jobs wait for the scheduler: `lahar podgroup list`",
        )
    must_be_known("reason", given, known)


def full_type(given: str) -> str:
    """Return the pattern of event types for a short name: `job.phase_changed` is any version of `lahar.job.phase_changed`."""
    named = given if given.startswith(("lahar.", "*")) else f"lahar.{given}"
    return named if _VERSION.search(named) else f"{named}.v*"
