"""Feasible and best nodes for a class of pods: computed over all nodes once, then only over nodes that changed.

A class keeps its masks and scores between rounds. Two arrays hold the scores: of nodes with room now, and of nodes that will
have room once all releasing pods are gone. Nodes without room are at minus infinity, so the best node is the first maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from operator import ge, is_
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from engine.scheduling.cluster.entities import Node, PodClass, Task
from engine.scheduling.cluster.nodes import NodeTable
from engine.scheduling.plugin_results import Mask, Preference, Rows, Scores, Verdict
from engine.scheduling.session import Session

_NOWHERE: Final = -np.inf
_FEW: Final = 6
"""Greatest number of changed nodes that are scored one by one."""
_KEPT: Final = 1_000
"""Greatest number of classes whose candidates are kept between rounds; some 140 KB each on 5,000 nodes."""


class Candidates:
    """Masks and scores of all nodes for one class of pods (in one namespace, if pod affinity depends on it)."""

    __slots__ = ("allowed", "clock", "full", "later", "layout", "made_for", "now", "refusals", "score", "verdicts")

    def __init__(self, table: NodeTable) -> None:
        width = len(table.nodes)
        self.layout = table.layout
        self.clock = -1
        """Time of the last update of scores (`NodeTable.clock`)."""
        self.full = -1
        """Time since which no node has or will have room (`NodeTable.clock`)."""
        self.made_for: object = None
        """Token of the session in which the masks were made; not the session itself, which refers to the class."""
        self.refusals: tuple[int, dict[str, int], dict[str, float]] = (-1, {}, {})
        """Time (`NodeTable.clock`), and reasons why no node takes a pod of the class."""
        self.verdicts: list[Verdict] = []
        self.allowed: Mask = np.zeros(width, np.bool_)
        self.score: Scores = np.zeros(width)
        self.now: Scores = np.full(width, _NOWHERE)
        self.later: Scores = np.full(width, _NOWHERE)


class Placement:
    """Finds nodes for the tasks of one session."""

    def __init__(self, session: Session, kept: WeakKeyDictionary[PodClass, Candidates]) -> None:
        """Prepare.

        Args:
            session: the session.
            kept: candidates of classes from earlier sessions with the same plugins; those of another layout are recomputed.
        """
        self._session = session
        self._token = object()
        self._table: NodeTable = session.cluster.table
        self._kept = kept
        self._scorers: list[Callable[..., Scores | None]] = _flat(session, "node_order")
        self._by_number = all(getattr(getattr(one, "__self__", None), "SCORES_ONE_NODE", False) for one in self._scorers)
        self._batch_scorers = _flat(session, "batch_node_order")
        self._task_scorers = _flat(session, "task_node_order")
        self._predicates = _flat(session, "predicate")
        self._pod_predicates = _flat(session, "pod_predicate")

    def candidates(self, task: Task) -> Candidates:
        """Return the up-to-date candidates of a task's class, without terms that depend on other pods."""
        found = self._judged(task)
        self._look(found, task.pod_class)
        return found

    def _judged(self, task: Task) -> Candidates:
        """Return the candidates of a task's class with up-to-date masks; scores may be outdated."""
        pod_class = task.pod_class
        self._session.about = task.job.key
        found = self._kept.get(pod_class)
        if found is None or found.layout != self._table.layout:
            self._kept.pop(pod_class, None)
            if len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept.keys()))]
            found = self._kept[pod_class] = Candidates(self._table)
        if found.made_for is not self._token:
            self._judge(found, pod_class)
        return found

    def _judge(self, found: Candidates, pod_class: PodClass) -> None:
        """Compute the masks of a class; if they changed, all nodes are scored again."""
        verdicts = [verdict for predicate in self._predicates for verdict in predicate(pod_class)]
        judged, found.made_for = found.made_for is not None, self._token
        if judged and len(verdicts) == len(found.verdicts) and all(map(is_, verdicts, found.verdicts)):
            return
        found.refusals = (-1, {}, {})
        allowed = _all(verdicts, len(self._table.nodes))
        if not np.array_equal(allowed, found.allowed):
            found.clock = found.full = -1
        found.verdicts, found.allowed = verdicts, allowed

    def _look(self, found: Candidates, pod_class: PodClass) -> None:
        """Score the nodes that changed since the last update."""
        table = self._table
        if found.clock == table.clock:
            return
        if found.clock < 0:
            self._score(found, pod_class, slice(0, len(table.nodes)))
        elif self._by_number and (few := table.few_changed_since(found.clock, _FEW)) is not None:
            for row in few:
                self._score_one(found, pod_class, row)
        else:
            self._score(found, pod_class, table.changed_since(found.clock))
        found.clock = table.clock

    def _score(self, found: Candidates, pod_class: PodClass, where: slice | NDArray[np.intp]) -> None:
        rows = Rows(self._table, pod_class, where)
        now, later = (rows.room >= pod_class.least).all(axis=1) & found.allowed[where]
        now &= later
        score: Any = 0.0
        for scorer in self._scorers:
            part = scorer(pod_class, rows)
            if part is not None:
                score = score + part
        found.score[where] = score
        found.now[where] = np.where(now, score, _NOWHERE)
        found.later[where] = np.where(later > now, score, _NOWHERE)

    def _score_one(self, found: Candidates, pod_class: PodClass, row: int) -> None:
        """Do the same as `_score` for one node: arrays of one element take ten times as long as numbers."""
        rows, least = Rows(self._table, pod_class, row), pod_class.least[:, 0].tolist()
        now, later = (all(map(ge, side, least)) for side in rows.room)
        later = later and bool(found.allowed[row])
        score = sum(part for scorer in self._scorers if (part := scorer(pod_class, rows)) is not None)
        found.score[row] = score
        found.now[row] = score if now and later else _NOWHERE
        found.later[row] = score if later and not now else _NOWHERE

    # Choices --------------------------------------------------------------------------------------------------------------

    def best(self, task: Task) -> tuple[Node, bool] | None:
        """Return the best node for a task, and whether there is room on it now; `None`: no node will have room.

        Volcano: nodes with room now come before nodes that will have room; of equal scores the first name wins.
        """
        found = self._judged(task)
        if self._is_full(found, task.pod_class):
            return None
        self._look(found, task.pod_class)
        now, later = found.now, found.later
        extra = self._extra(task, now, later)
        if extra is not None:
            now, later = now + extra, later + extra
        if not len(now):
            return None
        for scores, at_once in ((now, True), (later, False)):
            row = int(scores.argmax())
            if scores[row] > _NOWHERE:
                return self._table.nodes[row], at_once
        if extra is None:
            found.full = found.clock
        return None

    def _is_full(self, found: Candidates, pod_class: PodClass) -> bool:
        """Return whether no node has or will have room, examining only nodes that changed since this last held."""
        table = self._table
        if 0 <= found.full < table.freed:
            changed = table.changed_since(found.full)
            room = (table.future[:, changed] - pod_class.vector >= pod_class.least).all(axis=0) & found.allowed[changed]
            found.full = -1 if room.any() else table.clock
        return found.full >= 0

    def _extra(self, task: Task, now: Scores, later: Scores) -> Scores | None:
        """Return terms that depend on other pods: minus infinity on excluded nodes, and their part of the score."""
        extra: Any = None
        verdicts = list(self._pod_verdicts(task))
        if verdicts:
            extra = np.where(_all(verdicts, len(now)), 0.0, _NOWHERE)
        for scorer in self._task_scorers:
            part = scorer(task)
            if part is not None:
                extra = part if extra is None else extra + part
        preferences = self._preferences(task)
        if preferences:
            feasible = np.maximum(now, later) > _NOWHERE
            if extra is not None:
                feasible &= extra > _NOWHERE
            part = _scaled(preferences, feasible)
            extra = part if extra is None else extra + part
        return None if extra is None else np.asarray(extra, np.float64)

    def _preferences(self, task: Task) -> list[Preference]:
        return [one for scorer in self._batch_scorers for one in scorer(task.pod_class, task.job.namespace)]

    def _pod_verdicts(self, task: Task, without: AbstractSet[Task] | None = None) -> Iterator[Verdict]:
        gone = self._session.evicted if without is None else without
        for predicate in self._pod_predicates:
            yield from predicate(task.pod_class, task.job.namespace, gone)

    def resolvable(self, task: Task) -> NDArray[np.intp]:
        """Return the rows of nodes where evictions could make room for a task, best first."""
        found = self.candidates(task)
        width = len(self._table.nodes)
        verdicts = [*found.verdicts, *self._pod_verdicts(task)]
        possible = _all([verdict for verdict in verdicts if not verdict.resolvable], width)
        order = np.argsort(-self._full_score(task, found, possible), kind="stable")
        return order[possible[order]]

    def scores(self, task: Task) -> Scores:
        """Return the scores of all nodes for a task, feasible or not."""
        return self._full_score(task, self.candidates(task), np.ones(len(self._table.nodes), np.bool_))

    def _full_score(self, task: Task, found: Candidates, feasible: Mask) -> Scores:
        score = found.score.copy()
        for scorer in self._task_scorers:
            part = scorer(task)
            if part is not None:
                score += part
        score += _scaled(self._preferences(task), feasible)
        return score

    def passes(self, task: Task, node: Node, without: AbstractSet[Task] | None = None) -> bool:
        """Return whether a node passes all predicates for a task, resources aside.

        Args:
            task: the task.
            node: the node.
            without: tasks that count as gone; `None`: the session's evicted ones.
        """
        found = self._judged(task)
        return bool(found.allowed[node.row]) and all(verdict.passes[node.row] for verdict in self._pod_verdicts(task, without))

    def room(self, task: Task, node: Node) -> bool:
        """Return whether a node will have room for a task once all releasing pods are gone."""
        after = self._table.future[:, node.row, None] - task.pod_class.vector
        return bool((after >= task.pod_class.least).all())

    def refusals(self, task: Task) -> tuple[dict[str, int], dict[str, float]]:
        """Return the reasons why no node takes a task.

        Returns:
            Reason → number of nodes where it is the first to fail, resources last, of these first those too large for an empty
            node. And resource → missing amount on the node that misses least.
        """
        found, clock = self._judged(task), self._table.clock
        pod_verdicts = list(self._pod_verdicts(task))
        if not pod_verdicts and found.refusals[0] == clock:
            return found.refusals[1:]
        left = np.ones(len(self._table.nodes), np.bool_)
        counts: dict[str, int] = {}
        for verdict in [*found.verdicts, *pod_verdicts]:
            failed = int(np.count_nonzero(left & ~verdict.passes))
            if failed:
                counts[verdict.reason] = counts.get(verdict.reason, 0) + failed
                left &= verdict.passes
        missing: dict[str, float] = {}
        for word, room_of in (("NodeTooSmall", self._table.allocatable_of), ("InsufficientResource", self._table.future_of)):
            for name, amount in task.pod_class.items:
                room = room_of(name)
                lacking = left & (room < amount)
                failed = int(np.count_nonzero(lacking))
                if failed:
                    counts[f"{word}/{name}"] = failed
                    if failed == np.count_nonzero(left):
                        missing[name] = amount - int(room[lacking].max())
                    left &= ~lacking
        found.refusals = (clock, counts, missing)
        return counts, missing


def _flat(session: Session, point: str) -> list[Callable[..., Any]]:
    return [function for tier in session.functions(point) for function in tier]


def _all(verdicts: list[Verdict], width: int) -> Mask:
    allowed = np.ones(width, np.bool_)
    for verdict in verdicts:
        allowed &= verdict.passes
    return allowed


def _scaled(preferences: list[Preference], feasible: Mask) -> Scores:
    """Sum scores, each scaled to 0 (worst) to 100 (best) over the feasible nodes (Kubernetes)."""
    total = np.zeros(len(feasible))
    if feasible.any():
        for weight, raw in preferences:
            low, high = raw[feasible].min(), raw[feasible].max()
            if high > low:
                total += weight * 100.0 * (raw - low) / (high - low)
    return total
