"""Owners of owners: the job of a pod is the top of its chain of controllers, as far as the objects of the chain were read.

A Spark executor is controlled by its driver's pod, which a SparkApplication controls; a Flink job manager by a ReplicaSet of a
Deployment of a FlinkDeployment. Objects that Lahar reads as jobs end a chain, as do those that only start jobs by a schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from engine.events import Data, Event, Message, Topic, decode, encode
from engine.events.errors import EventError
from engine.events.inputs import PodDeleted, PodObserved
from engine.kubernetes.observation.jobs import read_kind
from engine.kubernetes.reading.documents import Document, Unreadable
from engine.kubernetes.reading.fields import mapping, text
from engine.kubernetes.reading.identity import SERVICE_KINDS, controller, job_kind

__all__ = ["OwnerChains"]

_OBJECTS: Final = 100_000
"""Most objects whose controllers are kept; the oldest are forgotten first."""
_LENGTH: Final = 16
"""Longest chain that is followed."""
_SCHEDULES: Final = frozenset({"CronJob", "CronWorkflow", "RayCronJob", "ScheduledSparkApplication", "ScheduledWorkflow"})
"""Kinds that start jobs by a schedule: each of these is a job."""


class _Owner(NamedTuple):
    uid: str
    kind: str | None
    name: str | None


class OwnerChains:
    """The controllers of the objects of one source, and of their pods the jobs that follow."""

    def __init__(self) -> None:
        self._above: dict[str, _Owner] = {}

    def note(self, item: Document | Unreadable) -> None:
        """Keep the controller of an object that may control pods and is no job itself."""
        if isinstance(item, Unreadable):
            return
        metadata = mapping(item.content.get("metadata"))
        uid, owner = text(metadata.get("uid")), controller(metadata)
        above, kind = text(owner.get("uid")), job_kind(text(owner.get("kind")), owner.get("apiVersion"))
        if uid is None or above is None or kind in _SCHEDULES:
            return
        if read_kind(item.content) is not None:
            return
        self._above.setdefault(uid, _Owner(above, kind, text(owner.get("name"))))
        if len(self._above) > _OBJECTS:
            del self._above[next(iter(self._above))]

    def resolve(self, inputs: Sequence[tuple[Topic, Message]]) -> list[tuple[Topic, Message]]:
        """Return inputs with each pod as one of the job at the top of its chain."""
        return [(topic, self._resolved(message) if topic == "pods" else message) for topic, message in inputs]

    def _resolved(self, message: Message) -> Message:
        root = self._above.get(message.key)
        if root is None:
            return message
        for _ in range(_LENGTH):
            root = self._above.get(root.uid, root)
        kind = root.kind
        if kind is None or kind in SERVICE_KINDS:
            return message
        try:
            event = decode(message)
        except EventError:
            return message  # one of its values is beyond a bound: the shard that takes it makes a dead letter of it
        data: Any = event.data
        moved = _of_root(data.last if isinstance(data, PodDeleted) else data, root, kind)
        if moved is None:
            return message
        data = replace(data, last=moved) if isinstance(data, PodDeleted) else moved
        told: Event[Data] = replace(event, data=data, subject=root.uid, correlationid=root.uid)
        return encode(told, root.uid)


def _of_root(pod: PodObserved, root: _Owner, kind: str) -> PodObserved | None:
    """Return a pod as one of a job above its controller; `None`: it has no controller, or is managed."""
    if pod.owner is None or pod.managed:
        return None
    return replace(
        pod, job=root.uid, kind=kind, owner=root.name, through=pod.through or pod.owner, controller=pod.controller or pod.job
    )
