"""Names of live jobs, which a submission without an id may not take again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from engine.application.errors import AlreadyExistsError
from engine.application.questions import Questions
from engine.history.listing import Filter
from engine.kubernetes.reading.fields import mapping
from engine.kubernetes.reading.identity import job_name
from engine.projection.job_tables import JobTables
from statemachines.vocabulary import FINISHED_JOB_PHASES


def must_be_free(questions: Questions, cluster: str, manifests: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Check that no live managed job has the name of one of some manifests, nor two of them the same.

    Args:
        questions: answers from the log.
        cluster: cluster of the jobs.
        manifests: each with its place, for the error; may be empty.

    Raises:
        AlreadyExistsError: one has.
        LogError: the log cannot be read to its end.
    """
    given: set[tuple[str, str]] = set()
    for place, manifest in manifests:
        namespace, name, _ = job_name(manifest)
        if not mapping(manifest.get("metadata")).get("name"):
            continue  # the name is generated
        for job in questions.ask(
            JobTables, partial(JobTables.lines, wanted=Filter(cluster=cluster, namespace=namespace, name=name))
        ):
            if job.managed and job.opened and job.phase not in FINISHED_JOB_PHASES:
                raise AlreadyExistsError(place, f"job {namespace}/{name}", f"is live ({job.phase}, id {job.id})")
        if (namespace, name) in given:
            raise AlreadyExistsError(place, f"job {namespace}/{name}", "is submitted twice")
        given.add((namespace, name))
