"""Scheduling session: the cluster and the extension points of all plugins, tier by tier (Volcano `framework.Session`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from engine.former_names import former
from engine.scheduling.cluster.amounts import Amounts
from engine.scheduling.cluster.entities import Job, Node, Status, Task
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.configuration import Arguments, Configuration, PluginOption
from engine.scheduling.decision_size import DecisionSizes
from engine.scheduling.errors import PluginError
from engine.scheduling.extension_points import Participants, equivalence_key
from engine.scheduling.inqueue_resources import InqueueResources
from engine.scheduling.outcome import Outcome
from engine.scheduling.pending.queue import PendingQueue
from engine.scheduling.pending.reasons import Reason, ReasonCode
from engine.scheduling.plugin_results import PERMIT, REJECT, Invalid, QueueShare, Vote


class Plugin:
    """Base class of plugins."""

    NAME: ClassVar[str]
    COUNTS_VICTIMS_BY: ClassVar[Literal["", "job", "queue"]] = ""
    """Unit by which the plugin chooses victims; if set, one pod per job (or queue) and class is tried before nodes are searched.

    `job`: victims depend on their job and class alone, up to the surplus of the job; `queue`: the same by queue. A candidate that
    is rejected alone, or for one task of a job, is also rejected among others and for the job's later tasks. Empty: any choice.
    """
    SCORES_ONE_NODE: ClassVar[bool] = False
    """Whether `node_order` also takes the `Rows` of one node, with numbers in place of arrays, and returns a number then."""
    session: Session

    def __init__(self, option: PluginOption) -> None:
        """Read the arguments.

        Raises:
            ConfigurationError: an argument cannot be used.
        """
        self.option = option
        self.memory: dict[str, int] = {}
        """Memory between sessions: integers by names of the plugin's choice. All other state is rebuilt."""

    def open(self, session: Session) -> None:
        """Prepare for a session; called before any other method, in the order of the tiers."""
        self.session = session

    def alike(self, job: Job) -> Hashable:
        """Return an equal key for jobs without pods that `job_order` and `job_enqueueable` treat alike; by default each differs.

        Only the first of them is tried: once it is refused all are, since each admission leaves less for the others.
        """
        return job.key

    def next_change(self, now: int) -> int | None:
        """Return the time after `now` at which a result may change without an event (microseconds); `None`: never."""
        del now
        return None


