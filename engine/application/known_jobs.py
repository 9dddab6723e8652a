"""The log's open and waiting jobs, for applying manifests; read once for all of them.

A waiting submission opens a job once processed, unless it is rejected. A manifest of the same name must become an update after it,
or there would be two jobs of one name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any, Final

from engine.application.job_inputs import manifest_digest
from engine.events import Message, decode
from engine.events.errors import EventError
from engine.events.inputs import JobSubmitted, JobUpdated
from engine.events.outcomes import JobRejected
from engine.history.dead_letters import dead_lettered
from engine.history.listing import LISTED, Listing
from engine.history.reading import job_events
from engine.kubernetes.manifests.manifest import read_manifest
from engine.log.port import Searchable
from statemachines.vocabulary import FINISHED_JOB_PHASES


class KnownJobs:
    """Jobs by name, with their manifests."""

    def __init__(self, log: Searchable, cluster: str, queues: list[dict[str, Any]], names: Collection[tuple[str, str]]) -> None:
        """Read the log.

        Args:
            log: the log; messages appended from now on must be given to `take`.
            cluster: the cluster of the jobs.
            queues: queues of the cluster, for validating waiting submissions.
            names: namespaces and names of the jobs to look for.
        """
        self._cluster: Final = cluster
        self._queues: Final = queues
        self._sequences: Final[dict[str, int]] = {}
        self._rejected: Final[defaultdict[str, set[str]]] = defaultdict(set)
        """Job → its rejected submissions."""
        listing = Listing()
        for event in job_events(log, (*LISTED, JobRejected.TYPE)):
            listing.add(event)
            self._sequences[event.subject] = event.sequence
            if isinstance(event.data, JobRejected) and not event.data.update:
                self._rejected[event.subject].add(event.data.input or event.causationid)
        lines = [line for line in listing.lines() if line.opened]
        self._opened: Final = {job.id for job in lines}
        # Of several jobs with one name the newest comes last.
        self._open: Final = {
            (job.namespace, job.name): job.id
            for job in lines
            if job.cluster == cluster
            and job.managed
            and job.phase not in FINISHED_JOB_PHASES
            and (job.namespace, job.name) in names
        }
        self._others: Final = self._opened - set(self._open.values())
        self._given: Final[dict[str, tuple[str, str]]] = {}
        """Job → id and digest of its last manifest."""
        self._submitted: Final[dict[str, dict[str, Any]]] = {}
        """Job → the manifest that it was submitted with."""
        dead = dead_lettered(log, "jobs")
        # After the events: an input processed meanwhile is at worst seen as waiting, and an update after it is right as well.
        for record in log.scan(("jobs",), {JobSubmitted.TYPE, JobUpdated.TYPE}):
            if (record.partition.number, record.offset) not in dead:
                self.take(record.message)

    def take(self, message: Message) -> None:
        """Apply a submission or update, in the order of the log; ignores unreadable ones."""
        job = message.key
        if job in self._others or message.clusterid != self._cluster:
            return
        try:
            data = decode(message).data
        except EventError:
            return
        if isinstance(data, JobSubmitted | JobUpdated):
            self._given[job] = message.id, manifest_digest(data.manifest)
        if isinstance(data, JobSubmitted) and job not in self._opened and message.id not in self._rejected[job]:
            read = read_manifest(data.manifest, strict=data.strict, queues=self._queues, seed=message.id)
            if not read.faults:
                self._open[read.namespace, read.name] = job
        if isinstance(data, JobSubmitted) and message.id not in self._rejected[job]:
            self._submitted.setdefault(job, data.manifest)

    def open(self, namespace: str, name: str) -> str | None:
        """Return the newest managed job of a name that is open or waiting and has not finished; `None` if there is none."""
        return self._open.get((namespace, name))

    def rejections(self, job: str) -> int:
        """Return the number of a job's rejected submissions."""
        return len(self._rejected[job])

    def given(self, job: str) -> str:
        """Return the digest of a job's last manifest; empty if the log no longer has it."""
        return self._given.get(job, ("", ""))[1]

    def submitted(self, job: str) -> dict[str, Any] | None:
        """Return the manifest of a job's submission; `None` if the log no longer has it."""
        return self._submitted.get(job)

    def version(self, job: str) -> str:
        """Return a text that changes with every event and every new manifest of a job."""
        return f"{self._sequences.get(job, 0)}/{self._given.get(job, ('', ''))[0]}"
