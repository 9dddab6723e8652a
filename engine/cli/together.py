"""All stages of a log on Kafka in one process: every shard in a thread of its own, and the callbacks beside them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from engine.cli.callbacks import Callbacks
from engine.cli.engine import now, opened
from engine.cli.output import Output
from engine.cli.settings import Settings
from engine.cli.signals import Signals
from engine.cli.stages import Effects, lifecycle_processor, run_shards
from engine.log.membership import StaticMembership
from engine.log.runner import Runner, run_until_quiet

__all__ = ["run_all_once", "run_all_stages"]


def run_all_stages(settings: Settings, output: Output, registry: CollectorRegistry) -> None:
    """Run until the process is told to stop.

    Raises:
        FencedError: another process has taken a shard over.
        LogError: the log cannot be used, and waiting does not help.
        KeyboardInterrupt: it was told so by Ctrl-C.
    """
    callbacks = Callbacks(settings, output)
    with Signals() as signals, opened(settings, readonly=False) as log:
        effects = Effects(log, callbacks, output.warn, registry)
        membership = StaticMembership(0, 1, log.partitions("job-events"))
        with Runner(log, lifecycle_processor(log, settings), changed=signals.wake) as runner:
            output.notes.print(f"running {settings.log}; Ctrl-C stops", style="dim")
            try:
                run_shards(runner, membership, signals, effects.step)
            finally:
                runner.close()
                effects.stop()
    if signals.interrupted:
        raise KeyboardInterrupt


def run_all_once(settings: Settings, output: Output, registry: CollectorRegistry) -> int:
    """Run until no input is left and no timer is due by the shards' own time, then tell the callbacks.

    Returns:
        Inputs taken and timers fired.

    Raises:
        LogError: the log cannot be used.
    """
    callbacks, started = Callbacks(settings, output), now()
    with opened(settings, readonly=False) as log:
        done = run_until_quiet(lifecycle_processor(log, settings, live=False), range(log.partitions("job-events")))
        callbacks.open(log, started, registry)
        try:
            callbacks.tell()
        finally:
            callbacks.close()
    return done
