"""Pending reasons of a job from the scheduling stage, as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.events import Data, Event, decode
from engine.events.attempts import AttemptBound, AttemptEnded
from engine.events.decisions import DecisionAccepted
from engine.events.jobs import JobOpened
from engine.events.scheduling import JobExplained
from engine.events.times import format_time
from engine.formatting import amount, brief, listed, moment, plural, sentence
from engine.history.reading import job_called
from engine.log.port import SearchableLog

REASONS: Final[dict[str, tuple[str, str]]] = {
    "QueueNotFound": ("its queue {about} does not exist", "create the queue, or name another one"),
    "QueueNotOpen": ("its queue {about} is closed", "open the queue, or name another one"),
    "QueueHierarchyInvalid": (
        "the tree of queues cannot be used: {message}",
        "correct `spec.parent` of that queue",
    ),
    "QueueOverused": ("its queue {about} holds all that it deserves", "wait for its jobs, or raise the queue's weight or share"),
    "QueueLimit": (
        "with it, queue {about} would hold more than it may",
        "wait until jobs of queue {about} free {missing}, or raise its weight, deserved or capability",
    ),
    "QueueTooSmall": (
        "it asks for {asked}, and queue {about} may hold {most} in all",
        "waiting does not help: raise the capability of queue {about} by {missing} (or of one above it, or guarantee others less)",
    ),
    "QuotaExceeded": (
        "the quota of namespace {about} does not allow it",
        "wait until jobs of namespace {about} free {missing}, or raise its quota",
    ),
    "QuotaTooSmall": (
        "it asks for {asked}, and the quota of namespace {about} allows {most} in all",
        "waiting does not help: raise the quota by {missing}, or ask for less",
    ),
    "ClusterOvercommitted": (
        "as much has been let in as the cluster may take on",
        "wait, add nodes, or raise `overcommit-factor` of plugin overcommit",
    ),
    "ClusterTooSmall": (
        "it asks for more than the whole cluster may take on",
        "waiting does not help: add nodes with {missing}, or ask for less",
    ),
    "NotEnoughPods": (
        "it has fewer pods than its gang needs",
        "see what its tasks wait for; dependencies need a smaller minAvailable",
    ),
    "NotEnoughPodsOfTask": (
        "task {about} has fewer pods than the gang needs",
        "see what the task waits for",
    ),
    "NotEnoughSubGroups": ("too few partitions of task {about} have all their pods", "see what the pods of the task wait for"),
    "SchedulingGated": ("pods of task {about} have scheduling gates", "their owner has to remove the gates"),
    "GangNotComplete": ("some of its pods found a node, but fewer than its gang needs", "free or add what the nodes lack"),
    "GangTooLarge": (
        "its gang is too large: {message}",
        "waiting does not help: lower minAvailable, or the size of its partitions, or shorten the names of its tasks",
    ),
    "InsufficientResource": (
        "no node has enough left for a pod of task {about}",
        "free or add what the nodes lack, or ask for less",
    ),
    "NodeTooSmall": (
        "no node is large enough for a pod of task {about}",
        "waiting does not help: add a larger node, or ask for less",
    ),
    "VictimsLeaving": ("it waits for evicted pods to leave the places that it is promised", "wait until they have left"),
    "NoVictims": ("no node becomes free enough by evicting whom it may evict", "wait, or add nodes"),
    "NoticeGiven": (
        "jobs of queue {about} have been given notice for it",
        "wait for the deadline, or have the victims acknowledge: `lahar preemptions list`",
    ),
    "PluginFailed": ("{message}", "correct the plugin, or take it out of the configuration"),
    "Waiting": ("nothing stops it, its turn has not come", "wait"),
}
"""Description and advice by reason."""
_SHARE: Final = (
    "wait for jobs of its queue and of others: its queue's share is {missing} too small for it now; or raise the queue's weight"
)
"""Advice if a share is the limit, which grows as other queues request less."""
_OF_NODES: Final = ("no node takes a pod of task {about}", "change the nodes that should take it, or what it demands of nodes")

NODE_REASONS: Final[dict[str, str]] = {
    "InsufficientResource": "with too little {resource}",
    "NodeTooSmall": "with too little {resource} even when empty",
    "NodeUnschedulable": "cordoned",
    "NodeSelector": "that it does not select",
    "NodeAffinity": "outside its affinity",
    "Taint": "with a taint that it does not tolerate",
    "HostPort": "whose port is taken",
    "PodAffinity": "without the pods that it wants beside it",
    "PodAntiAffinity": "with pods that it avoids",
    "TopologySpread": "with too many of its pods already",
    "RevocableZone": "not lent at this hour, or not to it",
}
"""Nodes that reject a pod, by reason."""

_ORDINALS: Final = {1: "st", 2: "nd", 3: "rd"}


@dataclass(slots=True, frozen=True)
class Waiting:
    """Current pending reason."""

    event: Event[JobExplained]
    names: Mapping[str, str]
    """Names by id of jobs ahead in the queue."""
    submitted: int = 0
    """Time of the job's submission (microseconds)."""

    @property
    def since(self) -> int:
        """Return the time of the reason (microseconds). Earlier releases dated some before the job's submission."""
        return max(self.event.time, self.submitted)

    def sentences(self) -> list[str]:
        """Return sentences with the obstacle, and the job's place in the queue."""
        said = self.event.data
        found = self._filled_in(REASONS.get(said.reason, _OF_NODES)[0])
        if said.missing:
            found += f"; {_amounts(said.missing)} {'is' if len(said.missing) == 1 else 'are'} missing" + (
                " on the nearest" if said.nodes else ""
            )
        by = ", ".join(filter(None, (said.action, said.plugin, said.reason)))
        details = [sentence(f"It waits for the scheduler since {moment(self.since)}: {found} ({by})")]
        if said.nodes:
            details.append(sentence(f"Nodes: {', '.join(_node(word, count) for word, count in said.nodes.items())}"))
        if said.place:
            last = said.place % 10 if said.place % 100 not in {11, 12, 13} else 0
            place = f"{said.place}{_ORDINALS.get(last, 'th')} of {said.waiting}"
            behind = [self.names.get(job, job) for job in said.ahead]
            details.append(
                sentence(f"It was {place} that wait in queue {said.queue}" + (f", behind {listed(behind)}" if behind else ""))
            )
        return details

    @property
    def promised(self) -> bool:
        """True if it waits only for promised resources."""
        return self.event.data.reason == "VictimsLeaving"

    def advice(self) -> str:
        """Return advice for operators."""
        said = self.event.data
        shared = said.reason == "QueueLimit" and said.plugin == "proportion" and said.action != "enqueue"
        return f"{said.reason}: {self._filled_in(_SHARE if shared else REASONS.get(said.reason, _OF_NODES)[1])}"

    def _filled_in(self, text: str) -> str:
        said = self.event.data
        return text.format(
            about=said.about or "?",
            message=brief(said.message),
            missing=_amounts(said.missing) or "more",
            asked=_amounts(said.asked),
            most=_amounts({name: value - said.missing.get(name, 0) for name, value in said.asked.items()}),
        )

    def document(self) -> dict[str, Any]:
        """Return the reason as JSON; amounts as in the event."""
        said = self.event.data
        return {
            "reason": said.reason,
            "action": said.action,
            "plugin": said.plugin,
            "about": said.about,
            "missing": said.missing,
            "asked": said.asked,
            "nodes": said.nodes,
            "queue": said.queue,
            "place": said.place,
            "waiting": said.waiting,
            "ahead": [{"job": job, "name": self.names.get(job, job)} for job in said.ahead],
            "message": said.message,
            "since": format_time(self.since),
            "event": self.event.id,
        }


