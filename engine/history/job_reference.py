"""Resolution of job references: an id, a unique prefix of one, `namespace/name` (the newest of that name) or `namespace/name@id`.

If several clusters have a job of that name, `cluster/namespace/name` is required; a bare name suffices if only one namespace has
it. A name that is also a prefix of another job's id is ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

from engine.events import Data, Event
from engine.events.bounds import NAME_CHARACTERS
from engine.events.jobs import JobOpened, JobRevised
from engine.history.claimed_names import CLAIMING
from engine.history.errors import AmbiguousError, NotFoundError
from engine.history.job_projection import Jobs
from engine.history.reading import job_events
from engine.log.port import Searchable
from statemachines.names import nearest

_COMPARED: Final = 2_000
"""Maximum number of names compared for a hint."""
_TELLING: Final[tuple[type[Data], ...]] = (JobOpened, JobRevised, *CLAIMING)
"""Events that open, name or park jobs."""


def resolve(log: Searchable, given: str) -> str:
    """Return the id of the job in a command's JOB argument.

    Raises:
        NotFoundError: no job matches.
        AmbiguousError: a prefix matches several jobs, or jobs of several clusters have the name.
    """
    return resolve_among(job_events(log, {kind.TYPE for kind in _TELLING}), given)


def resolve_among(events: Iterable[Event[Data]], given: str) -> str:
    """Return the id of the referenced job among those that the events open or rename.

    Args:
        events: `lahar.job.opened`, `lahar.job.revised`, `lahar.job.parked`, `lahar.input.parked`, `lahar.input.released` and
            `lahar.job.unparked`, in log order; others are ignored.
        given: see `resolve_known`.

    Raises:
        NotFoundError: no job matches.
        AmbiguousError: a prefix matches several jobs, or jobs of several namespaces or clusters have the name.
    """
    names = _Names()
    for event in events:
        names.add(event)
    return resolve_known(names, given)


class NamedJob(NamedTuple):
    """A job, or a parked subject that is no job yet, with the name that its first input claims."""

    id: str
    cluster: str
    namespace: str
    name: str
    since: int
    """Time of its opening or parking."""
    is_job: bool

    def is_called(self, name: str) -> bool:
        """Return true if `name`, `namespace/name` or `cluster/namespace/name` refers to it."""
        own = f"{self.namespace}/{self.name}"
        return name in {self.name, own, f"{self.cluster}/{own}"}


class KnownNames(Protocol):
    """An index of jobs by id and name: a fold of the log, or a projection of it."""

    def ids(self, prefix: str) -> Sequence[str]:
        """Return all ids with a prefix, of jobs and of parked subjects."""

    def named(self, names: frozenset[str]) -> Iterable[NamedJob]:
        """Return all with one of the names (without namespace): jobs in log order, then parked subjects."""

    def beginning(self, prefix: str) -> Iterable[NamedJob]:
        """Return the jobs whose names have a prefix."""


class _Names(Jobs):
    """Names of all jobs, folded in memory."""

    def ids(self, prefix: str) -> list[str]:
        return [job for job in [*self._jobs, *self._claimed] if job.startswith(prefix)]

    def named(self, names: frozenset[str]) -> Iterator[NamedJob]:
        for job in self._jobs.values():
            if job.name in names:
                yield NamedJob(job.id, job.cluster, job.namespace, job.name, job.begun, is_job=True)
        for line in self._waiting():
            if line.name in names:
                yield NamedJob(line.id, line.cluster, line.namespace, line.name, line.submitted, is_job=False)

    def beginning(self, prefix: str) -> Iterator[NamedJob]:
        for job in self._jobs.values():
            if job.name.startswith(prefix):
                yield NamedJob(job.id, job.cluster, job.namespace, job.name, job.begun, is_job=True)


def resolve_known(known: KnownNames, given: str) -> str:
    """Return the id of the referenced job.

    Args:
        known: index of jobs. A parked subject counts by its claimed name only if no job has that name.
        given: an id, a prefix of one, `name`, `namespace/name`, `cluster/namespace/name`, or one of these followed by `@` and an id
            or a prefix of one.

    Raises:
        NotFoundError: no job matches.
        AmbiguousError: a prefix matches several jobs, or jobs of several namespaces or clusters have the name.
    """
    begun = known.ids(given) if given else ()
    if given in begun:
        return given
    name, _, prefix = given.partition("@")
    # The input may have any number of slashes; no reference has more than two.
    parts = name.split("/")[-NAME_CHARACTERS - 1 :]
    tails = frozenset("/".join(parts[at:]) for at in range(len(parts)))
    found = [job for job in known.named(tails) if job.is_called(name)] if name else []
    if begun:
        return _only(given, list(dict.fromkeys([*begun, *(job.id for job in found)])))
    if prefix:
        return _only(given, [job.id for job in found if job.id.startswith(prefix)])
    found = [job for job in found if job.is_job] or found
    if not found:
        raise NotFoundError("job", given, _nearest(known, name))
    if len({job.cluster for job in found}) > 1:
        raise AmbiguousError(given, sorted({f"{job.cluster}/{name}" for job in found}), missing="the cluster")
    full = {f"{job.namespace}/{job.name}" for job in found}
    if len(full) > 1:
        raise AmbiguousError(given, sorted(full), missing="the namespace")
    # Of jobs opened at the same time, the later one in the log wins.
    return max(reversed(found), key=lambda job: job.since).id


def _nearest(known: KnownNames, given: str) -> str | None:
    """Return the job whose name is most similar to a text; `None` if none is similar."""
    jobs = {f"{job.namespace}/{job.name}" for job in islice(known.beginning(given.rpartition("/")[2][:1]), _COMPARED)}
    if "/" in given:
        return nearest(given, jobs)
    by_name = {job.rpartition("/")[2]: job for job in sorted(jobs)}
    near = nearest(given, by_name)
    return None if near is None else by_name[near]


def _only(given: str, found: Sequence[str]) -> str:
    if not found:
        raise NotFoundError("job", given)
    if len(found) > 1:
        raise AmbiguousError(given, sorted(found))
    return found[0]
