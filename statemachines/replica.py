"""The replica machine: the phases of one attempt.

Triggers are the phases that observations show. An observation may skip phases, and never moves an attempt backwards: for an earlier
live phase the table has a row that stays. For a closed attempt it has none, so later observations are late facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, cast

from statemachines.machine import MachineTable, TransitionRow
from statemachines.vocabulary import ATTEMPT_PHASES, LIVE_ATTEMPT_PHASES, AttemptPhase

AttemptTrigger = Literal["Wait", "Bind", "Start", "Delete", "Succeed", "Fail", "Lose"]

SHOWN_BY: Final[Mapping[AttemptPhase, AttemptTrigger]] = {
    "Pending": "Wait",
    "Bound": "Bind",
    "Running": "Start",
    "Terminating": "Delete",
    "Succeeded": "Succeed",
    "Failed": "Fail",
    "Lost": "Lose",
}
"""Observed phase → its trigger."""

REPLICA_STATES: Final[Mapping[str, str]] = {
    "Pending": "Requested; the pod may not exist yet. Every other phase may follow.",
    "Bound": "It has a node and does not run: pulling, initialising, blocked. Running, Terminating or an end follow.",
    "Running": "A container has started. Terminating, Succeeded, Failed or Lost follow.",
    "Terminating": "Its deletion was requested; it holds its node and is billed. Succeeded, Failed or Lost follow.",
    "Succeeded": "All containers ended well. Final.",
    "Failed": "It failed or was killed. Final.",
    "Lost": "Its node or its object vanished without evidence of an end. Final.",
}

_TRIGGERS: Final[Mapping[str, str]] = {
    "Wait": "An observation shows it without a node.",
    "Bind": "An observation shows it on a node.",
    "Start": "An observation shows a container that has started.",
    "Delete": "An observation shows a deletion timestamp.",
    "Succeed": "An observation shows that it succeeded.",
    "Fail": "An observation shows that it failed.",
    "Lose": "Its node or object vanished without evidence of an end.",
}


_ORDER: Final = {phase: rank for rank, phase in enumerate(ATTEMPT_PHASES)}


def _rows() -> list[TransitionRow]:
    return [
        TransitionRow(trigger=SHOWN_BY[shown], source=phase, dest=shown if _ORDER[shown] > _ORDER[phase] else None)
        for phase in LIVE_ATTEMPT_PHASES
        for shown in ATTEMPT_PHASES
    ]


REPLICA: Final[MachineTable[None]] = MachineTable("Replica", REPLICA_STATES, "Pending", _TRIGGERS, _rows(), {})

_NEXT: Final = {(source, trigger): cast("AttemptPhase", rows[0].dest) for (source, trigger), rows in REPLICA.compiled.items()}


def next_attempt_phase(phase: AttemptPhase, shown: AttemptPhase) -> AttemptPhase | None:
    """Return the phase of an attempt after an observation.

    Args:
        phase: its phase.
        shown: the observed phase.

    Returns:
        The phase, the same one if the observation shows an earlier live phase; `None` if the attempt is closed.
    """
    return _NEXT.get((phase, SHOWN_BY[shown]))


def skipped(phase: AttemptPhase, entered: AttemptPhase) -> tuple[AttemptPhase, ...]:
    """Return the live phases between two, in order, which an observation may have skipped.

    Only the observation shows whether the attempt was in them: it may fail without a node, and end without a deletion.
    """
    return _BETWEEN[phase, entered]


_BETWEEN: Final = {
    (phase, entered): tuple(live for live in LIVE_ATTEMPT_PHASES if _ORDER[phase] < _ORDER[live] < _ORDER[entered])
    for phase in LIVE_ATTEMPT_PHASES
    for entered in ATTEMPT_PHASES
}
