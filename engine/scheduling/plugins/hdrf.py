"""Hierarchical DRF: shares of the nodes of a tree of queues (Bhattacharya et al., 2013; Volcano `drf` with its hierarchy)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.scheduling.cluster.amounts import PODS, Amounts, Part, add, dominant_share, subtract
from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.queues import Queue

_HIERARCHY: Final = "volcano.sh/hierarchy"
_ROOT: Final = "root"
_WEIGHTS: Final = "volcano.sh/hierarchy-weights"


@dataclass(slots=True)
class _Branch:
    """Branch of the tree; a leaf is a job."""

    weight: float = 1.0
    parent: _Branch | None = None
    children: dict[str, _Branch] = field(default_factory=dict)
    counted: dict[str, _Branch] = field(default_factory=dict)
    """Children without jobs that hold nothing: thousands may be pending and add to no share."""
    job: str = ""
    """Name of a leaf's job; empty: not a leaf."""
    allocated: Amounts = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)
    share: float = 0.0
    saturated: bool = False
    stale: bool = True
    """A leaf below has changed since the share was calculated."""

    @property
    def key(self) -> tuple[bool, float]:
        return self.saturated, self.share / self.weight


class Tree:
    """Tree of branches and jobs; after a change only the branches above it are recalculated."""

    def __init__(self, total: Amounts) -> None:
        self._root = _Branch()
        self._total = total
        self._allocated: Amounts = {}
        self._demanded: set[str] = set()
        """Resources that are not exhausted in the cluster."""

    def add_job(self, job: Job) -> None:
        """Add a job below its queue's branch."""
        branch = self._root
        for name, weight in _branches(job.path):
            if name not in branch.children:
                branch.children[name] = branch.counted[name] = _Branch(weight, branch)
            branch = branch.children[name]
        name = f"job {job.key}"
        branch.children[name] = _Branch(parent=branch, job=name)
        self.follow(job)

    def follow(self, job: Job) -> None:
        """Update the held and requested resources of a job."""
        leaf = self._leaf(job)
        subtract(self._allocated, leaf.allocated.items())
        leaf.allocated, leaf.requested = dict(job.allocated), dict(job.requested)
        add(self._allocated, leaf.allocated.items())
        _changed(leaf)

    def change(self, job: Job, part: Part, by: int) -> None:
        """Add to (1) or subtract from (-1) the held resources of a job."""
        leaf = self._leaf(job)
        for amounts in (leaf.allocated, self._allocated):
            (add if by > 0 else subtract)(amounts, part)
        _changed(leaf)

    def _leaf(self, job: Job) -> _Branch:
        branch = self._root
        for name, _ in _branches(job.path):
            branch = branch.children[name]
        return branch.children[f"job {job.key}"]

    def path_key(self, path: tuple[Queue, ...]) -> tuple[object, ...]:
        """Return the order key of a queue, given with the queues above it: the keys of its branches from the root down."""
        self._refresh()
        branch: _Branch | None = self._root
        key: list[object] = []
        for name, _ in _branches(path):
            branch = branch.children.get(name) if branch is not None else None
            key += [*(branch.key if branch is not None else (False, 0.0))]
        return tuple(key)

    def before(self, one: tuple[Queue, ...], other: tuple[Queue, ...]) -> bool:
        """Return whether one queue's branch comes strictly before another's."""
        left, right = self.path_key(one), self.path_key(other)
        depth = min(len(left), len(right))
        return left[:depth] < right[:depth]

    def _refresh(self) -> None:
        if self._root.stale:
            demanded = {name for name, amount in self._total.items() if self._allocated.get(name, 0) < amount}
            self._update(self._root, every=demanded != self._demanded, demanded=demanded)
            self._demanded = demanded

    def _update(self, branch: _Branch, *, every: bool, demanded: set[str]) -> None:
        """Recalculate shares and saturation of the stale branches (or all) below a branch, then its own.

        A job is saturated if its request of some resource is met, or that resource is exhausted. A branch holds the sum of its
        saturated children, and of the others their resources scaled to the smallest dominant share among them.
        """
        branch.stale = False
        if branch.job:
            branch.share = dominant_share(branch.allocated, self._total)
            branch.saturated = any(
                amount >= asked or name not in demanded
                for name, amount in branch.allocated.items()
                if amount and (asked := branch.requested.get(name, 0)) and name != PODS
            )
            return
        counted = [branch.counted[name] for name in sorted(branch.counted)]  # sums of fractions depend on their order
        for child in counted:
            if every or child.stale:
                self._update(child, every=every, demanded=demanded)
        active = [child.share for child in counted if child.share and not child.saturated]
        smallest = min([1.0, *active])
        branch.allocated = {}
        for child in counted:
            scale = 1.0 if child.saturated or not child.share else smallest / child.share
            add(branch.allocated, [(name, amount * scale) for name, amount in child.allocated.items()])
        branch.share = dominant_share(branch.allocated, self._total)
        branch.saturated = len(counted) == len(branch.children) and all(child.saturated for child in counted)


def build_tree(cluster: Cluster, total: Amounts) -> Tree:
    """Return the tree of the jobs whose queue exists."""
    tree = Tree(total)
    for _, job in sorted(cluster.jobs.items()):  # sums of fractions depend on their order
        if job.path:
            tree.add_job(job)
    return tree


def _changed(leaf: _Branch) -> None:
    """Update whether a job counts as holding something, and mark the branches above it as stale."""
    branch = leaf.parent
    assert branch is not None  # noqa: S101 - a job has one above it
    if leaf.allocated:
        branch.counted[leaf.job] = leaf
    else:
        branch.counted.pop(leaf.job, None)
    leaf.stale = True
    while branch is not None:
        branch.stale = True
        branch = branch.parent


def _branches(path: tuple[Queue, ...]) -> list[tuple[str, float]]:
    """Return the branches below the root that lead to a queue, each with its weight; a weight below 1 counts as 1.

    Volcano: from the queue's annotations, else from the queues above it.
    """
    queue = path[0]
    stated = queue.annotations.get(_HIERARCHY)
    if not stated:
        return [(one.name, max(1.0, one.weight)) for one in reversed(path) if one.name != _ROOT]
    weights = queue.annotations.get(_WEIGHTS, "").split("/")
    return [
        (name, max(1.0, _number(weights[level]) if level < len(weights) else 1.0))
        for level, name in enumerate(stated.split("/"))
        if level
    ]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0
