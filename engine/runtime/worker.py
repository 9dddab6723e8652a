"""Process of one worker: a share of one stage, or the callbacks, of a log that several workers process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from engine.events import Topic
from engine.processor.membership import Membership, RebalanceObserver, StaticMembership
from engine.processor.partitions import shard_count, single_shard
from engine.processor.stage import Stage
from engine.runtime.callbacks import Callbacks, CallbackTurn
from engine.runtime.engine import watchdog_of
from engine.runtime.monitoring import Monitoring, served
from engine.runtime.opening import UNOPENED, StoppedError, opened_at_start
from engine.runtime.reporter import Reporter
from engine.runtime.settings import Settings
from engine.runtime.shard_loop import TURN_SECONDS, UNSETTLED, Share, run_shares, shared, waiting_for
from engine.signals import Signals

if TYPE_CHECKING:
    from streams.log import KafkaLog
    from streams.membership import GroupMembership

EFFECTS: Final = "effects"
"""Name of the group of workers that deliver to callbacks; not a stage."""
_DELIVERER: Final = 0
"""Number of that group's only share."""
_SINGLE: Final[Topic] = "cluster"
"""Topic with one partition, which the group assigns to one of its workers."""


def run_stage(
    settings: Settings,
    stage: Stage[Any],
    reporter: Reporter,
    signals: Signals,
    address: str | None,
    name: str,
    place: tuple[int, int] | None,
) -> None:
    """Run a share of a stage until the process is stopped.

    Args:
        settings: settings of the log.
        stage: stage to run.
        reporter: receives progress.
        signals: end the run.
        address: address for metrics; `None`: serve nothing.
        name: name of this worker in the stage's group.
        place: ordinal of this worker and number of workers; `None`: the group assigns the shards.

    Raises:
        FencedError: another worker has replaced this one.
        LogError: the log cannot be used, and waiting does not help.
        ValueError: the ordinal does not exist.
    """
    with suppress(StoppedError), ExitStack() as stack:
        monitoring = stack.enter_context(Monitoring(settings))
        shares: list[Share] = []
        serving = stack.enter_context(ExitStack())
        serving.enter_context(served(address, monitoring, reporter, lambda: waiting_for(shares) if shares else [UNOPENED]))
        log = stack.enter_context(opened_at_start(settings, reporter, signals))
        membership: Membership
        if place is None:
            topic = _SINGLE if single_shard(stage) else stage.outputs[0]
            membership = _group(log, stage.name, topic, name, leave=False, observer=monitoring.metrics)
        else:
            membership = StaticMembership(*place, shard_count(log, stage))
        watchdog = stack.enter_context(watchdog_of(settings))
        shares.append(shared(log, stage, membership, monitoring, watchdog, signals, stack))
        stack.callback(serving.close)
        reporter.note(f"worker {name} of {stage.name} on {settings.log}; Ctrl-C stops")
        run_shares(log, settings.log, shares, signals, monitoring.beat)


def run_effects(settings: Settings, reporter: Reporter, signals: Signals, address: str | None, name: str) -> None:
    """Deliver to the callbacks during this worker's turns, until the process is stopped.

    Args:
        settings: settings of the log and the callbacks.
        reporter: receives progress.
        signals: end the run.
        address: address for metrics; `None`: serve nothing.
        name: name of this worker in the callbacks' group.

    Raises:
        LogError: the log cannot be used, and waiting does not help.
    """
    with suppress(StoppedError), ExitStack() as stack:
        monitoring = stack.enter_context(Monitoring(settings))
        callbacks = Callbacks(settings, reporter, monitoring.executor)
        if not callbacks.any:
            reporter.warn("no callbacks are registered: none will be called")
        effects: CallbackTurn | None = None

        def waiting() -> Sequence[str]:
            if effects is None:
                return [UNOPENED]
            return effects.trouble if membership.is_settled() else [UNSETTLED]

        serving = stack.enter_context(ExitStack())
        serving.enter_context(served(address, monitoring, reporter, waiting))
        log = stack.enter_context(opened_at_start(settings, reporter, signals))
        membership = _group(log, EFFECTS, _SINGLE, name, leave=True, observer=monitoring.metrics)
        turn: int | None = None

        def our_turn() -> bool:
            return turn is not None and membership.turn() == turn

        effects = CallbackTurn(log, callbacks, reporter.warn, monitoring.registry, our_turn)
        stack.callback(serving.close)
        membership.start(signals.wake)
        reporter.note(f"worker {name} of {EFFECTS} on {settings.log}; Ctrl-C stops")
        try:
            while not signals.stopped:
                monitoring.beat()
                # Cursors have no fence: a worker that may have lost its turn delivers nothing, and restarts from the saved cursors.
                current, ours = membership.turn(), _DELIVERER in membership.shards()
                if current is not None and current != turn:
                    effects.stop()
                    turn = current
                signals.wait(TURN_SECONDS if current is None or not ours else effects.step())
        finally:
            effects.stop()
            membership.close()


def _group(log: object, stage: str, topic: Topic, name: str, *, leave: bool, observer: RebalanceObserver) -> GroupMembership:
    from streams.membership import GroupMembership  # noqa: PLC0415  an optional extra

    kafka = cast("KafkaLog", log)
    return GroupMembership(kafka.background, kafka.settings, stage, topic, name, leave=leave, observer=observer)
