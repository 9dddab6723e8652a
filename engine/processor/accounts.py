"""Outcomes of a shard's inputs, folded from the shard's outputs (design rules 1 and 4).

Outputs with the same basis follow from one input. The first of them has its outcome; timers that fired after it have the same basis
and count no input. Inputs without an event are counted by `shard.accounted`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from engine.events import Data, Event
from engine.events.outcomes import Accounted, DeadLettered, InputReleased
from engine.log.port import Vector
from engine.processor.stage import Outcome

OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)

SILENT: Final[frozenset[str]] = frozenset({"duplicate", "unchanged", "late"})
"""Outcomes of inputs that may leave no event."""


class Accounts:
    """Counters of one shard; `received == sum(outcomes.values())` after every commit."""

    __slots__ = ("_basis", "accounted", "outcomes", "received", "through")

    def __init__(self) -> None:
        """Start at zero."""
        self.received: int = 0
        """Inputs processed."""
        self.outcomes: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
        """Inputs by outcome; `parked` and `waiting` count those that still are."""
        self.accounted: int = 0
        """`shard.accounted` events written."""
        self.through: int = 0
        """Shardsequence of the last output folded."""
        self._basis: Vector = ()

    @property
    def balanced(self) -> bool:
        """True if every input received has exactly one outcome."""
        return self.received == sum(self.outcomes.values())

    def fold(self, event: Event[Data], basis: Vector, shardsequence: int, outcome: Callable[[Event[Any]], Outcome | None]) -> None:
        """Fold one output; folding it again changes nothing.

        Args:
            event: output event.
            basis: input offsets of the shard at the decision.
            shardsequence: sequence number of the output.
            outcome: returns the outcome of an input from its first event, as the stage defines it.
        """
        if shardsequence <= self.through:
            return
        self.through = shardsequence
        data = event.data
        if isinstance(data, Accounted):
            self.accounted += 1
            self.outcomes["duplicate"] += data.duplicate
            self.outcomes["unchanged"] += data.unchanged
            self.outcomes["late"] += data.late
            return
        if basis != self._basis:
            self._basis = basis
            found = "dead" if isinstance(data, DeadLettered) else outcome(event)
            if found is not None:
                self.outcomes[found] += 1
        if isinstance(data, InputReleased):
            self.outcomes[data.kept] -= 1
            self.outcomes[data.outcome] += 1

    def dump(self) -> bytes:
        """Return the accounts as a snapshot record."""
        return json.dumps(
            {
                "received": self.received,
                "outcomes": self.outcomes,
                "accounted": self.accounted,
                "through": self.through,
                "basis": self._basis,
            }
        ).encode()

    @classmethod
    def load(cls, record: bytes) -> Accounts:
        """Return the accounts that `dump` wrote."""
        fields: Mapping[str, Any] = json.loads(record)
        accounts = cls()
        accounts.received = fields["received"]
        accounts.outcomes |= fields["outcomes"]
        accounts.accounted = fields["accounted"]
        accounts.through = fields["through"]
        accounts._basis = tuple(fields["basis"])
        return accounts
