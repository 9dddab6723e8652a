"""The budgets stage: events for thresholds that a use, or a new budget, has reached.

It has one shard, because a tenant's jobs are in all partitions of `billing`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final, Literal

from engine.budgets import state as known
from engine.budgets.state import State
from engine.events import Data, Event, NotKeptError, Topic
from engine.events.billing import UsageRecorded
from engine.events.budgets import BudgetCrossed
from engine.events.decimals import plain
from engine.events.ids import output_id
from engine.events.times import Micros

STAGE: Final = "budgets"


class BudgetsStage:
    """The stage as the processor runs it (`engine.processor.stage.Stage`)."""

    name: Final = STAGE
    state_version: Final = 1
    inputs: Final[tuple[tuple[Topic, Literal["own", "all"]], ...]] = (("cluster", "all"), ("billing", "all"))
    outputs: Final[tuple[Topic, ...]] = ("budgets", "dead-letters")
    exact: Final = ()

    def initial(self) -> State:
        """Return the initial state of a shard."""
        return State()

    # --- the three functions --------------------------------------------------------------------------------------------------

    def decide(
        self, state: State, event: Event[Data], now: Micros
    ) -> Generator[Event[Data], None, Literal["applied", "unchanged"]]:
        """Yield the thresholds that an input, already absorbed, has reached."""
        outcome: Literal["applied", "unchanged"] = "unchanged"
        used = isinstance(event.data, UsageRecorded)
        index = 0
        for name, period in state.changed:
            for threshold, budget, month in list(state.tenants[name].reached(period)):
                spent, amount = plain(month.spent), plain(budget.amount)
                usage, job = (event.id, event.subject) if used else (None, None)
                data = BudgetCrossed(name, period, threshold, spent, amount, budget.currency, usage, job)
                ident, sequence = output_id(STAGE, event.id, index), state.tenants[name].written + 1
                source, time = f"lahar/{STAGE}", event.time if used else now
                yield Event(ident, source, data.TYPE, name, time, now, sequence, "", event.id, event.clusterid, data)
                index += 1
                outcome = "applied"
        return outcome

    evolve = staticmethod(known.evolve)

    def due(self, state: State) -> Micros | None:  # noqa: ARG002 - as the protocol says, here and below
        """Return `None`: it has no timers."""
        return None

    # --- the rest of the protocol ---------------------------------------------------------------------------------------------

    absorb = staticmethod(known.absorb)

    def absorbs(self, topic: Topic) -> bool:
        """Return whether inputs of the topic are absorbed: always."""
        return any(topic == name for name, _ in self.inputs)

    def park(self, state: State, event: Event[Data], now: Micros, error: str) -> Any:  # noqa: ANN401, ARG002
        """Refuse to hold an input, because it is already absorbed.

        Raises:
            NotKeptError: always.
        """
        raise NotKeptError(f"no budget is compared for {event.type} of {event.subject!r}: {error}")

    def fire(self, state: State, now: Micros, error: str | None = None) -> Generator[Event[Data], None, None]:  # noqa: ARG002
        """Yield nothing."""
        yield from ()

    def drop(self, state: State, now: Micros, error: str) -> Generator[Event[Data], None, None]:  # noqa: ARG002
        """Yield nothing."""
        yield from ()

    def timer(self, state: State) -> str:  # noqa: ARG002
        """Return an empty name: it has no timers."""
        return ""

    def fires_at(self, state: State, due: Micros, horizon: Micros) -> Micros:  # noqa: ARG002
        """Return when a timer is due."""
        return due

    def unfinished(self, state: State) -> Micros | None:  # noqa: ARG002
        """Return `None`: no work is pending."""
        return None

    def contains(self, state: State, event: Event[Data]) -> bool:
        """Return whether the state already contains an event of this stage."""
        tenant = state.tenants.get(event.subject)
        return tenant is not None and event.sequence <= tenant.written

    def touched(self, state: State) -> list[str]:
        """Return the records changed since the last call."""
        changed = list(state.touched)
        state.touched.clear()
        return changed

    def outcome(self, event: Event[Data]) -> Literal["applied"]:  # noqa: ARG002
        """Return the outcome that the first event of an input stands for."""
        return "applied"

    def subject(self, record: str) -> str:  # noqa: ARG002
        """Return the one subject of all records."""
        return STAGE

    dump = staticmethod(known.dump)
    load = staticmethod(known.load)
    records = staticmethod(known.records)

    def parked(self, state: State) -> Iterable[str]:  # noqa: ARG002
        """Return nothing: no job is parked."""
        return ()
