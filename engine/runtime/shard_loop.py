"""The loop of a process that runs shards until SIGTERM, the same on every log."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from engine.log.errors import LogError
from engine.log.port import Log, SearchableLog
from engine.log.producer_time import wall_clock
from engine.processor.membership import Membership
from engine.processor.partitions import shard_count
from engine.processor.processor import Processor
from engine.processor.stage import Stage
from engine.processor.watchdog import Watchdog
from engine.projection.file import place_of
from engine.projection.follower import Follower
from engine.runtime.monitoring import Monitoring
from engine.runtime.runner import Runner
from engine.runtime.signals import Signals

__all__ = ["TURN_SECONDS", "UNSETTLED", "Share", "run_shares", "shared", "waiting_for"]

TURN_SECONDS: Final = 0.2
"""How long a process at rest waits before it looks around."""

_BATCH: Final = 1_000
"""Inputs a transaction, at most, of a shard that runs for good. On Kafka one costs as much as 100 inputs, whatever is in it. What
runs until it is quiet has transactions of the size that they have everywhere: the same inputs leave the same records."""

UNSETTLED: Final = "the group of the workers has not said yet which shards are to be run here"
"""Why a process is not ready that has just begun to take part."""


class Share(NamedTuple):
    """What this process runs of a stage."""

    stage: str
    runner: Runner
    membership: Membership


def shared(
    log: Log,
    stage: Stage[Any],
    membership: Membership,
    monitoring: Monitoring,
    watchdog: Watchdog,
    signals: Signals,
    stack: ExitStack,
) -> Share:
    """Take part in a stage.

    Args:
        log: writable.
        stage: whose shards are run.
        membership: says which; it is started here, and closed with its shards.
        monitoring: is told what the processors do.
        watchdog: ends the process where a decision takes too long.
        signals: woken when there is news of shards or of the membership.
        stack: gives the shards back at its end, then leaves the membership.

    Raises:
        LogUnavailableError: the membership cannot be reached.
    """
    monitoring.metrics.sized(stage.name, shard_count(log, stage))

    def make(number: int) -> Processor[Any]:
        return Processor(log, stage, number, batch=_BATCH, clock=wall_clock, observer=monitoring.observer, watchdog=watchdog)

    # Shards first: whoever gets them next finds them given back.
    stack.callback(membership.close)
    runner = stack.enter_context(Runner(log, make, changed=signals.wake))
    membership.start(signals.wake)
    return Share(stage.name, runner, membership)


def run_shares(
    log: SearchableLog,
    url: str,
    shares: Sequence[Share],
    signals: Signals,
    beat: Callable[[], object],
    meanwhile: Callable[[], float] = lambda: TURN_SECONDS,
) -> None:
    """Run the shards that are this process's until it is told to stop, and follow with the projection what all shards commit.

    Args:
        log: on which they run.
        url: of the log.
        shares: of each stage; one that has news wakes `signals`.
        signals: say when to stop.
        beat: told at each turn.
        meanwhile: called every now and then; returns how long it need not be called (seconds).

    Raises:
        FencedError: another process has taken a shard over, and this one is not to have it again.
        LogError: a shard cannot go on, or this process has no part in a stage any more.
    """
    with Follower(place_of(url, os.environ), log):
        while not signals.stopped:
            beat()
            for _, runner, membership in shares:
                for shard, error in runner.collect():
                    membership.fenced(shard, error)
                runner.assign(membership.shards())
            signals.wait(meanwhile())


def waiting_for(shares: Sequence[Share]) -> list[str]:
    """Return why shards that are this process's are not run at this moment. May be called from any thread."""
    return [reason for share in shares for reason in _waiting_for(share)]


def _waiting_for(share: Share) -> list[str]:
    stage, runner, membership = share
    if not membership.is_settled():
        return [UNSETTLED]
    try:
        missing = membership.shards() - runner.open
    except LogError as error:
        return [str(error)]
    reasons = runner.waiting
    return [f"shard {stage}/{number} is not open: {reasons.get(number, 'it is about to be')}" for number in sorted(missing)]
