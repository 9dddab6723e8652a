"""What a log knows of the jobs that manifests are applied to, read once for all: those that were opened, and those that wait.

A submission that nobody has processed yet has opened no job, but it will, unless it is rejected. A manifest of that name is to go
behind it as an update, or there would be two jobs of one name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any, Final

from engine.application.job_inputs import manifest_digest
from engine.events import Message, decode
from engine.events.errors import EventError
from engine.events.inputs import JobSubmitted, JobUpdated
from engine.events.jobs import JobRejected
from engine.history.letters import dead_lettered
from engine.history.listing import LISTED, Listing
from engine.history.reading import job_events
from engine.kubernetes.manifests.manifest import read_manifest
from engine.log.port import Searchable
from statemachines.vocabulary import FINISHED_JOB_PHASES

__all__ = ["KnownJobs"]


class KnownJobs:
    """Jobs by their names, and the manifests that they were given."""

    def __init__(self, log: Searchable, cluster: str, queues: list[dict[str, Any]], names: Collection[tuple[str, str]]) -> None:
        """Read the log.

        Args:
            log: what is appended to it from now on is told by `take`.
            cluster: whose jobs they are.
            queues: that the cluster has, by which submissions that wait will be judged.
            names: namespaces and names of the jobs that will be asked for.
        """
        self._cluster: Final = cluster
        self._queues: Final = queues
        self._sequences: Final[dict[str, int]] = {}
        self._rejected: Final[defaultdict[str, set[str]]] = defaultdict(set)
        """Job → its submissions that were rejected."""
        listing = Listing()
        for event in job_events(log, (*LISTED, JobRejected.TYPE)):
            listing.add(event)
            self._sequences[event.subject] = event.sequence
            if isinstance(event.data, JobRejected) and not event.data.update:
                self._rejected[event.subject].add(event.data.input or event.causationid)
        lines = [line for line in listing.lines() if line.opened]
        self._opened: Final = {job.id for job in lines}
        # Of one name the newest comes last.
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
        """Job → id and digest of the last manifest."""
        self._submitted: Final[dict[str, dict[str, Any]]] = {}
        """Job → the manifest that it was submitted with."""
        dead = dead_lettered(log, "jobs")
        # After the events: what is processed in between is seen to wait at worst, and an update behind it is right as well.
        for record in log.scan(("jobs",), {JobSubmitted.TYPE, JobUpdated.TYPE}):
            if (record.partition.number, record.offset) not in dead:
                self.take(record.message)

    def take(self, message: Message) -> None:
        """Take note of a submission or update, in the order of the log; one that cannot be read is passed over."""
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
        """Return the newest managed job of a name that has not finished, opened or waiting to be; `None` if there is none."""
        return self._open.get((namespace, name))

    def rejections(self, job: str) -> int:
        """Return how many submissions of a job were rejected."""
        return len(self._rejected[job])

    def given(self, job: str) -> str:
        """Return the digest of the manifest that a job was last given; empty if the log does not have it any more."""
        return self._given.get(job, ("", ""))[1]

    def submitted(self, job: str) -> dict[str, Any] | None:
        """Return the manifest that a job was submitted with; `None` if the log does not have it any more."""
        return self._submitted.get(job)

    def standing(self, job: str) -> str:
        """Return what is another one as soon as a job has changed, or was given a manifest."""
        return f"{self._sequences.get(job, 0)}/{self._given.get(job, ('', ''))[0]}"
