"""Result of `why`: sentences, a chain of causes, groups of replicas, advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.events.times import format_time
from engine.formatting import sentence
from engine.history.noticed import Noticed
from engine.history.replicas import Group
from engine.history.waiting import Waiting


@dataclass(slots=True)
class Step:
    """Link of a chain of causes."""

    text: str
    event: str
    """Id of the event or input."""
    type: str
    time: int

    def document(self) -> dict[str, Any]:
        """Return the link as JSON."""
        return {"text": self.text, "id": self.event, "type": self.type, "time": format_time(self.time)}


@dataclass(slots=True)
class Explanation:
    """Result of `why`."""

    headline: str
    details: list[str] = field(default_factory=list)
    """Whole sentences, most important first."""
    causes: list[Step] = field(default_factory=list)
    """Chain from the explained event back to the input, or to a fact recorded only later; empty if a job just waits."""
    recorded: list[Step] = field(default_factory=list)
    """Rest of the chain: links later than the fact that they recorded, such as the observation of a pod; see `steps`."""
    replicas: list[Group] = field(default_factory=list)
    """Described replicas that do not run, or not well; the details begin with their reasons to wait."""
    advice: list[str] = field(default_factory=list)
    """Advice for the described reasons, if any."""
    waiting: Waiting | None = None
    """Pending reason of the job, from Lahar's scheduler."""
    notice: Noticed | None = None
    """Open notice of preemption of the job."""

    def sentences(self) -> list[str]:
        """Return the whole result as sentences, in reading order."""
        said = [self.headline, *self.details, *(f"To do: {action}." for action in self.advice)]
        found = chains([*self.causes, *self.recorded]) if len(self.causes) > 1 or self.recorded else []
        for place, links in enumerate(found):
            because = "".join(f"{';' if number else ','} because {step.text}" for number, step in enumerate(links[1:]))
            said.append(sentence(f"{'recorded when ' if place else ''}{links[0].text}{because}"))
        return said

    def document(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "headline": self.headline,
            "details": self.details,
            "waiting": None if self.waiting is None else self.waiting.document(),
            "notice": None if self.notice is None else self.notice.document(),
            "replicas": [group.document() for group in self.replicas],
            "advice": self.advice,
            "causes": [step.document() for step in self.causes],
            "recorded": [step.document() for step in self.recorded],
        }


def chains(links: Sequence[Step]) -> list[list[Step]]:
    """Split a chain of causes before each link that is later than its effect."""
    found: list[list[Step]] = []
    for link in links:
        if found and link.time <= found[-1][-1].time:
            found[-1].append(link)
        else:
            found.append([link])
    return found
