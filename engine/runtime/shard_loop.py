"""Loop of a process that runs shards until SIGTERM, the same for every log."""

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
from engine.signals import Signals

TURN_SECONDS: Final = 0.2
"""Maximum wait of an idle process between two turns (seconds)."""

_BATCH: Final = 1_000
"""Maximum number of inputs per transaction of a long-running shard. On Kafka a transaction costs as much as 100 inputs, whatever
its size. `lahar run --once` uses the same size on all logs, so that the same inputs leave the same records."""

UNSETTLED: Final = "the group of the workers has not assigned shards to this process yet"
"""Reason why a process that has just joined is not ready."""


class Share(NamedTuple):
    """Share of a stage that this process runs."""

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
    """Join a stage's workers.

    Args:
        log: writable log.
        stage: stage to run.
        membership: assigns shards; started here, and closed after its shards.
        monitoring: observer of the processors.
        watchdog: ends the process if a decision takes too long.
        signals: woken by changes of shards or of the membership.
        stack: closes the shards at its end, then leaves the membership.

    Raises:
        LogUnavailableError: the membership cannot be reached.
    """
    monitoring.metrics.sized(stage.name, shard_count(log, stage))

    def make(number: int) -> Processor[Any]:
        return Processor(log, stage, number, batch=_BATCH, clock=wall_clock, observer=monitoring.observer, watchdog=watchdog)

    # Close the shards before leaving: the next worker then finds them closed.
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
    """Run this process's shards until it is stopped, and update the projection with all shards' commits.

    Args:
        log: log to run.
        url: URL of the log.
        shares: one per stage; their changes wake `signals`.
        signals: end the loop.
        beat: called at each turn.
        meanwhile: called repeatedly; returns the seconds until its next call.

    Raises:
        FencedError: another process has taken over a shard, and this one will not get it again.
        LogError: a shard cannot continue, or this process is no longer a member.
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
    """Return the reasons why shards of this process are not running now. Callable from any thread."""
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
