"""Which job is meant: by id, a unique prefix of it, `namespace/name` (the newest of that name) or `namespace/name@id`.

Where several clusters have a job of that name, `cluster/namespace/name` says which one is meant; where one namespace alone has one,
the name does. A name that is the beginning of another job's id means neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from engine.events import Data, Event
from engine.events.bounds import NAME_CHARACTERS
from engine.events.jobs import JobOpened, JobRevised
from engine.history.claimed_names import CLAIMING
from engine.history.errors import AmbiguousError, NotFoundError
from engine.history.facts import Jobs
from engine.history.reading import job_events
from engine.log.port import Searchable

__all__ = ["KnownNames", "NamedJob", "resolve", "resolve_among", "resolve_known"]

_TELLING: Final[tuple[type[Data], ...]] = (JobOpened, JobRevised, *CLAIMING)
"""Events that say which jobs there are and what they are called."""


def resolve(log: Searchable, given: str) -> str:
    """Return the id of the job that a command's JOB argument means.

    Raises:
        NotFoundError: none is meant.
        AmbiguousError: a prefix means several, or the name is one of several clusters.
    """
    return resolve_among(job_events(log, {kind.TYPE for kind in _TELLING}), given)


def resolve_among(events: Iterable[Event[Data]], given: str) -> str:
    """Return the id of the job that is meant among those that some events open or rename.

    Args:
        events: `lahar.job.opened`, `lahar.job.revised`, `lahar.job.parked`, `lahar.input.parked`, `lahar.input.released` and
            `lahar.job.unparked`, in the order of the log; others are passed over.
        given: see `resolve_known`.

    Raises:
        NotFoundError: none is meant.
        AmbiguousError: a prefix means several, or the name is one of several namespaces or clusters.
    """
    names = _Names()
    for event in events:
        names.add(event)
    return resolve_known(names, given)


class NamedJob(NamedTuple):
    """What a name may mean: a job, or what is parked and no job yet and has the name that its first input says."""

    id: str
    cluster: str
    namespace: str
    name: str
    since: int
    """When it was opened or parked."""
    is_job: bool

    def is_called(self, name: str) -> bool:
        """Tell whether `name`, `namespace/name` or `cluster/namespace/name` means it."""
        own = f"{self.namespace}/{self.name}"
        return name in {self.name, own, f"{self.cluster}/{own}"}


class KnownNames(Protocol):
    """Who knows which jobs there are: the fold of a log, or a projection of it."""

    def ids(self, prefix: str) -> Sequence[str]:
        """Return all ids that begin so, of jobs and of what is parked and no job."""

    def named(self, names: frozenset[str]) -> Iterable[NamedJob]:
        """Return what has one of some names (without their namespaces): jobs in the order of the log, then what is parked."""


class _Names(Jobs):
    """The names of all jobs, folded in memory."""

    def ids(self, prefix: str) -> list[str]:
        return [job for job in [*self._jobs, *self._claimed] if job.startswith(prefix)]

    def named(self, names: frozenset[str]) -> Iterator[NamedJob]:
        for job in self._jobs.values():
            if job.name in names:
                yield NamedJob(job.id, job.cluster, job.namespace, job.name, job.begun, is_job=True)
        for line in self._waiting():
            if line.name in names:
                yield NamedJob(line.id, line.cluster, line.namespace, line.name, line.submitted, is_job=False)


def resolve_known(known: KnownNames, given: str) -> str:
    """Return the id of the job that is meant.

    Args:
        known: which jobs there are. What is parked and no job has the name that its first input says, if no job has it.
        given: an id, a prefix of one, `name`, `namespace/name`, `cluster/namespace/name`, or one of these followed by `@` and an id
            or a prefix of one.

    Raises:
        NotFoundError: none is meant.
        AmbiguousError: a prefix means several, or the name is one of several namespaces or clusters.
    """
    begun = known.ids(given) if given else ()
    if given in begun:
        return given
    name, _, prefix = given.partition("@")
    # Names with slashes may come from anywhere; none has more of them.
    parts = name.split("/")[-NAME_CHARACTERS - 1 :]
    tails = frozenset("/".join(parts[at:]) for at in range(len(parts)))
    found = [job for job in known.named(tails) if job.is_called(name)] if name else []
    if begun:
        return _only(given, list(dict.fromkeys([*begun, *(job.id for job in found)])))
    if prefix:
        return _only(given, [job.id for job in found if job.id.startswith(prefix)])
    found = [job for job in found if job.is_job] or found
    if not found:
        raise NotFoundError("job", given)
    if len({job.cluster for job in found}) > 1:
        raise AmbiguousError(given, sorted({f"{job.cluster}/{name}" for job in found}), missing="the cluster")
    full = {f"{job.namespace}/{job.name}" for job in found}
    if len(full) > 1:
        raise AmbiguousError(given, sorted(full), missing="the namespace")
    # Of two opened at the same time the later one in the log.
    return max(reversed(found), key=lambda job: job.since).id


def _only(given: str, found: Sequence[str]) -> str:
    if not found:
        raise NotFoundError("job", given)
    if len(found) > 1:
        raise AmbiguousError(given, sorted(found))
    return found[0]
