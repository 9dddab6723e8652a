"""Owner chains: the job of a pod is the top of its chain of controllers, as far as their objects were read.

A Spark executor is controlled by its driver's pod, which a SparkApplication controls; a Flink job manager by a ReplicaSet of a
Deployment of a FlinkDeployment; the submitter of a RayJob by a Job of the RayJob. A chain ends below an object that starts jobs by
a schedule.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from engine.events import Message, Topic, encode
from engine.events.inputs import POD, PodObserved
from engine.kubernetes.input_events import event_of, pod_of, with_pod
from engine.kubernetes.reading.documents import Document, Unreadable, kind_of
from engine.kubernetes.reading.fields import mapping, text
from engine.kubernetes.reading.identity import SCHEDULE_KINDS, SERVICE_KINDS, controller, job_kind

_OBJECTS: Final = 100_000
_PODS: Final = 20_000
_GONE: Final = 10_000
_LENGTH: Final = 16
"""Maximum length of a chain."""


class _Owner(NamedTuple):
    uid: str
    kind: str | None
    name: str | None


class _LastUsed(OrderedDict[str, _Owner]):
    """Controllers by uid of the controlled object; the least recently used one is dropped first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, uid: str, owner: _Owner) -> None:
        """Store a controller as the most recently used one."""
        self[uid] = owner
        self.move_to_end(uid)
        if len(self) > self._most:
            self.popitem(last=False)


class OwnerChains:
    """Controllers of the objects of one source, and the jobs of their pods."""

    def __init__(self, objects: int = _OBJECTS, pods: int = _PODS, gone: int = _GONE) -> None:
        """Start empty.

        Args:
            objects: maximum number of objects whose controllers are stored; the least recently used ones are dropped.
            pods: maximum number of pods that do not control a pod yet.
            gone: maximum number of deleted objects; their pods are deleted after them.
        """
        self._objects = _LastUsed(objects)
        self._pods = _LastUsed(pods)
        self._gone = _LastUsed(gone)

    def note(self, item: Document | Unreadable) -> None:
        """Store the controller of an object that may control pods; its first controller stays."""
        if isinstance(item, Unreadable):
            return
        metadata = mapping(item.content.get("metadata"))
        uid, owner = text(metadata.get("uid")), controller(metadata)
        above, kind = text(owner.get("uid")), job_kind(text(owner.get("kind")), owner.get("apiVersion"))
        if uid is None or above is None or kind in SCHEDULE_KINDS:
            return
        deleted = item.change == "DELETED"
        controls_none = kind_of(item.content) == POD and uid not in self._objects
        known = self._objects.pop(uid, None) or self._pods.pop(uid, None) or self._gone.pop(uid, None)
        if deleted and controls_none:
            return
        table = self._gone if deleted else self._pods if controls_none else self._objects
        table.keep(uid, known or _Owner(above, kind, text(owner.get("name"))))

    def resolve(self, inputs: Sequence[tuple[Topic, Message]]) -> list[tuple[Topic, Message]]:
        """Return the inputs with each pod assigned to the job at the top of its chain."""
        return [(topic, self._resolved(message) if topic == "pods" else message) for topic, message in inputs]

    def _resolved(self, message: Message) -> Message:
        chain = self._chain(message.key)
        if not chain or chain[-1].kind in SERVICE_KINDS:
            return message
        root = chain[-1]
        event = event_of(message)
        pod = None if event is None else _of_root(pod_of(event.data), root)
        if event is None or pod is None:
            return message
        return encode(replace(event, data=with_pod(event.data, pod), subject=root.uid, correlationid=root.uid), root.uid)

    def _chain(self, uid: str) -> list[_Owner]:
        """Return the owners above an object, the nearest first."""
        chain: list[_Owner] = []
        seen = {uid}
        while len(chain) < _LENGTH:
            owner = self._use(uid)
            if owner is None or owner.uid in seen:
                break
            chain.append(owner)
            uid = owner.uid
            seen.add(uid)
        return chain

    def _use(self, uid: str) -> _Owner | None:
        """Return the controller of an object, and mark it as used."""
        for table in (self._objects, self._gone):
            if uid in table:
                table.move_to_end(uid)
                return table[uid]
        owner = self._pods.pop(uid, None)
        if owner is not None:  # a pod that controls pods
            self._objects.keep(uid, owner)
        return owner


def _of_root(pod: PodObserved, root: _Owner) -> PodObserved | None:
    """Return a pod assigned to a job above its controller; `None` if it has no controller, or is managed.

    A completion index without a task counts the pods of one Job, and the job may have several Jobs.
    """
    if pod.owner is None or pod.managed or root.kind is None:
        return None
    return replace(
        pod,
        job=root.uid,
        kind=root.kind,
        owner=root.name,
        through=pod.through or pod.owner,
        controller=pod.controller or pod.job,
        chained=True,
        service=None,
        index=None if pod.task is None else pod.index,
    )
