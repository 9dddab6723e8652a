"""The fold over the facts of clusters that are about no one job: nodes, queues, tenants, priority classes and grants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from engine.events import Data, Event
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied, ObjectDeleted
from engine.kubernetes.versions import is_newer

__all__ = ["DELETIONS", "NODE", "ClusterFacts", "Deletion", "Known", "Thing"]

Thing: TypeAlias = tuple[str, str, str]
"""Cluster, kind and name."""
NODE: Final = "Node"
"""Kind of a node; the other kinds are those of `ObjectApplied`."""
DELETIONS: Final = 10_000
"""How many things that are gone stay known to be, at least; the oldest half is forgotten when there are twice as many."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """What is kept of a thing that is gone, so that an observation of before does not bring it back."""

    version: str
    """The newest resourceVersion that is known of it."""
    at: int
    """When its deletion was recorded (microseconds)."""


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

    def absorb(self, event: Event[Data]) -> list[Thing]:
        """Take one fact; return the things of which something else is known now. None: it is older than what is known."""
        data = event.data
        if not isinstance(data, NodeObserved | NodeDeleted | ObjectApplied | ObjectDeleted):
            return []
        thing = (event.clusterid, NODE if isinstance(data, NodeObserved | NodeDeleted) else data.kind, data.name)
        known = self.known(thing)
        if isinstance(data, NodeObserved | ObjectApplied):
            if known is not None and not is_newer(data.version, known.version):
                return []
            self.know(thing, data)
            return [thing]
        last = None if known is None else known.version
        # a deletion is newer than the observation of its own version; older ones are of an earlier life
        own = data.version == last and not isinstance(known, Deletion)
        if not (own or is_newer(data.version, last)):
            return []
        version = data.version or last
        self.know(thing, None if version is None else Deletion(version, event.recordedtime))
        return [thing, *self._forget()]

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

    def _forget(self) -> list[Thing]:
        if len(self.deleted) < 2 * DELETIONS:
            return []
        oldest = sorted(self.deleted, key=lambda thing: (self.deleted[thing].at, thing))[:DELETIONS]
        for thing in oldest:
            del self.deleted[thing]
        return oldest