def _amounts(amounts: Mapping[str, int]) -> str:
    return listed([f"{amount(name, value)} {name}" for name, value in amounts.items()])


def _node(word: str, count: int) -> str:
    reason, _, resource = word.partition("/")
    return f"{count} {NODE_REASONS.get(reason, reason).format(resource=resource)}"


def waiting_of(log: SearchableLog, job: str, known: int | None = None) -> Waiting | None:
    """Return the pending reason of a job; `None`: none is recorded.

    Args:
        log: log to search.
        job: id of the job.
        known: latest recorded time to consider (microseconds); `None`: now.
    """
    found: Event[Any] | None = None
    for record in log.records_of(job, ("scheduling",)):
        message = record.message
        if message.type == JobExplained.TYPE and (known is None or message.recordedtime <= known):
            found = decode(message)
    if found is None or not found.data.reason:
        return None
    events = (record.message for record in log.records_of(job, ("job-events",)))
    submitted = next((message.time for message in events if message.type == JobOpened.TYPE), 0)
    return Waiting(found, {ahead: job_called(log, ahead) for ahead in found.data.ahead}, submitted)


def promise_of(events: Iterable[Event[Data]]) -> list[str]:
    """Return a sentence on the promised resources of a job's pods that other pods still occupy; empty without any.

    Args:
        events: events of the job. A promise ends when the pod is bound or ends; a later reason takes precedence.
    """
    promised: dict[tuple[str, int, int], str] = {}
    for event in events:
        match event.data:
            case DecisionAccepted(kind="pipelined", placements=places):
                promised = {(one.task, one.index, one.attempt): one.node for one in places}
            case DecisionAccepted(kind="bound", placements=places):
                for one in places:
                    promised.pop((one.task, one.index, one.attempt), None)
            case AttemptBound(task, index, attempt) | AttemptEnded(task, index, attempt):
                promised.pop((task, index, attempt), None)
    if not promised:
        return []
    nodes = listed(sorted(set(promised.values())))
    return [sentence(f"The scheduler has promised {plural(len(promised), 'pod')} the places that others are leaving on {nodes}")]
