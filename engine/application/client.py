"""An open log for Python programs: append inputs, ask, subscribe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, overload

from engine.application.errors import LogUnavailableError
from engine.application.producer import Producer
from engine.arguments import checked_methods
from engine.events import Data, Event
from engine.history.dead_letters import latest_letters
from engine.history.errors import UnopenedError
from engine.history.event_filter import Followed, Selection, must_be_reasons
from engine.history.listing import Filter, JobLine
from engine.history.moment_argument import By, moment_of
from engine.history.reading import cluster_facts, events_of, job_events
from engine.log.producer_time import wall_clock
from engine.projection.job_tables import JobTables
from statemachines.names import must_be_known
from statemachines.vocabulary import Level

if TYPE_CHECKING:
    from engine.application.billing import Bills
    from engine.application.preemptions import Preemptions
    from engine.application.scheduling import Scheduling
    from engine.application.subscription import Events
    from engine.history.asof import ClusterAsOf
    from engine.history.dead_letters import Letter
    from engine.history.diff import Change
    from engine.history.explanation import Explanation
    from engine.history.status import ShardStatus
    from engine.history.timeline import Timeline
    from engine.history.verify import Verdict
    from engine.history.view import JobView
    from engine.log.sqlite import SqliteLog
    from engine.simulation.comparison import Comparison

T = TypeVar("T")


@checked_methods
class Lahar(Producer):
    """An open log. Inputs are processed at once, unless another process runs the log, as with the commands.

    A context manager, for one thread at a time. Methods with a job accept its id, a unique prefix of it, `namespace/name` or
    `namespace/name@id`, and raise `NotFoundError` or `AmbiguousError` if none or several match. Every method raises `LogError` if
    the log cannot be used or is closed, and `RequestError` for an argument of another type than its annotation.
    """

    # --- asking -----------------------------------------------------------------------------------------------------------

    def partial(self, warn: Callable[[str], object]) -> AbstractContextManager[None]:
        """Let questions of a `with` block about several jobs be answered as of the last record that can be read.

        If the log cannot be read to its end, `warn` is called with the time of the answer, and the error is raised after the block.

        Raises:
            LogError: the log cannot be read to its end.
            EventError: an event cannot be read.
        """
        return self._questions.partial(warn)

    def jobs(self, wanted: Filter | None = None) -> list[JobLine]:
        """Return the jobs that match a filter, by time of submission.

        Raises:
            UnknownNameError: a reason of the filter is neither Lahar's nor in the log.
        """
        if wanted is not None:
            must_be_reasons(self.log, wanted.reasons, of_phases=True)
        return self._questions.ask(JobTables, lambda jobs: jobs.lines(wanted))

    def job(self, job: str) -> JobView:
        """Return the current state of a job.

        Raises:
            UnopenedError: no event has opened it yet.
        """
        from engine.history.fold import fold

        return _there(fold(self.history(job)), job)

    def history(self, job: str, wanted: Selection | None = None) -> list[Event[Data]]:
        """Return the events of a job that match a selection, in order.

        Raises:
            UnknownNameError: a reason of the selection is neither Lahar's nor in the log.
        """
        selection = wanted or Selection()
        must_be_reasons(self.log, selection.reasons)
        return [event for event in events_of(self.log, self._questions.meant(job)) if selection.passes(event.data)]

    def why(self, what: str, replica: str | None = None, *, at: datetime | str | None = None) -> Explanation:
        """Explain the state of a job or of one of its replicas (`worker[2]`), or an event given by its id or a prefix of it.

        Args:
            what: the job or event.
            replica: of the job.
            at: as it was known at this moment; see `as_of`.
        """
        from engine.history.explain import explain

        known = None if at is None else moment_of(at)
        return explain(self.log, self._questions.meant, what, replica, known, wall_clock())

    def why_node(self, node: str, *, cluster: str | None = None) -> Explanation:
        """Describe a node, its pods, and how earlier attempts ended there; `cluster` if several have a node of that name."""
        from engine.history.why_node import why_node

        return why_node(self.log, node, cluster)

    @overload
    def as_of(self, moment: datetime | str, job: None = None, *, by: By = "time") -> ClusterAsOf: ...

    @overload
    def as_of(self, moment: datetime | str, job: str, *, by: By = "time") -> JobView | None: ...

    @overload
    def as_of(self, moment: datetime | str, job: str | None, *, by: By = "time") -> JobView | ClusterAsOf | None: ...

    def as_of(self, moment: datetime | str, job: str | None = None, *, by: By = "time") -> JobView | ClusterAsOf | None:
        """Return a job, or without one the queues and nodes, as of a moment; `None`: the job was not open yet.

        Args:
            moment: a `datetime` or a text such as `yesterday 14:05`; without a time zone it is UTC.
            job: which job.
            by: `time`: the state by all that is known today; `recordedtime`: the state that was known then.
        """
        from engine.history.asof import ClusterAsOf, job_as_of

        at = moment_of(moment)
        must_be_known("time of an event", [by], get_args(By))
        if job is not None:
            return job_as_of(self.history(job), at, by)
        cluster = ClusterAsOf(at, by)
        for event in chain(cluster_facts(self.log), job_events(self.log)):
            cluster.add(event)
        return cluster

    def diff(self, before: datetime | str, after: datetime | str, job: str | None = None, *, by: By = "time") -> list[Change]:
        """Return what changed between two moments, field by field: of a job, or without one of all jobs, queues and nodes.

        Args:
            before: the first moment, as in `as_of`.
            after: the second; usually later.
            job: which job.
            by: as in `as_of`.
        """
        from engine.history.asof import job_as_of
        from engine.history.diff import diff, diff_documents

        if job is None:
            return diff_documents(*(self.as_of(at, by=by).compared() for at in (before, after)))
        first, second = moment_of(before), moment_of(after)
        events = self.history(job)
        return diff(job_as_of(events, first, by), job_as_of(events, second, by))

    def timeline(self, job: str) -> Timeline:
        """Return the timeline of a job at all three levels.

        Raises:
            UnopenedError: no event has opened it yet.
        """
        from engine.history.timeline import timeline

        return _there(timeline(self.history(job)), job)

    def summary(self, *, cluster: str | None = None, other: bool = False) -> dict[str, Any]:
        """Return the sums over the log: the keys of `lahar summary --json`, seconds as exact decimals.

        Args:
            cluster: only jobs of this cluster.
            other: include jobs of kind `Other` (services).
        """
        return self._questions.ask(JobTables, lambda jobs: jobs.summary(include_other=other, cluster=cluster))

    def verify(self) -> Iterator[Verdict]:
        """Return for each shard whether its snapshot equals its history, and each input that it took has one outcome."""
        from engine.history.input_check import InputCheck
        from engine.history.verify import verify_shard
        from engine.processor.partitions import shard_count
        from engine.runtime.stages import stages_of

        log, stages = self.log, stages_of(self._settings)
        checked = ((stage, InputCheck(log, [topic for topic, _ in stage.inputs])) for stage in stages)
        return (verify_shard(log, stage, number, check) for stage, check in checked for number in range(shard_count(log, stage)))

    def status(self) -> list[ShardStatus]:
        """Return the position and lag of each shard."""
        from engine.history.status import shard_status
        from engine.processor.partitions import shard_count
        from engine.runtime.stages import stages_of

        return [
            shard_status(self.log, stage, number)
            for stage in stages_of(self._settings)
            for number in range(shard_count(self.log, stage))
        ]

    def dead_letters(self, *, discarded: bool = False) -> list[Letter]:
        """Return the open dead letters, oldest first; with `discarded` the discarded ones too."""
        return [letter for letter in latest_letters(self.log) if discarded or letter.discarded is None]

    @property
    def bills(self) -> Bills:
        """The recorded use of resources: records, invoices, quotes, and their verification."""
        from engine.application.billing import Bills

        return Bills(self._questions, self.log, self._settings.cluster)

    @property
    def preemptions(self) -> Preemptions:
        """The notices of preemption."""
        from engine.application.preemptions import Preemptions

        return Preemptions(self._questions, self.log)

    @property
    def scheduling(self) -> Scheduling:
        """Queues, nodes, tenants and pod groups as they stand now. Each access reads the scheduling shard anew.

        Raises:
            ConfigurationError: the configuration of scheduling cannot be used.
        """
        from engine.application.scheduling import Scheduling

        return Scheduling(self._questions, self.log, self._settings, hosted=self._hosted)

    def scheduling_at(self, moment: datetime | str) -> Scheduling:
        """Return queues, nodes, tenants and pod groups as they stood at a moment (see `as_of`); errors as of `scheduling`."""
        from engine.application.scheduling import Scheduling

        return Scheduling(self._questions, self.log, self._settings, at=moment_of(moment), hosted=self._hosted)

    def what_if(
        self,
        *,
        scheduler: str | Path | None = None,
        queues: str | Path | None = None,
        nodes: str | Path | None = None,
        add_nodes: int = 0,
        like: str = "",
        begin: datetime | str | None = None,
        end: datetime | str | None = None,
        jobs: Sequence[str] = (),
        cluster: str | None = None,
        recorded: str | Path | None = None,
        on_start: Callable[[int], object] = lambda _: None,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> Comparison:
        """Simulate the history with other rules, and with its own; the log is only read.

        Args:
            scheduler: file with other actions and plugins.
            queues: file with Queue, Tenant and PriorityClass objects, which replace those of their names.
            nodes: file with nodes, which replace all.
            add_nodes: so many nodes more.
            like: the node that they are like.
            begin: only from then on, as in `as_of`; default when the first job was submitted.
            end: only until then; default until the jobs are over.
            jobs: jobs with figures of their own.
            cluster: which cluster, if several have jobs.
            recorded: file with the actions and plugins that the history had; default those that it records.
            on_start: called with the number of jobs to simulate, before both simulations.
            on_progress: called with the number of jobs that are over, of both simulations together.

        Raises:
            SimulationError: nothing is different, or there is nothing to simulate.
            ConfigurationError: a configuration of scheduling cannot be used.
            ValueError: a file of queues or nodes makes no sense.
            OSError: it cannot be read.
        """
        from engine.application.whatif import OtherRules, Window, what_if

        first, last = (None if moment is None else moment_of(moment) for moment in (begin, end))
        files = [None if file is None else Path(file) for file in (scheduler, queues, nodes, recorded)]
        rules = OtherRules(files[0], files[1], files[2], add_nodes, like)
        named = {job: self._questions.meant(job) for job in jobs}
        window = Window(first, last, cluster, named)
        return what_if(self.log, self._settings, window, rules, recorded=files[3], on_start=on_start, on_progress=on_progress)

    # --- keeping ----------------------------------------------------------------------------------------------------------

    def backup(self, target: str | Path) -> None:
        """Copy the log, which may be in use, into a new file.

        Raises:
            LogUnavailableError: the log is not in a file, or the target exists or cannot be written.
        """
        self._in_file("backup").backup(target)

    def compact(self) -> tuple[Path, int, int]:
        """Give unused space of the log's file back to the file system; returns the file and its size before and after (bytes)."""
        file = self._in_file("compact")
        before = file.path.stat().st_size
        file.compact()
        return file.path, before, file.path.stat().st_size

    def _in_file(self, what: str) -> SqliteLog:
        from engine.log.sqlite import SqliteLog

        if not isinstance(self.log, SqliteLog):
            raise LogUnavailableError(f"only a log in a file can be asked to {what} (sqlite:PATH)")
        return self.log

    # --- subscribing ------------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        start: str | datetime = "beginning",
        *,
        follow: bool = False,
        job: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        labels: Mapping[str, str] | None = None,
        level: Level | None = None,
        types: str | Sequence[str] = (),
        topic: Followed = "job-events",
    ) -> Events:
        """Return committed job events, each exactly once, in the order of each job.

        Args:
            start: `beginning`, `now`, a moment (first recorded time), or a token of an earlier subscription.
            follow: wait for later events, without end.
            job: only of this job.
            queue: only of jobs of this queue.
            tenant: only of jobs of this tenant.
            labels: only of jobs with these labels.
            level: only of this level.
            types: only these event types; `*` matches any characters.
            topic: `budgets`: crossed thresholds of budgets instead, by `tenant` and `types`.

        Raises:
            TokenError: the token is invalid, from another log or topic, or older than retention.
            ValueError: the topic has no such filter.
        """
        from engine.application.subscription import Events, start_at
        from engine.history.subscribe import Subscription, Wanted

        named = (types,) if isinstance(types, str) else tuple(types)
        wanted = Wanted(tenant, queue, None if job is None else self._questions.meant(job), dict(labels or {}), level, named)
        return Events(Subscription(self.log, start_at(start), wanted, topic), follow=follow)


def _there(found: T | None, job: str) -> T:
    if found is None:
        raise UnopenedError(job)
    return found
