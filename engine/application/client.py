"""An open log for Python programs: append inputs, ask, subscribe."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar, get_args
from uuid import uuid4

from engine.application.apply import AppliedObject, apply_parts, parts_of
from engine.application.arguments import as_read
from engine.application.billing import Bills, close_period
from engine.application.errors import RequestError
from engine.application.feed import Feed, Taken
from engine.application.ingestion import Ingested, append_objects, ingested
from engine.application.job_inputs import command_message, submission
from engine.application.live_names import must_be_free
from engine.application.preemptions import Preemptions
from engine.application.questions import Questions
from engine.application.queue_state import change_queue_state
from engine.application.scheduling import Scheduling
from engine.application.subscription import Events, start_at
from engine.application.whatif import OtherRules, Window, what_if
from engine.arguments import checked_methods
from engine.billing.calendar import Month
from engine.events import Data, Event, Message
from engine.events.inputs import CommandIssued, CustomEventRaised
from engine.history.asof import By, ClusterAsOf, job_as_of
from engine.history.dead_letters import Letter, latest_letters, meant_letters
from engine.history.errors import AmbiguousError, UnopenedError
from engine.history.event_filter import must_be_reasons
from engine.history.explain import explain
from engine.history.explanation import Explanation
from engine.history.fold import fold
from engine.history.listing import Filter, JobLine
from engine.history.moment_argument import moment_of
from engine.history.reading import cluster_facts, cluster_of, events_of, job_events
from engine.history.subscribe import Followed, Subscription, Wanted
from engine.history.timeline import Timeline, timeline
from engine.history.view import JobView
from engine.history.why_node import why_node
from engine.kubernetes.ingest_report import IngestReport
from engine.kubernetes.reading.identity import job_name
from engine.log.errors import LogUnavailableError
from engine.log.port import SearchableLog
from engine.log.producer_time import wall_clock
from engine.projection.job_tables import JobTables
from engine.runtime.engine import Engine
from engine.runtime.settings import Settings
from engine.simulation.comparison import Comparison
from statemachines.names import must_be_known
from statemachines.vocabulary import USER_ACTIONS, Action, Level

__all__ = ["Lahar"]

_COMMANDS: Final = USER_ACTIONS | {"Unpark", "AcknowledgeNotice", "WithdrawNotice"}
_logger: Final = logging.getLogger("lahar")

T = TypeVar("T")


class _Logged:
    """Reports to the logger `lahar`."""

    as_json = False

    def note(self, text: str) -> None:
        _logger.info("%s", text)

    def warn(self, text: str) -> None:
        _logger.warning("%s", text)

    def flush(self) -> None:
        """Do nothing: handlers write at once."""


@checked_methods
class Lahar:
    """An open log. Inputs are processed at once, unless another process runs the log, as with the commands.

    A context manager, for one thread at a time. Methods with a job accept its id, a unique prefix of it, `namespace/name` or
    `namespace/name@id`, and raise `NotFoundError` or `AmbiguousError` if none or several match. Every method raises `LogError` if
    the log cannot be used or is closed, and `RequestError` for an argument of another type than its annotation.
    """

    def __init__(self, log: SearchableLog, settings: Settings, *, process: bool = True) -> None:
        """Use an open log; see `engine.application.opening`."""
        self._log: Final = log
        self._settings: Final = settings
        self._asking: Final = Questions(settings, log)
        self._process = process
        self._engine: Engine | None = None
        self._closed = False

    @property
    def log(self) -> SearchableLog:
        """The log itself.

        Raises:
            LogUnavailableError: it is closed.
        """
        self._must_be_open()
        return self._log

    @property
    def _questions(self) -> Questions:
        self._must_be_open()
        return self._asking

    def _must_be_open(self) -> None:
        if self._closed:
            raise LogUnavailableError(f"{self._settings.log} is closed; open it again with lahar.open")

    def close(self) -> None:
        """Close the log. Idempotent."""
        self._closed = True
        self._asking.close()
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- putting in -------------------------------------------------------------------------------------------------------

    def ingest(self, objects: Iterable[Mapping[str, Any]]) -> Ingested:
        """Append the state of a cluster: Kubernetes objects, Lists or watch events, as decoded JSON.

        Raises:
            RequestError: `objects` is a single object, a text or no iterable.
            Exception: whatever `objects` raises; earlier objects are appended and processed.
        """
        if isinstance(objects, Mapping | str | bytes):
            raise RequestError("ingest() takes decoded objects one after the other: write ingest([object])")
        tally = IngestReport()
        with self._feed() as feed:
            try:
                append_objects(feed, self._settings.cluster, objects, tally, self._settings.accelerators)
            finally:
                self._finish(feed)
        return ingested(tally, feed.processed)

    def submit(
        self, manifest: Mapping[str, Any], *, command: str = "", strict: bool = False, allow_same_name: bool = False
    ) -> Taken:
        """Submit a job to manage.

        Args:
            manifest: a Volcano or batch/v1 Job.
            command: id of the submission, for idempotence: one id submits once, and has one outcome; default a new one.
            strict: warnings are errors.
            allow_same_name: submit another job under the name of a live one.

        Raises:
            AlreadyExistsError: without `command`: a live job has this name.
            RequestError: the manifest cannot be written as JSON.
        """
        content = as_read(manifest, "the manifest")
        if not command and not allow_same_name:
            with self._feed() as feed:
                feed.process()  # waiting submissions may take the name
            must_be_free(self._questions, self._settings.cluster, [("", content)])
        message = submission(self._settings.cluster, content, command or str(uuid4()), wall_clock(), strict=strict)
        return self._put(message, "/".join(job_name(content)[:2]), chosen=bool(command))

    def apply(self, *objects: Mapping[str, Any], strict: bool = False) -> list[AppliedObject | Taken]:
        """Apply jobs, queues, nodes, tenants, priority classes and grants; unchanged ones append nothing.

        Args:
            objects: in the order of application.
            strict: warnings are errors.

        Returns:
            The outcomes of the cluster's objects, then of the jobs.

        Raises:
            ValueError: one cannot be applied, so none is. The text says which: `object 2 (Queue research)`.
        """
        recorded = wall_clock()
        given = [as_read(content, f"object {number}") for number, content in enumerate(objects, start=1)]
        parts = parts_of(self._settings.cluster, given, recorded, self._settings.accelerators)
        with self._feed() as feed:
            applied = apply_parts(feed, self.log, self._settings.cluster, parts, recorded, strict=strict, warn=_Logged().warn)
            return [*applied, *self._finish(feed)]

    def command(
        self,
        job: str,
        action: Literal[Action, "Unpark", "AcknowledgeNotice", "WithdrawNotice"],
        *,
        task: str | None = None,
        index: int | None = None,
        partition: int | None = None,
        notice: str = "",
        reason: str = "",
        by: str = "",
        command: str = "",
    ) -> Taken:
        """Command an action on a job.

        Args:
            job: which job.
            action: `AbortJob`, `RestartTask`, …, or `Unpark`; `AcknowledgeNotice` of a job that is WillEvicted, `WithdrawNotice`
                of one that is Privileged.
            task: the task, for RestartTask, RestartPod and RestartPartition.
            index: the replica, for RestartPod.
            partition: the partition, for RestartPartition.
            notice: which notice is answered, for AcknowledgeNotice and WithdrawNotice: an answer that comes too late does not count
                for another one. Default: the one that the job is part of.
            reason: kept in the history.
            by: who asks; kept in the history.
            command: id of the command, for idempotence: one id acts once; default a new one.

        Raises:
            UnknownNameError: there is no such action.
            RequestError: `task`, `index`, `partition` or `notice` is given for an action that is not about one.
        """
        must_be_known("action", [action], _COMMANDS)
        return self._issue(job, CommandIssued(action, by, reason, task, index, partition, notice=notice), command)

    def raise_event(
        self,
        job: str,
        event: str,
        data: Mapping[str, object] | None = None,
        *,
        task: str | None = None,
        by: str = "",
        command: str = "",
    ) -> Taken:
        """Raise a custom event of a job from outside.

        Args:
            job: which job.
            event: a custom event that the job declares.
            data: data of the event.
            task: the task whose policies apply first.
            by: who raises it; kept in the history.
            command: as in `command`.
        """
        return self._issue(job, CustomEventRaised(event, as_read(data or {}, "data"), task, by), command)

    def discard(self, letter: str, *, reason: str = "", by: str = "", command: str = "") -> Taken:
        """Close a dead letter that needs no more attention; nothing is deleted.

        Args:
            letter: its id or a prefix of it.
            reason: kept in the history.
            by: who asks; kept in the history.
            command: as in `command`.

        Raises:
            NotFoundError: no dead letter matches.
            AmbiguousError: several match.
        """
        found = [known.event.id for known in meant_letters(latest_letters(self.log), [letter])]
        if len(found) > 1:
            raise AmbiguousError(letter, found, "dead letters")
        return self._command(self._settings.cluster, found[0], letter, CommandIssued("Discard", by, reason), command)

    def open_queue(self, name: str, *, cluster: str | None = None) -> list[AppliedObject]:
        """Open a queue, and those below it that were closed with it; see `close_queue`.

        Raises:
            NotFoundError: there is no such queue.
            AmbiguousError: several clusters have one, and none is named.
            ValueError: the queue above it is closed.
        """
        return self._change_queue(name, "Open", cluster)

    def close_queue(self, name: str, *, cluster: str | None = None) -> list[AppliedObject]:
        """Close a queue and those below it: they take no jobs and start none; pods that run, run on.

        Args:
            name: of the queue.
            cluster: its cluster, if several have a queue of this name.

        Returns:
            The queue, then those below it that change with it. The queue is `unchanged` if it is closed already.

        Raises:
            NotFoundError: there is no such queue.
            AmbiguousError: several clusters have one, and none is named.
            ValueError: it is the root.
        """
        return self._change_queue(name, "Closed", cluster)

    def _change_queue(self, name: str, state: Literal["Open", "Closed"], cluster: str | None) -> list[AppliedObject]:
        with self._feed() as feed:
            changed = change_queue_state(feed, self.log, name, state, wall_clock(), cluster=cluster, warn=_Logged().warn)
            self._finish(feed)
        return changed

    def close_month(self, period: str, *, by: str = "") -> Month:
        """Close a month, `YYYY-MM`: its invoices and exports never change again; later facts become corrections in a later month.

        It is closed once billing has taken this: at once, unless others process the log or billing is off. `bills.closed()` tells.

        Args:
            period: which month.
            by: who closes it; kept in the history.

        Raises:
            PeriodError: not a month, not ended, closed or being closed, or without usage.
        """
        with self._feed() as feed:
            month = close_period(feed, self.bills, self._settings.cluster, period, by, wall_clock())
            self._finish(feed)
        return month

    def _issue(self, job: str, data: CommandIssued | CustomEventRaised, command: str) -> Taken:
        ident = self._questions.meant(job)
        return self._command(cluster_of(self.log, ident), ident, job, data, command)

    def _command(self, cluster: str, ident: str, name: str, data: CommandIssued | CustomEventRaised, command: str) -> Taken:
        return self._put(command_message(cluster, ident, data, command or str(uuid4()), wall_clock()), name, chosen=bool(command))

    def _put(self, message: Message, name: str, *, chosen: bool) -> Taken:
        with self._feed() as feed:
            feed.play_from(message.recordedtime)
            feed.append("jobs", [message])
            feed.expect(message, name, chosen=chosen)
            return self._finish(feed)[0]

    @contextmanager
    def _feed(self) -> Iterator[Feed]:
        feed = Feed(self.log, self._settings, _Logged(), process=self._process, engine=self._engine, hosted=True)
        try:
            yield feed
        finally:
            self._engine = feed.engine

    def _finish(self, feed: Feed) -> list[Taken]:
        taken = feed.finish()
        feed.notify_callbacks()
        return taken

    # --- asking -----------------------------------------------------------------------------------------------------------

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
        return _there(fold(self.history(job)), job)

    def history(self, job: str) -> list[Event[Data]]:
        """Return all events of a job, in order."""
        return events_of(self.log, self._questions.meant(job))

    def why(self, what: str, replica: str | None = None) -> Explanation:
        """Explain the state of a job or of one of its replicas (`worker[2]`), or an event given by its id or a prefix of it."""
        return explain(self.log, self._questions.meant, what, replica, clock=wall_clock())

    def why_node(self, node: str, *, cluster: str | None = None) -> Explanation:
        """Describe a node, its pods, and how earlier attempts ended there; `cluster` if several have a node of that name."""
        return why_node(self.log, node, cluster)

    def as_of(self, moment: datetime | str, job: str | None = None, *, by: By = "time") -> JobView | ClusterAsOf | None:
        """Return a job, or without one the queues and nodes, as of a moment; `None`: the job was not open yet.

        Args:
            moment: a `datetime` or a text such as `yesterday 14:05`; without a time zone it is UTC.
            job: which job.
            by: `time`: the state by all that is known today; `recordedtime`: the state that was known then.
        """
        at = moment_of(moment)
        must_be_known("time of an event", [by], get_args(By))
        if job is not None:
            return job_as_of(self.history(job), at, by)
        cluster = ClusterAsOf(at, by)
        for event in chain(cluster_facts(self.log), job_events(self.log)):
            cluster.add(event)
        return cluster

    def timeline(self, job: str) -> Timeline:
        """Return the timeline of a job at all three levels.

        Raises:
            UnopenedError: no event has opened it yet.
        """
        return _there(timeline(self.history(job)), job)

    def summary(self, *, cluster: str | None = None, other: bool = False) -> dict[str, Any]:
        """Return the sums over the log: the keys of `lahar summary --json`, seconds as exact decimals.

        Args:
            cluster: only jobs of this cluster.
            other: include jobs of kind `Other` (services).
        """
        return self._questions.ask(JobTables, lambda jobs: jobs.summary(include_other=other, cluster=cluster))

    def dead_letters(self, *, discarded: bool = False) -> list[Letter]:
        """Return the open dead letters, oldest first; with `discarded` the discarded ones too."""
        return [letter for letter in latest_letters(self.log) if discarded or letter.discarded is None]

    @property
    def bills(self) -> Bills:
        """The recorded use of resources: records, invoices, quotes, and their verification."""
        return Bills(self._questions, self.log, self._settings.cluster)

    @property
    def preemptions(self) -> Preemptions:
        """The notices of preemption."""
        return Preemptions(self._questions, self.log)

    @property
    def scheduling(self) -> Scheduling:
        """Queues, nodes, tenants and pod groups as they stand now. Each access reads the scheduling shard anew.

        Raises:
            ConfigurationError: the configuration of scheduling cannot be used.
        """
        return Scheduling(self._questions, self.log, self._settings, hosted=True)

    def scheduling_at(self, moment: datetime | str) -> Scheduling:
        """Return queues, nodes, tenants and pod groups as they stood at a moment (see `as_of`); errors as of `scheduling`."""
        return Scheduling(self._questions, self.log, self._settings, at=moment_of(moment), hosted=True)

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

        Raises:
            SimulationError: nothing is different, or there is nothing to simulate.
            ConfigurationError: a configuration of scheduling cannot be used.
            ValueError: a file of queues or nodes makes no sense.
            OSError: it cannot be read.
        """
        first, last = (None if moment is None else moment_of(moment) for moment in (begin, end))
        files = [None if file is None else Path(file) for file in (scheduler, queues, nodes)]
        rules = OtherRules(files[0], files[1], files[2], add_nodes, like)
        named = {job: self._questions.meant(job) for job in jobs}
        return what_if(self.log, self._settings, Window(first, last, cluster, named), rules)

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
        named = (types,) if isinstance(types, str) else tuple(types)
        wanted = Wanted(tenant, queue, None if job is None else self._questions.meant(job), dict(labels or {}), level, named)
        return Events(Subscription(self.log, start_at(start), wanted, topic), follow=follow)


def _there(found: T | None, job: str) -> T:
    if found is None:
        raise UnopenedError(job)
    return found
