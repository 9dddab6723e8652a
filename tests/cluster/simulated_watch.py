"""A watch of one kind of object as a client sees it: late, in pieces, doubled, or broken and followed by a full list.

The rules of the client are those of kubernetes.md 1.1: a full state is compared with what is known by uid; what is missing from it
was deleted (`inferred`), and the same name with another uid is a deletion and an addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from api_server import ApiServer, Object, WatchEvent, uid_of
from simulated_time import Timeline


class Deliver(Protocol):
    """Takes what the client makes of the watch."""

    def __call__(self, change: str, found: Object, *, inferred: bool) -> None:
        """Take one change: ADDED, MODIFIED or DELETED, and the object."""


class Watch:
    """One client's watch of one kind."""

    def __init__(
        self,
        api: ApiServer,
        kind: str,
        timeline: Timeline,
        deliver: Deliver,
        *,
        lag: float = 0.0,
        doubled: Callable[[], bool] = bool,
    ) -> None:
        """Begin to watch, from an empty cluster.

        Args:
            api: the server.
            kind: of the objects.
            timeline: its clock.
            deliver: takes the changes.
            lag: seconds from a change to its delivery.
            doubled: says of each delivery whether it comes twice.
        """
        self._api = api
        self._kind = kind
        self._timeline = timeline
        self._deliver = deliver
        self._lag = lag
        self._doubled = doubled
        self._cursor = 0
        self._known: dict[str, Object] = {}
        self.broken = False
        api.informers.append(self._hear)

    def _hear(self, event: WatchEvent) -> None:
        if event.kind == self._kind:
            self._timeline.after(self._lag, self.pump)

    def pump(self) -> None:
        """Deliver what has happened up to `lag` seconds ago; in order of versions."""
        if self.broken:
            return
        history = self._api.history
        while self._cursor < len(history):
            event = history[self._cursor]
            self._cursor += 1
            if event.kind == self._kind:
                self._take(event.change, event.object)

    def sever(self) -> None:
        """Lose the connection: changes from now on are not delivered."""
        self.broken = True

    def relist(self) -> None:
        """Take the full state and go on watching from there; what happened in between is not shown."""
        self.broken = False
        self._cursor = len(self._api.history)
        listed = {uid_of(found): found for found in self._api.list(self._kind)}
        for uid, last in list(self._known.items()):
            if uid not in listed:
                self._take("DELETED", last, inferred=True)
        for uid, found in listed.items():
            known = self._known.get(uid)
            if known is None:
                self._take("ADDED", found)
            elif known["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
                self._take("MODIFIED", found)

    def _take(self, change: str, found: Object, *, inferred: bool = False) -> None:
        if change == "DELETED":
            self._known.pop(uid_of(found), None)
        else:
            self._known[uid_of(found)] = found
        self._deliver(change, found, inferred=inferred)
        if self._doubled():
            self._deliver(change, found, inferred=inferred)
