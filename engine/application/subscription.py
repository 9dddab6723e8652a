"""A subscription as an iterator over events, for Python programs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from engine.application.errors import RequestError
from engine.events import Data, Event, decode
from engine.history.errors import TokenError
from engine.history.moment_argument import moment_of
from engine.history.subscribe import CaughtUp, Start, Subscription
from engine.history.token import is_token
from engine.log.errors import LogError


class Events(Iterator[Event[Data]]):
    """Events of a subscription, in the order of each job. Not thread-safe."""

    def __init__(self, subscription: Subscription, *, follow: bool) -> None:
        self._subscription = subscription
        self._follow = follow
        self._items = subscription.stream(follow=follow)

    @property
    def token(self) -> str:
        """Token of a subscription that resumes after the last event returned."""
        return self._subscription.token

    @property
    def is_caught_up(self) -> bool:
        """Whether all events that were committed when the subscription began were returned."""
        return self._subscription.caught_up

    def __next__(self) -> Event[Data]:
        try:
            for item in self._items:
                if not isinstance(item, CaughtUp):
                    return decode(item.message)
        except LogError:
            # Iteration may continue after the last event once the log can be read again.
            self._items = self._subscription.stream(follow=self._follow)
            raise
        raise StopIteration


def start_at(start: str | datetime) -> Start:
    """Return the start of a subscription: `beginning`, `now`, a moment, or a token.

    Raises:
        TokenError: it is none of these.
    """
    if start == "now":
        return Start("now")
    if start == "beginning":
        return Start()
    if isinstance(start, str) and is_token(start):
        return Start("token", token=start)
    try:
        return Start("time", time=moment_of(start))
    except RequestError as error:
        raise TokenError(f"not a subscription token, and {error}") from None
