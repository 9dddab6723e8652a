"""Fold of cluster facts, which concern no single job: nodes, queues, tenants, priority classes and grants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from engine.events import Data, Event
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied, ObjectDeleted
from engine.events.times import SECOND
from engine.kubernetes.observation.oldest_first import OldestFirst
from engine.kubernetes.observation.versions import is_newer
from statemachines.value import Value

Thing: TypeAlias = tuple[str, str, str]
"""Cluster, kind and name."""
NODE: Final = "Node"
"""Kind of a node; the other kinds are those of `ObjectApplied`."""
DELETIONS: Final = 10_000
"""Maximum number of remembered deletions, and of objects with former lives; the earliest recorded is dropped first."""
KEPT: Final = 30 * 86_400 * SECOND
"""Time for which deletions are remembered (microseconds); older observations are not expected later."""
LIVES: Final = 4
"""Maximum number of former lives per object; the one that ended first is dropped first."""


class Deletion(Value):
    """Record of a deleted object, so that an older observation does not restore it."""

    version: str
    """Newest known resourceVersion."""
    at: int
    """Recorded time of the deletion (microseconds)."""
    uid: str | None = None
    """Uid; `None`: unknown."""
    ready: Literal["True", "False", "Unknown"] = "True"
    """This and the following fields are a node's, from its last `NodeObserved`."""
    unreachable: bool = False
    type: str | None = None
    gpu_model: str | None = None


class Former(Value):
    """Former lives of an object: earlier uids of the same name, so that their late facts are recognised as late."""

    at: int
    """Recorded time of the latest end (microseconds)."""
    lives: dict[str, str | None]
    """By uid: `None`, or the version above which that life is current again, because its successor had a lower version."""


Known: TypeAlias = NodeObserved | ObjectApplied | Deletion
"""Known state of an object."""


@dataclass(slots=True)
class ClusterFacts:
    """Merged facts of all clusters: the newest fact about an object wins, regardless of the order in which facts of one uid arrive.

    Without a resourceVersion the order of arrival decides, and deletions are not remembered.
    """

    nodes: dict[tuple[str, str], NodeObserved] = field(default_factory=dict)
    """Last observation by cluster and name."""
    objects: dict[Thing, ObjectApplied] = field(default_factory=dict)
    """Queues, tenants, priority classes and grants, as last applied."""
    deleted: dict[Thing, Deletion] = field(default_factory=dict)
    """Deleted objects."""
    oldest: OldestFirst[Thing] = field(default_factory=OldestFirst, compare=False)
    """Deleted objects by recorded time. Derived."""
    former: dict[Thing, Former] = field(default_factory=dict)
    """Former lives of the objects: earlier uids of the same names."""
    oldest_former: OldestFirst[Thing] = field(default_factory=OldestFirst, compare=False)
    """Former lives by recorded time. Derived."""

    def absorb(self, event: Event[Data]) -> list[Thing]:
        """Apply one fact; return the objects whose known state changed, none for an old fact."""
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
        """Return a node's last observation, or its deletion; `None`: unknown."""
        return self.nodes.get((cluster, name)) or self.deleted.get((cluster, NODE, name))

    def things(self) -> Iterator[Thing]:
        """Yield all objects with a known state."""
        yield from ((cluster, NODE, name) for cluster, name in self.nodes)
        yield from self.objects
        yield from self.deleted

    def known(self, thing: Thing) -> Known | None:
        """Return the known state of an object."""
        cluster, kind, name = thing
        standing = self.nodes.get((cluster, name)) if kind == NODE else self.objects.get(thing)
        return standing or self.deleted.get(thing)

    def is_there(self, thing: Thing) -> bool:
        """Return true if an object is known and not deleted."""
        cluster, kind, name = thing
        return (cluster, name) in self.nodes if kind == NODE else thing in self.objects

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
        """Drop deletions that are too old or too many; return their objects."""
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
        known: state before.
        other: uid of the known life, if the observation is of another one.
        lives: see `Former`; ended lives are added.
    """
    follows = known is None or is_newer(data.version, known.version)
    if data.uid in lives:
        last = lives[data.uid]
        if last is None or not is_newer(data.version, last):
            return known
        del lives[data.uid]
        follows = False
    elif not follows and other is None:  # versions are per life: after a restore a new life may begin lower
        return known
    if known is not None and other is not None:
        # with a version below the other's, it may also be a former life observed late: the life with later observations is current
        lives[other] = None if follows else known.version
    return data


def _deleted(
    data: NodeDeleted | ObjectDeleted, known: Known | None, other: str | None, lives: dict[str, str | None], at: int
) -> Known | None:
    """Return the known state after a deletion recorded at `at` (microseconds); other arguments as in `_observed`."""
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
