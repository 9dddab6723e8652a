"""Which job is meant: by id, a unique prefix of it, `namespace/name` (the newest of that name) or `namespace/name@id`.

Where several clusters have a job of that name, `cluster/namespace/name` says which one is meant; where one namespace alone has one,
the name does. A name that is the beginning of another job's id means neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.events import Data, Event
from engine.events.jobs import InputParked, InputReleased, JobOpened, JobParked, JobRevised, JobUnparked
from engine.history.claimed import Claimed
from engine.history.errors import AmbiguousError, NotFoundError
from engine.history.reading import job_events
from engine.log.port import Searchable

__all__ = ["resolve", "resolve_among"]

_TELLING: Final = (JobOpened, JobRevised, JobParked, InputParked, InputReleased, JobUnparked)
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
            `lahar.job.unparked`, in the order of the log; others are passed over. What is parked and no job has the name that its
            first input says, if no job has it.
        given: an id, a prefix of one, `name`, `namespace/name`, `cluster/namespace/name`, or one of these followed by `@` and an id
            or a prefix of one.

    Raises:
        NotFoundError: none is meant.
        AmbiguousError: a prefix means several, or the name is one of several namespaces or clusters.
    """
    names: dict[str, tuple[str, str]] = {}
    clusters: dict[str, str] = {}
    opened: dict[str, int] = {}
    parked = Claimed()
    for event in events:
        data = event.data
        if isinstance(data, JobOpened):
            names[event.subject], opened[event.subject] = (data.namespace, data.name), event.time
            clusters[event.subject] = event.clusterid
            parked.opened(event.subject)
        elif isinstance(data, JobRevised) and event.subject in names:
            namespace, name = names[event.subject]
            names[event.subject] = (data.namespace or namespace, data.name or name)
        elif event.subject not in names:
            parked.take(event)
    if given in names or given in parked:
        return given
    name, _, prefix = given.partition("@")
    claims: dict[str, tuple[str, str]] = {}
    for job, claim, time in parked.claims():
        claims[job], clusters[job], opened[job] = (claim.namespace, claim.name), claim.cluster, time
    found, claimed = (
        [
            job
            for job, (space, called) in known.items()
            if name and name in {called, f"{space}/{called}", f"{clusters[job]}/{space}/{called}"}
        ]
        for known in (names, claims)
    )
    begun = [job for job in [*names, *parked] if given and job.startswith(given)]
    if begun:
        return _only(given, list(dict.fromkeys([*begun, *found, *claimed])))
    if prefix:
        return _only(given, [job for job in found + claimed if job.startswith(prefix)])
    found = found or claimed
    if not found:
        raise NotFoundError("job", given)
    if len({clusters[job] for job in found}) > 1:
        raise AmbiguousError(given, sorted({f"{clusters[job]}/{name}" for job in found}), missing="the cluster")
    full = {"/".join((names | claims)[job]) for job in found}
    if len(full) > 1:
        raise AmbiguousError(given, sorted(full), missing="the namespace")
    # Of two opened at the same time the later one in the log.
    return max(reversed(found), key=opened.__getitem__)


def _only(given: str, found: list[str]) -> str:
    if not found:
        raise NotFoundError("job", given)
    if len(found) > 1:
        raise AmbiguousError(given, sorted(found))
    return found[0]
