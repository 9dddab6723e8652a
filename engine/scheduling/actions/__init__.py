"""Actions of a session, by name; the configuration gives their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from engine.events.decisions import EvictionReason
from engine.scheduling.actions.allocate import allocate
from engine.scheduling.actions.backfill import backfill
from engine.scheduling.actions.enqueue import enqueue
from engine.scheduling.actions.preempt import preempt
from engine.scheduling.actions.reclaim import reclaim
from engine.scheduling.actions.shuffle import shuffle
from engine.scheduling.placement import Placement
from engine.scheduling.session import Session

__all__ = ["ACTIONS", "EVICTED_BY"]

ACTIONS: Final[Mapping[str, Callable[[Session, Placement], None]]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
    "shuffle": shuffle,
}
"""Name in the configuration → action."""

EVICTED_BY: Final[Mapping[str, EvictionReason]] = {"preempt": "Preempted", "reclaim": "Reclaimed", "shuffle": "Shuffled"}
"""Action that evicts → reason of its evictions."""
