"""The fold over the facts of clusters that are about no one job: nodes, queues, tenants, priority classes and grants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from engine.events import Data, Event
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied, ObjectDeleted
from engine.events.times import SECOND
from engine.kubernetes.observation.oldest_first import OldestFirst
from engine.kubernetes.observation.versions import is_newer

__all__ = ["DELETIONS", "KEPT", "LIVES", "NODE", "ClusterFacts", "Deletion", "Former", "Known", "Thing"]

Thing: TypeAlias = tuple[str, str, str]
"""Cluster, kind and name."""
NODE: Final = "Node"
"""Kind of a node; the other kinds are those of `ObjectApplied`."""
DELETIONS: Final = 10_000
"""How many things that are gone stay known to be; the one whose deletion was recorded first is forgotten first.

And of how many things the former lives are known.
"""
KEPT: Final = 30 * 86_400 * SECOND
"""For how long (microseconds): an observation of before is not to be expected any more then."""
LIVES: Final = 4
"""How many former lives of a thing are known; the one that was over first is forgotten first."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Record of a deleted object, so that an older observation does not restore it."""

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


@dataclass(frozen=True, slots=True)
class Former:
    """Lives of a thing that are over: objects of its name with other uids, so that a late fact of one is known to be late."""

    at: int
    """When the last of them was recorded to be over (microseconds)."""
    lives: dict[str, str | None]
    """Uid → `None`, or the version beyond which it is the one that lives: it was followed by a lower version."""


Known: TypeAlias = NodeObserved | ObjectApplied | Deletion
"""What may be known of a thing."""


@dataclass(slots=True)
class ClusterFacts:
    """The merged facts of all clusters: the newest fact about an object wins, in whatever order facts of one uid arrive.

    Without a resourceVersion the order of arrival decides, and nothing is kept of what is gone.
    """

    nodes: dict[tuple[str, str], NodeObserved] = field(default_factory=dict)
    """(cluster, name) → as last observed."""
    objects: dict[Thing, ObjectApplied] = field(default_factory=dict)
    """Queues, tenants, priority classes and grants, as last applied."""
    deleted: dict[Thing, Deletion] = field(default_factory=dict)
    """What is gone."""
    oldest: OldestFirst[Thing] = field(default_factory=OldestFirst, compare=False)
    """The same by when it was recorded. Derived."""
    former: dict[Thing, Former] = field(default_factory=dict)
    """Former lives of the objects: earlier uids of the same names."""
    oldest_former: OldestFirst[Thing] = field(default_factory=OldestFirst, compare=False)
    """The same by when it was recorded. Derived."""

    def absorb(self, event: Event[Data]) -> list[Thing]:
        """Apply one fact; return the objects whose known state changed. None changes if the fact is older."""
        data, now = event.data, event.recordedtime
        if not isinstance(data, NodeObserved | NodeDeleted | ObjectApplied | ObjectDeleted):
            return []
        thing = (event.clusterid, NODE if isinstance(data, NodeObserved | NodeDeleted) else data.kind, data.name)
        known, former = self.known(thing), self.former.get(thing)
        uid = None if known is None else known.uid
        before = {} if former is None else former.lives
        lives = dict(before)
        other = uid if data.uid is not None and data.uid != uid else None
        if isinstance(data, NodeObserved | ObjectApplied):
            news: Known | None = _observed(data, known, other, lives)
        else:
            news = _deleted(data, known, other, lives, now)
        if lives != before:
            former = Former(now, dict(list(lives.items())[-LIVES:]))
        elif news is known:
            return []
        self.know(thing, news, former)
        return [thing, *self._forget(now)]

    def node(self, cluster: str, name: str) -> NodeObserved | Deletion | None:
        """Return a node as it was last observed, also one that is gone; `None`: it is not known."""
        return self.nodes.get((cluster, name)) or self.deleted.get((cluster, NODE, name))

    def things(self) -> Iterator[Thing]:
        """Yield everything of which something is known."""
        yield from ((cluster, NODE, name) for cluster, name in self.nodes)
        yield from self.objects
        yield from self.deleted

    def known(self, thing: Thing) -> Known | None:
        """Return the known state of an object."""
        cluster, kind, name = thing
        standing = self.nodes.get((cluster, name)) if kind == NODE else self.objects.get(thing)
        return standing or self.deleted.get(thing)

    def know(self, thing: Thing, known: Known | None, former: Former | None) -> None:
        """Replace the known state of an object and its former lives; `None`: delete it."""
        cluster, kind, name = thing
        if kind == NODE:
            self.nodes.pop((cluster, name), None)
        self.objects.pop(thing, None)
        self.deleted.pop(thing, None)
        if former is None or known is None:
            self.former.pop(thing, None)
        elif former != self.former.get(thing):
            self.former[thing] = former
            self.oldest_former.note(former.at, thing, self.former, _at, len(self.former))
        if isinstance(known, NodeObserved):
            self.nodes[cluster, name] = known
        elif isinstance(known, ObjectApplied):
            self.objects[thing] = known
        elif known is not None:
            self.deleted[thing] = known
            self.oldest.note(known.at, thing, self.deleted, _at, len(self.deleted))

    def _forget(self, now: int) -> list[Thing]:
        """Forget the deletions that were recorded long before, and the first of more than are kept."""
        forgotten: list[Thing] = []
        while (first := self.oldest.first(self.deleted, _at)) and (first[0] < now - KEPT or len(self.deleted) > DELETIONS):
            self.know(first[1], None, None)
            forgotten.append(first[1])
        while (first := self.oldest_former.first(self.former, _at)) and (first[0] < now - KEPT or len(self.former) > DELETIONS):
            del self.former[first[1]]
            forgotten.append(first[1])
        return forgotten


