"""The notice machine: how a notice of preemption goes on when one of its jobs changes, or its time comes.

A notice names one preemptor and its victims. Whatever takes one of them out of Privileged or WillEvicted is a trigger here, so one
side's change always changes the other side. A victim that leaves is taken out of the notice before the conditions are tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from statemachines.machine import MachineTable, TransitionRow, step

NoticeState = Literal["Open", "Executed", "Withdrawn"]

NoticeChange = Literal[
    "PreemptorLeft",
    "PreemptorPlaced",
    "VictimLeft",
    "VictimNotNeeded",
    "NotEnough",
    "WithdrawCommanded",
    "QueueChanged",
    "RightRevoked",
    "Acknowledged",
    "DeadlinePassed",
]


@dataclass(slots=True, frozen=True)
class NoticeFacts:
    """Facts for the conditions of the notice machine, after the change."""

    victims: int
    """Victims that are left."""
    acknowledged: int
    """Those of them that may be stopped early."""
    unconfirmed: int
    """Jobs of the notice that are parked, or not confirmed by the lifecycle stage to be Privileged or WillEvicted."""
    reviewed: bool
    """The round has found that the victims that are left are needed, and free enough."""


def _no_victim_left(facts: NoticeFacts) -> bool:
    """No victim is left."""
    return facts.victims == 0


def _all_acknowledged(facts: NoticeFacts) -> bool:
    """Every victim that is left has acknowledged."""
    return facts.acknowledged == facts.victims


def _all_confirmed(facts: NoticeFacts) -> bool:
    """No job of the notice is parked, and the lifecycle stage has confirmed the phase of each: whoever is stopped has been told."""
    return facts.unconfirmed == 0


def _reviewed(facts: NoticeFacts) -> bool:
    """The round has found that the victims that are left are needed, and free enough."""
    return facts.reviewed


_STATES: Final[Mapping[str, str]] = {
    "Open": "The preemptor is Privileged, the victims are WillEvicted, and the deadline runs. Executed or Withdrawn follow.",
    "Executed": "The victims that were left are stopped, and their place is reserved for the preemptor. Final.",
    "Withdrawn": "Nobody is stopped: victims and preemptor go on as before. Final.",
}
_TRIGGERS: Final[Mapping[str, str]] = {
    "PreemptorLeft": "The preemptor is no longer Privileged: stopped, restarted, failed, or the lifecycle stage has refused it.",
    "PreemptorPlaced": "The preemptor's gang has its places: something else freed them.",
    "VictimLeft": "A victim is no longer WillEvicted: ended, stopped, restarted, or the lifecycle stage has refused it.",
    "VictimNotNeeded": "The preemptor fits without a victim.",
    "NotEnough": "The victims that are left would not free enough.",
    "WithdrawCommanded": "Somebody commands the withdrawal.",
    "QueueChanged": "The queue is gone or gives notice no more: its setting is another one, or action `preempt` is not configured.",
    "RightRevoked": "The preemptor's tenant may not preempt any more.",
    "Acknowledged": "A victim may be stopped before the deadline.",
    "DeadlinePassed": "The deadline has come.",
}


def _row(trigger: NoticeChange, dest: NoticeState | None, *conditions: str) -> TransitionRow:
    row = TransitionRow(trigger=trigger, source="Open", dest=dest)
    if conditions:
        row["conditions"] = list(conditions)
    return row


_ROWS: Final = [
    _row("PreemptorLeft", "Withdrawn"),
    _row("PreemptorPlaced", "Withdrawn"),
    _row("VictimLeft", "Withdrawn", "no_victim_left"),
    _row("VictimLeft", None),
    _row("VictimNotNeeded", "Withdrawn", "no_victim_left"),
    _row("VictimNotNeeded", None),
    _row("NotEnough", "Withdrawn"),
    _row("WithdrawCommanded", "Withdrawn"),
    _row("QueueChanged", "Withdrawn"),
    _row("RightRevoked", "Withdrawn"),
    _row("Acknowledged", "Executed", "all_acknowledged", "all_confirmed", "reviewed"),
    _row("Acknowledged", None),
    _row("DeadlinePassed", "Executed", "all_confirmed", "reviewed"),
    _row("DeadlinePassed", "Withdrawn"),
]

NOTICE: Final[MachineTable[NoticeFacts]] = MachineTable(
    "Notice",
    _STATES,
    "Open",
    _TRIGGERS,
    _ROWS,
    {
        "no_victim_left": _no_victim_left,
        "all_acknowledged": _all_acknowledged,
        "all_confirmed": _all_confirmed,
        "reviewed": _reviewed,
    },
)


def next_state(change: NoticeChange, facts: NoticeFacts) -> NoticeState:
    """Return the state of an open notice after a change."""
    row = step(NOTICE.compiled, "Open", change, facts)
    return "Open" if row is None else row.dest  # type: ignore[return-value]  # a state of the table
