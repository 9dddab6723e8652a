"""Scheduler of a cluster: a round opens a session, runs the actions and closes it. Caches last from round to round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableSet
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from engine.events.scheduling import GroupPhase
from engine.scheduling.actions import ACTIONS, EVICTED_BY
from engine.scheduling.cluster.entities import Job, PodClass, Task
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.configuration import Configuration
from engine.scheduling.errors import ConfigurationError, UnknownActionError, UnknownArgumentError
from engine.scheduling.extension_points import Participants, equivalence_key
from engine.scheduling.inqueue_resources import InqueueResources
from engine.scheduling.outcome import Outcome
from engine.scheduling.pending.jobs import Waiting
from engine.scheduling.pending.queue import PendingQueue
from engine.scheduling.pending.reasons import Reason
from engine.scheduling.placement import Candidates, Placement
from engine.scheduling.plugins import make_plugin
from engine.scheduling.plugins.gang import only_terminating
from engine.scheduling.session import Plugin, Session


class _Quiet(NamedTuple):
    """Round without decisions."""

    now: int
    """Time of the round."""
    revision: int
    """Revision of the cluster after it."""
    others: int
    """Changes among these other than of noted jobs."""
    outcome: Outcome


_PROMISED: Final = Reason("", "VictimsLeaving")


class Scheduler:
    """Scheduler with one configuration for one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: Configuration,
        more: Mapping[str, type[Plugin]] | None = None,
        stopwatch: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Make the plugins.

        Args:
            cluster: model that rounds read, and change by their decisions; run them in a transaction to keep it.
            configuration: actions and plugins.
            more: plugins of third parties, by name.
            stopwatch: clock in seconds, for `seconds` only; by default no time passes.

        Raises:
            ConfigurationError: an action, a plugin or an argument is not known.
        """
        for action in configuration.actions:
            if action not in ACTIONS:
                raise UnknownActionError(action, ACTIONS)
        self._tiers = [[make_plugin(option, more or {}) for option in tier] for tier in configuration.tiers]
        self._participants = Participants.of(self._tiers, more or {})
        names = {option.name for tier in configuration.tiers for option in tier}
        self._knows_all = names.isdisjoint(more or {})
        """Whether no plugin is of a third party."""
        self.minds_what_runs = not EVICTED_BY.keys().isdisjoint(configuration.actions) or not self._knows_all
        """Whether the start of a placed pod can change a round: victims and notices depend on it, and plugins of third parties
        may read it."""
        self._cluster = cluster
        self._configuration = configuration
        self.document: Final = configuration.document()
        self._kept: WeakKeyDictionary[PodClass, Candidates] = WeakKeyDictionary()
        self.pending_queue = PendingQueue(cluster)
        """Jobs waiting for admission."""
        self.inqueue = InqueueResources(cluster)
        self._unschedulable: WeakSet[Job] = WeakSet()
        """Jobs that were Unschedulable at the end of the first round after they last changed."""
        self._quiet: _Quiet | None = None
        """Last round, if it decided nothing: its outcome holds until anything else changes."""
        self.again: int | None = None
        """Time at which the caller needs a round even without a change (microseconds); `None`: never."""
        self._look_again: int | None = None
        """Time at which a job may be given notice even without a change, by the last full round."""
        self._stopwatch = stopwatch
        self.seconds = dict.fromkeys(("open", *configuration.actions, "close"), 0.0)
        """Action → its time in all rounds by the stopwatch; `open` and `close`: the time before and after the actions. A metric
        only."""

    @classmethod
    def must_be_right(cls, configuration: Configuration, more: Mapping[str, type[Plugin]] | None = None) -> None:
        """Check a configuration, and that its plugin or action reads each argument.

        Raises:
            ConfigurationError: an action, a plugin or an argument is not known.
        """
        scheduler = cls(Cluster(), configuration, more)
        scheduler.round(0)  # of an empty cluster: plugins that read their arguments in a session have done so then
        for name in configuration.action_arguments:
            if name not in configuration.actions:
                raise ConfigurationError(f"configurations: {name!r} is none of the actions, {', '.join(configuration.actions)}")
        given = [(f"action {name}", arguments) for name, arguments in configuration.action_arguments.items()]
        given += [(f"plugin {option.name}", option.arguments) for tier in configuration.tiers for option in tier]
        for whose, arguments in given:
            for unknown in arguments.unknown():
                raise UnknownArgumentError(whose, unknown, arguments.asked)

    def open(self, now: int, *, guarded: bool = False) -> tuple[Session, Placement]:
        """Open a session without running actions.

        Args:
            now: the round's time in microseconds.
            guarded: see `round`.
        """
        session = Session(
            self._cluster,
            self._configuration,
            self._tiers,
            self._participants,
            self.pending_queue,
            self.inqueue,
            now,
            guarded=guarded,
        )
        return session, Placement(session, self._kept)

    def round(
        self, now: int, limit: int | None = None, *, failed: Mapping[str, Reason] | None = None, guarded: bool = False
    ) -> Outcome:
        """Run one round.

        Promised places are given up at its end: the next round decides about them again, and once the victims are gone they are
        free.

        Args:
            now: the round's time in microseconds.
            limit: greatest number of tasks bound and evicted, which a gang decided whole may exceed; `None`: any number. A round
                that stops there sets `more`, and the next one continues.
            failed: jobs held because a plugin fails on them, with the published reason.
            guarded: raise failures of plugins with the plugin and the job; slower.

        Raises:
            PluginError: a plugin fails, if `guarded`; moves made by then remain.
        """
        quiet = self._quiet
        if quiet is not None and ((until := self.next_change(quiet.now)) is None or now < until):
            if quiet.revision == self._cluster.revision:
                return Outcome(skipped=True)
            if not (failed or guarded) and self._only_more_wait(quiet):
                self._cluster.touched.clear()
                self._quiet = quiet._replace(now=now, revision=self._cluster.revision)
                return quiet.outcome
        with self._timed("open"):
            session, placement = self.open(now, guarded=guarded)
        session.limit, session.failed = limit, failed or {}
        self.run(session, placement)
        session.outcome.explained.update(session.failed)
        with self._timed("close"):
            close(session, self._unschedulable)
        outcome = session.outcome
        self._look_again = outcome.look_again
        self._quiet = None
        if not (outcome.enqueued or outcome.bound or outcome.pipelined or outcome.evicted or outcome.phases):
            self._quiet = _Quiet(now, self._cluster.revision, self._others(), outcome)
        return outcome

    def _others(self) -> int:
        return self._cluster.revision - self._cluster.noted

    def _only_more_wait(self, quiet: _Quiet) -> bool:
        """Return whether since a round jobs were added behind others of their equivalence class, and nothing else changed.

        The first of a class is refused, and so are they: a session would find the same again.
        """
        return (
            self._knows_all
            and not self._cluster.notices
            and quiet.others == self._others()
            and self.pending_queue.update(partial(equivalence_key, self._participants.alike))
        )

    def next_change(self, now: int) -> int | None:
        """Return the time after `now` at which a round may differ without a change (microseconds); `None`: never."""
        changes = [at for tier in self._tiers for plugin in tier if (at := plugin.next_change(now)) is not None]
        changes += [at for at in (self.again, self._look_again) if at is not None and at > now]
        return min(changes, default=None)

    def gives_notice(self, queue: Queue | None) -> bool:
        """Return whether jobs of a queue are given notice; not if it no longer exists."""
        return queue is not None and self._configuration.gives_notice(queue)

    @property
    def memory(self) -> dict[str, dict[str, int]]:
        """Memory of plugins between rounds, by name."""
        return {plugin.NAME: dict(plugin.memory) for tier in self._tiers for plugin in tier if plugin.memory}

    @memory.setter
    def memory(self, memory: Mapping[str, Mapping[str, int]]) -> None:
        for tier in self._tiers:
            for plugin in tier:
                plugin.memory = dict(memory.get(plugin.NAME, {}))

    def run(self, session: Session, placement: Placement) -> None:
        """Run the configured actions."""
        for action in self._configuration.actions:
            with self._timed(action):
                ACTIONS[action](session, placement)
            if session.outcome.more:
                return

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        begun = self._stopwatch()
        try:
            yield
        finally:
            self.seconds[what] += self._stopwatch() - begun


def close(session: Session, unschedulable: MutableSet[Job]) -> None:
    """Record promises, phases of groups and pending jobs; tasks neither bound nor evicted are Pending again.

    Args:
        session: the session.
        unschedulable: jobs that are Unschedulable (Volcano's condition); brought up to date for those that changed.
    """
    cluster, outcome = session.cluster, session.outcome
    for take_back in session.at_end:
        take_back()
    for job in [job for job in cluster.touched.values() if not job.held]:
        promised: list[tuple[Task, str]] = []
        for task in [*job.with_status("Pipelined").values()]:
            if task.node is not None:
                if len(promised) < session.sizes.most(job):
                    promised.append((task, task.node.name))
                outcome.explained.pop(job.key, None)
            cluster.move(task, "Pending", None)
        outcome.pipelined += promised
        if promised and job.key not in outcome.explained:
            outcome.explained[job.key] = _PROMISED
        for task in [*job.with_status("Allocated").values()]:
            cluster.move(task, "Pending", None)
        found = bool(job.tasks) and not session.job_ready(job) and not only_terminating(job)
        (unschedulable.add if found else unschedulable.discard)(job)
        phase = phase_at_end(job, unschedulable=found)
        if phase != job.phase:
            outcome.phases.append((job, phase))
            cluster.set_phase(job, phase)
    waits = {key: cluster.jobs[key] for key in outcome.explained}
    outcome.unschedulable += [job for job in (cluster.touched | waits).values() if job in unschedulable and not job.held]
    cluster.touched.clear()
    cluster.moved.clear()
    for job in waits.values():
        waiting = outcome.waiting.setdefault(job.queue, Waiting())
        if job.held:
            waiting.held.append(job)
        else:
            waiting.own.append((session.job_key(job), job))
    for kind in [kind for kind in outcome.refused if kind.members]:
        outcome.waiting.setdefault(kind.queue, Waiting()).kinds.append((session.job_key(kind.first)[:-2], kind))
    for waiting in outcome.waiting.values():
        waiting.settle()


def phase_at_end(job: Job, *, unschedulable: bool) -> GroupPhase:
    """Return the phase of a job's group after a session.

    Volcano, in this order: Unknown if tasks run and the job is unschedulable; with enough tasks scheduled Completed if all of those
    are over, else Running; else Inqueue if it was, or Pending. A releasing task counts as scheduled. Unlike in Volcano, a group
    without scheduled tasks is never Completed, even if it needs no member.

    Args:
        job: the job.
        unschedulable: condition Unschedulable in this session.
    """
    if unschedulable and job.with_status("Running"):
        return "Unknown"
    over = job.count("Succeeded", "Failed")
    leaving = sum(task.node is not None for task in job.with_status("Releasing").values())
    scheduled = job.count("Running", "Bound") + over + leaving
    if scheduled and scheduled >= job.min_member:
        return "Completed" if over == scheduled else "Running"
    return "Inqueue" if job.phase == "Inqueue" else "Pending"