def _at(kept: Mapping[Thing, Deletion | Former], thing: Thing) -> int | None:
    return kept[thing].at if thing in kept else None


def _observed(
    data: NodeObserved | ObjectApplied, known: Known | None, other: str | None, lives: dict[str, str | None]
) -> Known | None:
    """Return the known state after an observation.

    Args:
        data: the observation.
        known: the state before.
        other: uid of the life that is known, if the observation is of another one.
        lives: see `Former`; what is over then is added.
    """
    follows = known is None or is_newer(data.version, known.version)
    if data.uid in lives:
        last = lives[data.uid]
        if last is None or not is_newer(data.version, last):
            return known
        del lives[data.uid]
        follows = False
    elif not follows and other is None:  # versions are those of one life: after a restore, say, a new one may begin below
        return known
    if known is not None and other is not None:
        # below the other's it may also be a former life that is first heard of late: the one of which more is heard lives
        lives[other] = None if follows else known.version
    return data


def _deleted(
    data: NodeDeleted | ObjectDeleted, known: Known | None, other: str | None, lives: dict[str, str | None], at: int
) -> Known | None:
    """Return the known state after a deletion recorded at `at` (microseconds); else as `_observed`."""
    last = None if known is None else known.version
    gone = isinstance(known, Deletion)
    # a deletion is newer than the observation of its own version; older ones are of an earlier life
    late = not is_newer(data.version, last) and (gone or data.version != last)
    if data.uid is not None and (data.uid in lives or (other is not None and (late or not gone))):
        lives[data.uid] = None
        return known
    version = data.version or last
    if late:
        return known
    if version is None:
        return None
    if other is not None:
        lives[other] = None
    uid = data.uid or (None if known is None else known.uid)
    if isinstance(known, NodeObserved):
        return Deletion(version, at, uid, known.ready, known.unreachable, known.type, known.gpu_model)
    return replace(known, version=version, at=at, uid=uid) if isinstance(known, Deletion) else Deletion(version, at, uid)
