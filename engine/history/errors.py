"""Errors of the history package.

HistoryError
├── NotFoundError           the job, event or object is not in the log
│   ├── UnopenedError           the job exists but no event has opened it
│   ├── LaterError              the job was recorded after the requested time
│   └── NoPodGroupError         the job exists but is not scheduled by Lahar, or is over
├── LostOriginalError       a reversal voids a record that does not exist
├── AmbiguousError          several jobs or events match
├── TransferError           a file cannot be exported or imported
└── TokenError              a subscription cannot resume from a token
    ├── MalformedTokenError     not a token of this release
    ├── ForeignTokenError       from another log, topic or schema epoch
    └── ExpiredTokenError       later events are no longer retained
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.formatting import moment
from statemachines.errors import LaharError
from statemachines.names import nearest


class HistoryError(LaharError, ValueError):
    """Base of all errors of this package."""


class NotFoundError(HistoryError):
    """Raised when the log holds no such job, event, replica, node, queue, tenant, pod group, notice, record or dead letter."""

    def __init__(self, kind: str, given: str, near: str | None = None) -> None:
        command = {
            "job": "lahar job list --all",
            "replica": "lahar job show JOB",
            "node": "lahar as-of TIME",
            "dead letter": "lahar dead-letters list --all",
            "queue": "lahar queue list",
            "tenant": "lahar tenant list",
            "pod group": "lahar podgroup list",
            "notice": "lahar preemptions list --all",
            "record": "lahar billing export --all",
        }.get(kind, "lahar events")
        hint = "" if near is None else f"did you mean {near}? "
        super().__init__(f"no {kind} {given!r} in this log; {hint}`{command}` lists all {kind}s")
        self.given = given


class UnopenedError(NotFoundError):
    """Raised when a job has no state to show: its first input is parked, so no event has opened it."""

    def __init__(self, given: str) -> None:
        HistoryError.__init__(self, f"the job {given!r} is not opened yet; `lahar why {given}` shows what it waits for")
        self.given = given


class LaterError(NotFoundError):
    """Raised when a job was recorded after the requested time."""

    def __init__(self, given: str, known: int) -> None:
        HistoryError.__init__(self, f"the job {given!r} was recorded after {moment(known)}; `lahar history {given}` shows when")
        self.given = given


class NoPodGroupError(NotFoundError):
    """Raised when a job has no pod group: Lahar does not schedule it, or it is over."""

    def __init__(self, given: str, why: str) -> None:
        HistoryError.__init__(self, f"job {given} has no pod group: {why}")
        self.given = given


class LostOriginalError(HistoryError):
    """Raised when a reversal cannot be explained, because the record that it voids does not exist."""

    def __init__(self, reversal: str, original: str) -> None:
        super().__init__(
            f"record {reversal} takes back {original}, which is no record; `lahar billing verify` lists all such reversals"
        )


class AmbiguousError(HistoryError):
    """Raised when a prefix matches several jobs or events, or a name matches jobs of several clusters; `matches` lists them."""

    _SHOWN = 5

    def __init__(self, given: str, matches: Sequence[str], kind: str = "jobs", missing: str = "more of the id") -> None:
        shown = ", ".join(matches[: self._SHOWN]) + (", …" if len(matches) > self._SHOWN else "")
        super().__init__(f"{given!r} matches {len(matches)} {kind}: {shown}; give {missing}")
        self.given = given
        self.matches = list(matches)


class TransferError(HistoryError):
    """Raised when an export cannot be read, or cannot be restored into the given log."""


class TokenError(HistoryError):
    """Base of the errors that reject a subscription token; a subscription never skips events silently."""


class MalformedTokenError(TokenError):
    """Raised when a text is not a token, or has a version that this release does not read."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not a subscription token ({why}); take one from the subscription itself, or start `--from beginning`")


class ForeignTokenError(TokenError):
    """Raised when a token comes from another log, topic or schema epoch."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the token belongs to another log or topic: {why}; start again `--from beginning` or from a time")


class ExpiredTokenError(TokenError):
    """Raised when events after the token are no longer retained, so resuming would leave a gap."""

    def __init__(self, partition: str, offset: int, first: int) -> None:
        super().__init__(
            f"the token is older than retention: {partition} resumes at offset {offset}, the oldest kept is {first}; "
            "start again `--from beginning` and expect a gap"
        )


def only_one(kind: str, name: str, clusters: Sequence[str], known: Iterable[str] = ()) -> str:
    """Return the only cluster with an object of a name; the error for an unknown name suggests the nearest known one.

    Raises:
        NotFoundError: no cluster has it.
        AmbiguousError: several clusters have it.
    """
    if not clusters:
        raise NotFoundError(kind, name, nearest(name, known))
    if len(clusters) > 1:
        raise AmbiguousError(name, [f"{cluster}/{name}" for cluster in clusters], f"{kind}s", "--cluster")
    return clusters[0]
