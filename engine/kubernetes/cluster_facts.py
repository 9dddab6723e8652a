"""The fold over the facts of clusters that are about no one job: nodes, queues, tenants, priority classes and grants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Final, Literal, TypeAlias

from engine.events import Data, Event
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied, ObjectDeleted
from engine.events.times import SECOND
from engine.kubernetes.versions import is_newer

__all__ = ["DELETIONS", "KEPT", "NODE", "ClusterFacts", "Deletion", "Known", "Thing"]

Thing: TypeAlias = tuple[str, str, str]
"""Cluster, kind and name."""
NODE: Final = "Node"
"""Kind of a node; the other kinds are those of `ObjectApplied`."""
DELETIONS: Final = 10_000
"""How many things that are gone stay known to be; the one whose deletion was recorded first is forgotten first."""
KEPT: Final = 30 * 86_400 * SECOND
"""For how long they do (microseconds): an observation of before is not to be expected any more then."""
_FEW: Final = 64
"""Entries that no longer hold and are not worth a search."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """What is kept of a thing that is gone, so that an observation of before does not bring it back."""

    version: str
    """The newest resourceVersion that is known of it."""
    at: int
    """When its deletion was recorded (microseconds)."""
    uid: str | None = None
    """As far as it is known."""
    ready: Literal["True", "False", "Unknown"] = "True"
    """Of a node, this and what follows: as `NodeObserved` said last."""
    unreachable: bool = False
    type: str | None = None
    gpu_model: str | None = None


Known: TypeAlias = NodeObserved | ObjectApplied | Deletion
"""What may be known of a thing."""


@dataclass(slots=True)
class ClusterFacts:
    """What the facts of all clusters say together, in whatever order they arrive: the newest one about a thing stands.

    Without a resourceVersion the order of arrival decides, and nothing is kept of what is gone.
    """

    nodes: dict[tuple[str, str], NodeObserved] = field(default_factory=dict)
    """(cluster, name) → as last observed."""
    objects: dict[Thing, ObjectApplied] = field(default_factory=dict)
    """Queues, tenants, priority classes and grants, as last applied."""
    deleted: dict[Thing, Deletion] = field(default_factory=dict)
    """What is gone."""
    oldest: list[tuple[int, Thing]] = field(default_factory=list, compare=False)
    """Heap of the same by when it was recorded; entries that no longer hold are skipped. Derived."""

    def absorb(self, event: Event[Data]) -> list[Thing]:
        """Take one fact; return the things of which something else is known now. None: it is older than what is known."""
        data = event.data
        if not isinstance(data, NodeObserved | NodeDeleted | ObjectApplied | ObjectDeleted):
            return []
        thing = (event.clusterid, NODE if isinstance(data, NodeObserved | NodeDeleted) else data.kind, data.name)
        known = self.known(thing)
        another = known is not None and None not in {data.uid, known.uid} and data.uid != known.uid
        if isinstance(data, NodeObserved | ObjectApplied):
            # versions are those of one object: after a restore, say, a new one may begin below
            if known is not None and not another and not is_newer(data.version, known.version):
                return []
            self.know(thing, data)
            return [thing]
        last = None if known is None else known.version
        # a deletion is newer than the observation of its own version; older ones are of an earlier life
        own = data.version == last and not isinstance(known, Deletion)
        if not (own or is_newer(data.version, last)) or (another and not isinstance(known, Deletion)):
            return []
        version = data.version or last
        if version is None:
            self.know(thing, None)
            return [thing]
        uid = data.uid or (None if known is None else known.uid)
        if isinstance(known, NodeObserved):
            gone = Deletion(version, event.recordedtime, uid, known.ready, known.unreachable, known.type, known.gpu_model)
        elif isinstance(known, Deletion):
            gone = replace(known, version=version, at=event.recordedtime, uid=uid)
        else:
            gone = Deletion(version, event.recordedtime, uid)
        self.know(thing, gone)
        return [thing, *self._forget(event.recordedtime)]

    def node(self, cluster: str, name: str) -> NodeObserved | Deletion | None:
        """Return a node as it was last observed, also one that is gone; `None`: it is not known."""
        return self.nodes.get((cluster, name)) or self.deleted.get((cluster, NODE, name))

    def things(self) -> Iterator[Thing]:
        """Yield everything of which something is known."""
        yield from ((cluster, NODE, name) for cluster, name in self.nodes)
        yield from self.objects
        yield from self.deleted

    def known(self, thing: Thing) -> Known | None:
        """Return what is known of a thing."""
        cluster, kind, name = thing
        standing = self.nodes.get((cluster, name)) if kind == NODE else self.objects.get(thing)
        return standing or self.deleted.get(thing)

    def know(self, thing: Thing, known: Known | None) -> None:
        """Replace what is known of a thing; `None`: nothing is any more."""
        cluster, kind, name = thing
        if kind == NODE:
            self.nodes.pop((cluster, name), None)
        self.objects.pop(thing, None)
        self.deleted.pop(thing, None)
        if isinstance(known, NodeObserved):
            self.nodes[cluster, name] = known
        elif isinstance(known, ObjectApplied):
            self.objects[thing] = known
        elif known is not None:
            self.deleted[thing] = known
            heappush(self.oldest, (known.at, thing))

    def _forget(self, now: int) -> list[Thing]:
        """Forget the deletions that were recorded long before, and the first of more than are kept."""
        forgotten: list[Thing] = []
        while self.oldest[0][0] < now - KEPT or len(self.deleted) > DELETIONS:
            at, thing = heappop(self.oldest)
            if self._holds(at, thing):
                del self.deleted[thing]
                forgotten.append(thing)
        if len(self.oldest) > 2 * len(self.deleted) + _FEW:
            self.oldest[:] = [entry for entry in self.oldest if self._holds(*entry)]
            heapify(self.oldest)
        return forgotten

    def _holds(self, at: int, thing: Thing) -> bool:
        known = self.deleted.get(thing)
        return known is not None and known.at == at
