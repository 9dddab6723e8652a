"""All stages of a log on Kafka in one process: every shard in a thread of its own, and the callbacks beside them."""

from __future__ import annotations

from contextlib import ExitStack

from engine.cli.callbacks import Callbacks
from engine.cli.engine import now, opened, watchdog_of
from engine.cli.output import Output
from engine.cli.probes import Monitoring, served
from engine.cli.settings import Settings
from engine.cli.signals import Signals
from engine.cli.stages import Effects, lifecycle_processor, run_shards, waiting_for
from engine.log.errors import FencedError
from engine.processor.membership import StaticMembership
from engine.runtime.runner import Runner, run_until_quiet

__all__ = ["run_all_once", "run_all_stages"]


def run_all_stages(settings: Settings, output: Output, address: str | None) -> None:
    """Run until the process is told to stop.

    Args:
        settings: say where the log is, and how stages are configured.
        output: for people.
        address: where metrics are served; `None`: nowhere.

    Raises:
        FencedError: another process has taken a shard over.
        LogError: the log cannot be used, and waiting does not help.
        KeyboardInterrupt: it was told so by Ctrl-C.
    """
    with Signals() as signals, ExitStack() as stack:
        monitoring = stack.enter_context(Monitoring(settings))
        callbacks = Callbacks(settings, output, monitoring.executor)
        log = stack.enter_context(opened(settings, readonly=False))
        fenced = False
        effects = Effects(log, callbacks, output.warn, monitoring.registry, lambda: not fenced)
        monitoring.metrics.sized("lifecycle", log.partitions("job-events"))
        membership = StaticMembership(0, 1, log.partitions("job-events"))
        make = lifecycle_processor(log, settings, monitoring.observer, stack.enter_context(watchdog_of(settings)))
        runner = stack.enter_context(Runner(log, make, changed=signals.wake))
        stack.enter_context(served(address, monitoring, output, lambda: [*waiting_for(runner, membership), *effects.trouble]))
        output.note(f"running {settings.log}; Ctrl-C stops")
        try:
            run_shards(runner, membership, signals, monitoring.beat, effects.step)
        except FencedError:
            # Whoever runs the shard now tells the callbacks as well.
            fenced = True
            raise
        finally:
            runner.close()
            effects.stop()
    if signals.interrupted:
        raise KeyboardInterrupt


def run_all_once(settings: Settings, output: Output, address: str | None) -> int:
    """Run until no input is left and no timer is due by the shards' own time, then tell the callbacks.

    Args:
        settings: say where the log is, and how stages are configured.
        output: for people.
        address: where metrics are served; `None`: nowhere.

    Returns:
        Inputs taken and timers fired.

    Raises:
        LogError: the log cannot be used.
    """
    started = now()
    with (
        Monitoring(settings) as monitoring,
        opened(settings, readonly=False) as log,
        served(address, monitoring, output),
        watchdog_of(settings) as watchdog,
    ):
        callbacks = Callbacks(settings, output, monitoring.executor)
        make = lifecycle_processor(log, settings, monitoring.observer, watchdog, live=False)
        done = run_until_quiet(make, range(log.partitions("job-events")))
        callbacks.open(log, started, monitoring.registry)
        try:
            callbacks.tell()
        finally:
            callbacks.close()
    return done
