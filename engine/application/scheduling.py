"""Questions about queues, nodes, tenants and pod groups: the scheduling shard as it stands in the log, asked as a round asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from heapq import merge
from itertools import takewhile
from typing import Final, Protocol, TypeVar

from engine.application.errors import RequestError
from engine.application.questions import Questions
from engine.arguments import checked_methods
from engine.events import EventError, decode
from engine.events.times import Micros
from engine.history.errors import NoPodGroupError, only_one
from engine.history.fold import fold
from engine.history.reading import events_of
from engine.history.waiting import Waiting, waiting_of
from engine.log.port import Position, Record, SearchableLog, ShardId, ShardView
from engine.log.ranges import RECORDED, records_between
from engine.processor.partitions import input_partitions
from engine.processor.recovery import recover
from engine.projection.job_tables import JobTables
from engine.runtime.settings import Settings
from engine.runtime.stages import scheduling
from engine.scheduling.errors import PluginError
from engine.scheduling.stage import SchedulingStage
from engine.scheduling.state.shard import State
from engine.scheduling.status import (
    GroupStatus,
    JobName,
    NodeStatus,
    QueueStatus,
    TenantStatus,
    group_statuses,
    node_statuses,
    queue_statuses,
    tenant_statuses,
)
from statemachines.vocabulary import FINISHED_JOB_PHASES


class _Status(Protocol):
    @property
    def cluster(self) -> str: ...

    @property
    def name(self) -> str: ...


S = TypeVar("S", bound=_Status)


@checked_methods
class Scheduling:
    """The scheduling shard of a log, read once, without taking it over: as of the last inputs that it has taken, or of a moment.

    Its state is its snapshot and what it has written since, and shares are those of a session that is opened on it with this
    process's configuration of actions and plugins. Where the stage has never run there is nothing.
    """

    def __init__(
        self, questions: Questions, source: SearchableLog, settings: Settings, *, at: Micros | None = None, hosted: bool = False
    ) -> None:
        """Read the shard.

        Args:
            questions: of the log.
            source: the log.
            settings: name the configuration of scheduling.
            at: as of what the shard had recorded by then (microseconds); the history is folded from its beginning. `None`: now.
            hosted: whether this code runs inside another program (`recover`).

        Raises:
            ConfigurationError: the configuration of scheduling cannot be used.
            LogError: the log cannot be read.
        """
        stage = scheduling(settings)
        shard = ShardId(stage.name, 0)
        present = source.look(shard)
        view = present if at is None or present is None else _view_at(source, stage, shard, present.position, at)
        self._now: Micros = 0 if view is None else view.position.now
        self._state: State = stage.initial() if view is None else recover(source, stage, shard, view, 1, hosted=hosted).state
        told = () if at is None or present is None or view is None else _told(source, stage, shard, view, present, at)
        for record in told:
            with suppress(EventError):  # a dead letter
                stage.absorb(self._state, decode(record.message, bounded=False), record.offset)
                self._now = max(self._now, record.message.recordedtime)
        found = questions.ask(JobTables, lambda jobs: jobs.names(list(self._state.jobs)))
        self._names = {job: JobName(*called) for job, called in found.items()}
        self._meant, self._source = questions.meant, source
        self.at: Final = at
        """As of when the shard was read (microseconds); `None`: now."""

    def queues(self, cluster: str | None = None) -> list[QueueStatus]:
        """Return the queues, of one cluster or all, by cluster and name.

        Raises:
            ValueError: a plugin fails.
        """
        try:
            found = queue_statuses(self._state, self._names, self._now)
        except PluginError as error:
            raise RequestError(f"shares cannot be worked out: {error}; correct the plugin, or take it out") from error
        return _of(cluster, found)

    def nodes(self, cluster: str | None = None) -> list[NodeStatus]:
        """Return the nodes, of one cluster or all, by cluster and name."""
        return _of(cluster, node_statuses(self._state, self._names))

    def tenants(self, cluster: str | None = None) -> list[TenantStatus]:
        """Return the tenants, of one cluster or all, by cluster and name."""
        return _of(cluster, tenant_statuses(self._state, self._names))

    def pod_groups(self, cluster: str | None = None) -> list[GroupStatus]:
        """Return the pod groups of jobs that Lahar schedules and that are not over, the oldest job first."""
        return _of(cluster, group_statuses(self._state, self._names))

    def queue(self, name: str, cluster: str | None = None) -> QueueStatus:
        """Return a queue.

        Raises:
            NotFoundError: there is none of this name.
            AmbiguousError: several clusters have one, and none is named.
        """
        return _one("queue", name, self.queues, cluster)

    def node(self, name: str, cluster: str | None = None) -> NodeStatus:
        """Return a node; errors as of `queue`."""
        return _one("node", name, self.nodes, cluster)

    def tenant(self, name: str, cluster: str | None = None) -> TenantStatus:
        """Return a tenant; errors as of `queue`."""
        return _one("tenant", name, self.tenants, cluster)

    def pod_group(self, job: str) -> GroupStatus:
        """Return the pod group of a job.

        Raises:
            NotFoundError: there is no such job.
            NoPodGroupError: it is over, only observed, or another scheduler has it.
            AmbiguousError: the reference matches several jobs.
        """
        ident = self._meant(job)
        found = next((group for group in self.pod_groups() if group.job == ident), None)
        if found is None:
            raise NoPodGroupError(job, self._why_no_group(ident))
        return found

    def waiting(self, job: str) -> Waiting | None:
        """Return the pending reason of a job's pod group; `None`: it is not pending, or no reason is recorded."""
        return waiting_of(self._source, self._meant(job), self.at)

    def _why_no_group(self, job: str) -> str:
        view = fold(events_of(self._source, job))
        if view is None:
            return "it is not opened yet"
        if not view.managed:
            return "it is only observed: its own controller and scheduler place its pods"
        if view.phase in FINISHED_JOB_PHASES:
            return f"it is {view.phase}"
        return "scheduling has not taken it yet, or its schedulerName is another scheduler's"


def _view_at(source: SearchableLog, stage: SchedulingStage, shard: ShardId, present: Position, at: Micros) -> ShardView:
    """Return what the shard had written by a moment, to be folded without a snapshot."""
    written = (one for one in source.scan(stage.outputs) if one.shard == str(shard) and one.message.recordedtime <= at)
    found = max(written, key=lambda record: record.shardsequence, default=None)
    if found is None:
        return ShardView(Position((0,) * len(present.vector), 0, 0), [])
    return ShardView(Position(found.basis, found.message.recordedtime, found.shardsequence), [])


def _told(
    source: SearchableLog, stage: SchedulingStage, shard: ShardId, view: ShardView, present: ShardView, at: Micros
) -> Iterator[Record]:
    """Return the inputs recorded by a moment that the shard took without an output, however they fell into commits."""
    parts = zip(input_partitions(source, stage, shard.number), view.position.vector, present.position.vector, strict=True)
    taken = merge(*(records_between(source, *part) for part in parts), key=RECORDED)
    return takewhile(lambda record: RECORDED(record) <= at, taken)


def _of(cluster: str | None, found: list[S]) -> list[S]:
    return [one for one in found if cluster in {None, one.cluster}]


def _one(kind: str, name: str, known: Callable[[str | None], list[S]], cluster: str | None) -> S:
    every = known(cluster)
    found = [one for one in every if one.name == name]
    only_one(kind, name, [one.cluster for one in found], (one.name for one in every))
    return found[0]
