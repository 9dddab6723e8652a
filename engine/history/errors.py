"""Errors of the history package.

HistoryError
├── NotFoundError           no job or event is meant by what was given
│   └── UnopenedError           a job is meant that nothing has opened
├── AmbiguousError          several are
├── TransferError           a file that cannot be imported
└── TokenError              a subscription cannot go on from a token
    ├── MalformedTokenError     it is no token of ours
    ├── ForeignTokenError       it was given out by another log, topic or schema epoch
    └── ExpiredTokenError       what follows it is no longer retained
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AmbiguousError",
    "ExpiredTokenError",
    "ForeignTokenError",
    "HistoryError",
    "MalformedTokenError",
    "NotFoundError",
    "TokenError",
    "TransferError",
    "UnopenedError",
]


class HistoryError(ValueError):
    """Base of all errors of this package."""


class NotFoundError(HistoryError):
    """Raised when nothing in the log is meant by what was given: a job, an event, a replica, a node or a dead letter."""

    def __init__(self, kind: str, given: str) -> None:
        command = {
            "job": "lahar job list --all",
            "replica": "lahar job show JOB",
            "node": "lahar as-of TIME",
            "dead letter": "lahar dead-letters list --all",
        }.get(kind, "lahar events")
        super().__init__(f"no {kind} {given!r} in this log; `{command}` shows the {kind}s there are")
        self.given = given


class UnopenedError(NotFoundError):
    """Raised when the job that is meant has nothing to show: nothing has opened it, since its first input is parked."""

    def __init__(self, given: str) -> None:
        HistoryError.__init__(self, f"nothing has opened the job {given!r} yet; `lahar why {given}` says what it waits for")
        self.given = given


class AmbiguousError(HistoryError):
    """Raised when a prefix means several jobs or events, or a name jobs of several clusters; `matches` are those, in order."""

    _SHOWN = 5

    def __init__(self, given: str, matches: Sequence[str], kind: str = "jobs", missing: str = "more of the id") -> None:
        shown = ", ".join(matches[: self._SHOWN]) + (", …" if len(matches) > self._SHOWN else "")
        super().__init__(f"{given!r} means {len(matches)} {kind}: {shown}; give {missing}")
        self.given = given
        self.matches = list(matches)


class TransferError(HistoryError):
    """Raised when an export cannot be read, or cannot be restored into the log it is meant for."""


class TokenError(HistoryError):
    """Base of the reasons why a subscription cannot go on from a token; it never moves silently."""


class MalformedTokenError(TokenError):
    """Raised when a text is no token, or one of a version that this release does not read."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not a subscription token ({why}); take one from the subscription itself, or start `--from beginning`")


class ForeignTokenError(TokenError):
    """Raised when a token was given out by another log, for another topic or in another schema epoch."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the token belongs to another log or topic: {why}; start again `--from beginning` or from a time")


class ExpiredTokenError(TokenError):
    """Raised when events that follow the token are no longer retained, so that going on would leave a gap."""

    def __init__(self, partition: str, offset: int, first: int) -> None:
        super().__init__(
            f"the token is behind retention: {partition} goes on at offset {offset}, the oldest kept is {first}; "
            "start again `--from beginning` and expect a gap"
        )
