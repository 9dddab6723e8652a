"""Rounds: open a session, run the actions, close it. What classes of pods learned of nodes is kept from round to round."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from engine.scheduling.actions import ACTIONS
from engine.scheduling.configuration import Configuration
from engine.scheduling.errors import ConfigurationError, UnknownActionError
from engine.scheduling.model.cluster import Cluster
from engine.scheduling.model.entities import PodClass
from engine.scheduling.phases import phase_at_end
from engine.scheduling.placement import Candidates, Placement
from engine.scheduling.plugins import make_plugin
from engine.scheduling.plugins.gang import only_terminating
from engine.scheduling.session import Outcome, Plugin, Session

__all__ = ["Scheduler"]


class Scheduler:
    """A configuration at work on one cluster."""

    def __init__(self, cluster: Cluster, configuration: Configuration) -> None:
        """Make the plugins.

        Args:
            cluster: the state that rounds decide on, and change by what they decide.
            configuration: actions and plugins.

        Raises:
            ConfigurationError: an action, a plugin or an argument is not known, or two plugins do not go together.
        """
        for action in configuration.actions:
            if action not in ACTIONS:
                raise UnknownActionError(action, ACTIONS)
        for tier in configuration.tiers:
            names = {option.name: option for option in tier}
            if "proportion" in names and "drf" in names and "hierarchy" in names["drf"].enabled:
                raise ConfigurationError("proportion and hierarchical drf cannot share a tier: both order queues")
        self._cluster = cluster
        self._configuration = configuration
        self._tiers: list[list[Plugin]] = [[make_plugin(option) for option in tier] for tier in configuration.tiers]
        self._kept: WeakKeyDictionary[PodClass, Candidates] = WeakKeyDictionary()
        self._unchanged: tuple[int, int | None] | None = None
        """Revision of the cluster after a round that decided nothing, and when time alone can change that."""

    def open(self, now: int) -> tuple[Session, Placement]:
        """Open a session without running anything.

        Args:
            now: the round's time in microseconds.
        """
        session = Session(self._cluster, self._configuration, self._tiers, now)
        return session, Placement(session, self._kept)

    def round(self, now: int, limit: int | None = None) -> Outcome:
        """Run one round.

        Places that were only promised are given up at its end: the next round decides about them anew, and with what has been
        evicted for them gone they are free.

        Args:
            now: the round's time in microseconds.
            limit: how many tasks to bind and evict at most, but for a gang that is decided whole; `None`: any number. A round that
                stops there says that there is `more`, and leaves the rest to the next one.
        """
        if self._unchanged is not None:
            revision, until = self._unchanged
            if revision == self._cluster.revision and (until is None or now < until):
                return Outcome()
        session, placement = self.open(now)
        session.limit = limit
        self.run(session, placement)
        close(session)
        outcome = session.outcome
        self._unchanged = None
        if not (outcome.enqueued or outcome.bound or outcome.evicted or outcome.phases):
            changes = [at for tier in self._tiers for plugin in tier if (at := plugin.next_change(now)) is not None]
            self._unchanged = (self._cluster.revision, min(changes, default=None))
        return outcome

    def run(self, session: Session, placement: Placement) -> None:
        """Run the configured actions."""
        for action in self._configuration.actions:
            ACTIONS[action](session, placement)
            if session.outcome.more:
                return


def close(session: Session) -> None:
    """Note what is promised, put what was neither bound nor evicted back to Pending, and give groups their phases."""
    cluster, outcome = session.cluster, session.outcome
    for job in list(cluster.touched.values()):
        for task in [*job.with_status("Pipelined").values()]:
            if task.node is not None:
                outcome.pipelined.append((task, task.node.name))
                outcome.reasons.pop(job.key, None)
            cluster.move(task, "Pending", None)
        for task in [*job.with_status("Allocated").values()]:
            cluster.move(task, "Pending", None)
        unschedulable = bool(job.tasks) and not session.job_ready(job) and not only_terminating(job)
        if unschedulable:
            outcome.unschedulable.append(job)
        phase = phase_at_end(job, unschedulable=unschedulable)
        if phase != job.phase:
            outcome.phases.append((job, phase))
            job.phase = phase
    cluster.touched.clear()
    cluster.moved.clear()