class Session:
    """Interface of actions and plugins during one round."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: Configuration,
        tiers: Sequence[Sequence[Plugin]],
        participants: Participants,
        pending_queue: PendingQueue,
        inqueue: InqueueResources,
        now: int,
        *,
        guarded: bool = False,
    ) -> None:
        """Open a session.

        Args:
            cluster: model that the session reads and moves tasks in.
            configuration: actions with their arguments.
            tiers: plugins by tier.
            participants: their methods.
            pending_queue: jobs waiting for admission, by the same plugins.
            inqueue: resources that admitted jobs have not allocated yet.
            now: the round's time in microseconds.
            guarded: raise failures of plugins as `PluginError`.
        """
        cluster.settle()
        self.cluster = cluster
        self.pending_queue = pending_queue
        self.inqueue = inqueue
        self.configuration = configuration
        self.now = now
        self.total = cluster.total()
        self.outcome = Outcome()
        self.sizes = DecisionSizes(cluster)
        self._too_large: set[str] = set()
        self.limit: int | None = None
        """Number of bound and evicted tasks at which actions stop, which a gang decided whole may exceed; `None`: no limit."""
        self.failed_roles: dict[str, set[str]] = {}
        """Key of a job → roles of its tasks that found no node in this session (Volcano `NodesFitErrors`)."""
        self.evicted: set[Task] = set()
        """Tasks evicted in this session; predicates ignore them on their nodes."""
        self.failed: Mapping[str, Reason] = {}
        """Key of a job on which a plugin fails → published reason; plugins are not called for it."""
        self.at_end: list[Callable[[], None]] = []
        """Callbacks at the start of the session's close."""
        self.about = ""
        """Key of the job for which pod classes are filtered and scored."""
        self._job_keys: dict[str, tuple[int, tuple[object, ...]]] = {}
        """Key of a job → revision of the cluster, and sort key then."""
        self._action = ""
        self.decided = 0
        """Number of statements committed or kept; results of a search hold until the next one."""
        self._points, self.counts_by, alike = participants.points, participants.counts_by, participants.alike
        if guarded:
            alike = [partial(_guarded, self, "alike", function) for function in alike]
            self._points = {
                point: [[partial(_guarded, self, point, function) for function in tier] for tier in found]
                for point, found in self._points.items()
            }
        self._job_order, self._queue_order, self._task_order = (
            [function for tier in self._points[point] for function in tier] for point in ("job_order", "queue_order", "task_order")
        )
        self._alike, self._tell_apart = alike, participants.tell_apart
        pending_queue.update(partial(equivalence_key, alike))
        for tier in tiers:
            for plugin in tier:
                if guarded:
                    _guarded(self, "open", plugin.open, self)
                else:
                    plugin.open(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            return former(self, name, {"admitted": "inqueue", "lines": "pending_queue"})

    # Actions --------------------------------------------------------------------------------------------------------------

    def begin(self, action: str) -> Arguments:
        """Set the running action, and return its arguments."""
        self._action = action
        return self.configuration.arguments_of(action)

    def at_limit(self) -> bool:
        """Return whether the round has reached its limit, and set `more` if so."""
        if self.limit is None or len(self.outcome.bound) + len(self.outcome.evicted) < self.limit:
            return False
        self.outcome.more = True
        return True

    @property
    def action(self) -> str:
        """Name of the running action."""
        return self._action

    def move(self, task: Task, status: Status, node: Node | None) -> None:
        """Move a task in the model, for statements; maintains `evicted`."""
        if status == "Releasing":
            self.evicted.add(task)
        elif task.status == "Releasing":
            self.evicted.discard(task)
        self.cluster.move(task, status, node)

    def explain(
        self,
        job: Job,
        code: ReasonCode,
        plugin: str = "",
        subject: str = "",
        missing: Mapping[str, float] | None = None,
        nodes: Mapping[str, int] | None = None,
        message: str = "",
        asked: Mapping[str, float] | None = None,
    ) -> None:
        """Record why a job stays pending."""
        self.outcome.explained[job.key] = Reason(
            self._action, code, plugin, subject, dict(missing or {}), dict(asked or {}), dict(nodes or {}), message
        )

    def look_again(self, at: int) -> None:
        """Request a session at a time (microseconds), even if nothing changes until then."""
        found = self.outcome.look_again
        self.outcome.look_again = at if found is None else min(found, at)

    def schedulable(self, waits: Callable[[Job], object]) -> Iterable[Job]:
        """Yield valid admitted jobs with pending pods; record a reason for jobs that are invalid or have no queue.

        Args:
            waits: whether a job has pods that the action may place; other jobs are skipped.
        """
        for name in sorted(self.pending_queue.pending):
            job = self.pending_queue.others[name]
            if job.held or job.phase in {"", "Pending"} or not waits(job):
                continue
            invalid = self.job_valid(job) if job.path else Invalid("QueueNotFound", job.queue)
            if invalid is None and self.is_too_large(job):
                self.explain_size(job)
            elif invalid is None:
                yield job
            elif job.with_status("Pending"):
                self.explain(job, invalid.reason, "gang" if job.path else "", invalid.subject)

    def is_too_large(self, job: Job) -> bool:
        """Return whether one decision cannot place all pods that the job needs together."""
        return job.key in self._too_large or job.min_member - job.ready > self.sizes.most(job)

    def explain_size(self, job: Job) -> None:
        """Record that a job's gang is too large for one decision, and exclude it from the session."""
        self._too_large.add(job.key)
        most = self.sizes.most(job)
        message = f"one decision can place {most:,} of its pods, and more must be placed together"
        self.explain(job, "GangTooLarge", message=message)

    # Orders ---------------------------------------------------------------------------------------------------------------

    def functions(self, point: str) -> list[list[Callable[..., Any]]]:
        """Return the plugins' methods at an extension point by tier, without empty tiers."""
        return self._points[point]

    def alike(self, job: Job) -> tuple[Hashable, ...]:
        """Return an equal key for jobs that plugins treat alike while these hold no resources.

        A plugin of a third party may distinguish any two jobs; those of Lahar declare the properties that they read.
        """
        if self._tell_apart:
            return (job.key,)
        return tuple(function(job) for function in self._alike)

    def job_key(self, job: Job) -> tuple[object, ...]:
        """Return a job's sort key: by plugins, then oldest first (Volcano). Cached while nothing changes in the cluster."""
        revision = self.cluster.revision
        at, key = self._job_keys.get(job.key, (-1, ()))
        if at != revision:
            key = (*[function(job) for function in self._job_order], job.created, job.key)
            self._job_keys[job.key] = (revision, key)
        return key

    def queue_key(self, queue: Queue) -> tuple[object, ...]:
        """Return a queue's sort key: by plugins, then oldest first (Volcano)."""
        return (*[function(queue) for function in self._queue_order], queue.created, queue.name)

    def task_key(self, task: Task) -> tuple[object, ...]:
        """Return a task's sort key: by plugins, then by index, then oldest first (Volcano)."""
        return (*[function(task) for function in self._task_order], task.index, task.created, task.key)

    def in_order(self, tasks: Iterable[Task]) -> list[Task]:
        """Return tasks sorted by `task_key`."""
        return sorted(tasks, key=self.task_key)

    def victims_in_order(self, victims: Iterable[Task], preemptor: Task) -> list[Task]:
        """Return victims in the order of their eviction.

        Volcano: by `victim_queue_order` of plugins, else from the last queue; within it from the last job, and of that job and its
        equals the last task first.
        """
        found = list(victims)
        if len(found) < 2:
            return found
        first = [function for tier in self._points["victim_queue_order"] for function in tier]
        # Sorts are stable, reversed ones too: the last sort has precedence.
        found.sort(key=self.task_key, reverse=True)
        jobs = {victim.job.key: victim.job for victim in found}
        if len(jobs) > 1:
            job_keys = {key: self.job_key(job)[:-2] for key, job in jobs.items()}  # neither by age nor by name
            found.sort(key=lambda victim: job_keys[victim.job.key], reverse=True)
        queues = {job.queue: job.path[0] for job in jobs.values()}
        if len(queues) > 1:
            queue_keys = {name: self.queue_key(queue) for name, queue in queues.items()}
            found.sort(key=lambda victim: queue_keys[victim.job.queue], reverse=True)
        if first:
            found.sort(key=lambda victim: tuple(function(victim.job.path[0], preemptor) for function in first))
        return found

    # Votes ----------------------------------------------------------------------------------------------------------------

    def job_valid(self, job: Job) -> Invalid | None:
        """Return the first plugin's reason why a job cannot be scheduled; `None`: it can."""
        answers = (function(job) for tier in self._points["job_valid"] for function in tier)
        return next((invalid for invalid in answers if invalid is not None), None)

    def job_ready(self, job: Job) -> bool:
        """Return whether enough tasks of a job are placed, by all plugins."""
        return all(function(job) for tier in self._points["job_ready"] for function in tier) and self._sub_groups_ready(job)

    def _sub_groups_ready(self, job: Job) -> bool:
        if job.sub_groups is None:
            return True
        return all(function(job) for tier in self._points["sub_group_ready"] for function in tier)

    def job_pipelined(self, job: Job) -> bool:
        """Return whether a job may keep its promised places, by vote."""
        return self._vote("job_pipelined", job)

    def job_enqueueable(self, job: Job) -> bool:
        """Return whether a job is admitted, by vote."""
        return self._vote("job_enqueueable", job)

    def _vote(self, point: str, job: Job) -> bool:
        """Volcano: one rejection decides at once; a tier with a permission decides once all its plugins voted; else yes."""
        for tier in self._points[point]:
            permitted = False
            for function in tier:
                vote: Vote = function(job)
                if vote == REJECT:
                    return False
                permitted = permitted or vote == PERMIT
            if permitted:
                return True
        return True

    def job_starving(self, job: Job) -> bool:
        """Return whether a job needs more tasks placed, by all plugins of the first tier with this extension point."""
        for tier in self._points["job_starving"]:
            return all(function(job) for function in tier)
        return False

    def is_privileged(self, job: Job) -> bool:
        """Return whether a job may preempt with notice: it is privileged, its tenant may, and its queue gives notice."""
        queue = job.path[0] if job.path else None
        return queue is not None and queue.open and self.configuration.gives_notice(queue) and self.cluster.may_preempt(job)

    def job_enqueued(self, job: Job) -> None:
        """Notify plugins of an admitted job."""
        for tier in self._points["job_enqueued"]:
            for function in tier:
                function(job)

    def overused(self, queue: Queue) -> bool:
        """Return whether any plugin considers a queue overused."""
        return any(function(queue) for tier in self._points["overused"] for function in tier)

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Return whether a queue may allocate a task, by all plugins."""
        return all(function(queue, task) for tier in self._points["allocatable"] for function in tier)

    def lacking(self, queue: Queue, task: Task) -> tuple[str, Amounts]:
        """Return the first plugin whose limit a task would exceed, and the excess; empty: none."""
        answers = (function(queue, task) for tier in self._points["lacking"] for function in tier)
        return next(((plugin, lacking) for plugin, lacking in answers if lacking), ("", {}))

    def share_of(self, queue: Queue) -> QueueShare | None:
        """Return the share of a queue, by the first plugin that computes one; `None`: none does."""
        answers = (function(queue) for tier in self._points["share_of"] for function in tier)
        return next(filter(None, answers), None)

    def preemptive(self, queue: Queue, task: Task) -> bool:
        """Return whether a queue may reclaim resources for a task, by all plugins."""
        return all(function(queue, task) for tier in self._points["preemptive"] for function in tier)

    def victims_for(self, point: str, task: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that may be evicted for a task.

        Volcano: the victims that all plugins of a tier choose, except plugins that abstain; the first tier with any decides.

        Args:
            point: `preemptable` or `reclaimable`.
            task: the preemptor.
            candidates: possible victims in the order of their eviction, from which surplus is counted.
        """
        for tier in self._points[point]:
            common: list[Task] | None = None
            for function in tier:
                named: list[Task] | None = function(task, candidates)
                if named is None:
                    continue
                if common is None:
                    common = list(named)
                else:
                    wanted = set(named)
                    common = [victim for victim in common if victim in wanted]
                if not common:
                    break
            if common:
                return common
        return []

    def enabled(self, plugin: str, switch: str) -> bool:
        """Return whether a plugin is configured with a switch on."""
        return any(option.name == plugin and switch in option.enabled for tier in self.configuration.tiers for option in tier)


def _guarded(session: Session, point: str, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
    try:
        found = function(*arguments)
        return list(found) if isinstance(found, Iterator) else found
    except Exception as error:
        asked = next((one for one in arguments if isinstance(one, Job | Task)), None)
        job = asked.key if isinstance(asked, Job) else session.about if asked is None else asked.job.key
        plugin = getattr(function, "__self__", None)
        raise PluginError(plugin.NAME if isinstance(plugin, Plugin) else "", point, job, error) from error
