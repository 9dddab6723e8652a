"""Inputs of a program: manifests, objects, commands and observations, appended to its open log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

from engine.application.arguments import as_read
from engine.application.errors import RequestError
from engine.application.open_log import OpenLog
from engine.arguments import checked_methods
from engine.events import Message
from engine.events.inputs import CommandIssued, CustomEventRaised
from engine.history.dead_letters import latest_letters, meant_letters
from engine.history.errors import AmbiguousError
from engine.history.reading import cluster_of
from engine.log.producer_time import wall_clock
from statemachines.names import must_be_known
from statemachines.vocabulary import USER_ACTIONS, Action

if TYPE_CHECKING:
    from engine.application.apply import AppliedObject
    from engine.application.feed import Feed, Taken
    from engine.application.ingestion import Ingested
    from engine.billing.calendar import Month

_COMMANDS: Final = USER_ACTIONS | {"Unpark", "AcknowledgeNotice", "WithdrawNotice"}
_logger: Final = logging.getLogger("lahar")


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
class Producer(OpenLog):
    """Appends inputs to an open log; they are processed at once, unless another process runs the log."""

    def ingest(self, objects: Iterable[Mapping[str, Any]]) -> Ingested:
        """Append the state of a cluster: Kubernetes objects, Lists or watch events, as decoded JSON.

        Raises:
            RequestError: `objects` is a single object, a text or no iterable.
            Exception: whatever `objects` raises; earlier objects are appended and processed.
        """
        if isinstance(objects, Mapping | str | bytes):
            raise RequestError("ingest() takes decoded objects one after the other: write ingest([object])")
        from engine.application.ingestion import append_objects, ingested
        from engine.kubernetes.ingest_report import IngestReport

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
        from engine.application.job_inputs import submission
        from engine.application.live_names import must_be_free
        from engine.kubernetes.reading.identity import job_name

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
        from engine.application.apply import apply_parts, parts_of

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
        from engine.application.queue_state import change_queue_state

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
        from engine.application.billing import Bills, close_period

        bills = Bills(self._questions, self.log, self._settings.cluster)
        with self._feed() as feed:
            month = close_period(feed, bills, self._settings.cluster, period, by, wall_clock())
            self._finish(feed)
        return month

    def _issue(self, job: str, data: CommandIssued | CustomEventRaised, command: str) -> Taken:
        ident = self._questions.meant(job)
        return self._command(cluster_of(self.log, ident), ident, job, data, command)

    def _command(self, cluster: str, ident: str, name: str, data: CommandIssued | CustomEventRaised, command: str) -> Taken:
        from engine.application.job_inputs import command_message

        return self._put(command_message(cluster, ident, data, command or str(uuid4()), wall_clock()), name, chosen=bool(command))

    def _put(self, message: Message, name: str, *, chosen: bool) -> Taken:
        with self._feed() as feed:
            feed.play_from(message.recordedtime)
            feed.append("jobs", [message])
            feed.expect(message, name, chosen=chosen)
            return self._finish(feed)[0]

    @contextmanager
    def _feed(self) -> Iterator[Feed]:
        from engine.application.feed import Feed

        feed = Feed(self.log, self._settings, _Logged(), process=self._process, engine=self._engine, hosted=self._hosted)
        try:
            yield feed
        finally:
            self._engine = feed.engine

    def _finish(self, feed: Feed) -> list[Taken]:
        taken = feed.finish()
        feed.notify_callbacks()
        return taken
