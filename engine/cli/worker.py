"""`lahar worker`: one stage of the engine, or a share of it, beside other workers on the same log."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from engine.cli.app import JsonOption, LogOption, Panel, app, output_of, settings_of
from engine.cli.callbacks import Callbacks
from engine.cli.engine import opened, watchdog_of
from engine.cli.journal import written
from engine.cli.logs import is_shared
from engine.cli.output import Output
from engine.cli.probes import MetricsOption, Monitoring, served
from engine.cli.settings import Settings
from engine.cli.signals import Signals
from engine.cli.stages import TURN_SECONDS, UNSETTLED, Effects, lifecycle_processor, run_shards, waiting_for
from engine.events import Topic
from engine.processor.membership import Membership, RebalanceObserver, StaticMembership
from engine.runtime.runner import Runner

if TYPE_CHECKING:
    from streams.log import KafkaLog
    from streams.membership import GroupMembership

__all__ = ["worker"]

_TELLER: Final = 0
"""The one share of the stage `effects`."""


class StageName(StrEnum):
    """Stages that a worker may run."""

    LIFECYCLE = "lifecycle"
    EFFECTS = "effects"


@app.command(
    rich_help_panel=Panel.RUN,
    examples=[
        "lahar worker --stage lifecycle",
        "lahar worker --stage lifecycle --ordinal 0 --workers 2",
        "lahar worker --stage effects --metrics 0.0.0.0:9100",
    ],
)
def worker(
    context: typer.Context,
    stage: Annotated[StageName, typer.Option("--stage", help="What it does: process inputs, or tell callbacks.")],
    instance: Annotated[
        str | None,
        typer.Option(
            "--instance",
            metavar="NAME",
            help="Its name among the workers of the stage, the same after a restart; the host's name unless given.",
        ),
    ] = None,
    ordinal: Annotated[
        int | None,
        typer.Option(
            "--ordinal",
            metavar="N",
            min=0,
            envvar="LAHAR_WORKER_ORDINAL",
            help="Run the shards s with s % WORKERS = N, instead of those that the workers' group gives it.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="WORKERS", min=1, envvar="LAHAR_WORKERS", help="How many there are, beside --ordinal."),
    ] = None,
    metrics: MetricsOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run one stage of a log on Kafka until interrupted; as many of these as are wanted share its work.

    `lifecycle`: workers spread the shards among themselves, and one that is gone for longer than its session (30 s, or
    KAFKA_SESSION_SECONDS) loses its own to the others; or each has its own by ordinal. `effects`: one worker tells the callbacks,
    the others stand by. SIGTERM ends it with code 0, Ctrl-C with 130, both after the transactions at hand. It leaves with code 4
    when it was replaced.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    if not is_shared(settings.log):
        raise ValueError(
            f"{settings.log} is run by one process: use `lahar run`; workers share a log on Kafka (--log kafka://HOST:PORT)"
        )
    if (ordinal is None) != (workers is None):
        raise ValueError("--ordinal and --workers belong together: which worker this is, and how many there are")
    if ordinal is not None and stage is StageName.EFFECTS:
        raise ValueError("--ordinal is for the stage lifecycle; of the workers of effects one is active, whichever is there")
    place = None if ordinal is None or workers is None else (ordinal, workers)
    name = instance or socket.gethostname()
    with written(settings.log_format), Signals() as signals:
        if stage is StageName.EFFECTS:
            _run_effects(settings, output, signals, metrics, name)
        else:
            _run_lifecycle(settings, output, signals, metrics, name, place)
    if signals.interrupted:
        raise KeyboardInterrupt


def _run_lifecycle(
    settings: Settings, output: Output, signals: Signals, address: str | None, name: str, place: tuple[int, int] | None
) -> None:
    with ExitStack() as stack:
        monitoring = stack.enter_context(Monitoring(settings))
        log = stack.enter_context(opened(settings, readonly=False))
        monitoring.metrics.sized("lifecycle", log.partitions("job-events"))
        membership: Membership
        if place is None:
            membership = _group(log, "lifecycle", "job-events", name, leave=False, observer=monitoring.metrics)
        else:
            membership = StaticMembership(*place, log.partitions("job-events"))
        make = lifecycle_processor(log, settings, monitoring.observer, stack.enter_context(watchdog_of(settings)))
        runner = stack.enter_context(Runner(log, make, changed=signals.wake))
        stack.enter_context(served(address, monitoring, output, lambda: waiting_for(runner, membership)))
        membership.start(signals.wake)
        output.note(f"worker {name} of lifecycle on {settings.log}; Ctrl-C stops")
        try:
            run_shards(runner, membership, signals, monitoring.beat)
        finally:
            # Shards first: whoever gets them next finds them given back.
            runner.close()
            membership.close()


def _run_effects(settings: Settings, output: Output, signals: Signals, address: str | None, name: str) -> None:
    with ExitStack() as stack:
        monitoring = stack.enter_context(Monitoring(settings))
        callbacks = Callbacks(settings, output, monitoring.executor)
        if not callbacks.any:
            output.warn("no callbacks are registered: nobody is told of anything")
        log = stack.enter_context(opened(settings, readonly=False))
        membership = _group(log, "effects", "cluster", name, leave=True, observer=monitoring.metrics)
        turn: int | None = None

        def our_turn() -> bool:
            return turn is not None and membership.turn() == turn

        effects = Effects(log, callbacks, output.warn, monitoring.registry, our_turn)
        stack.enter_context(
            served(address, monitoring, output, lambda: effects.trouble if membership.is_settled() else [UNSETTLED])
        )
        membership.start(signals.wake)
        output.note(f"worker {name} of effects on {settings.log}; Ctrl-C stops")
        try:
            while not signals.stopped:
                monitoring.beat()
                # Nothing fences cursors: who is not sure tells nobody meanwhile, and what it knew is of no use in its next turn.
                current, ours = membership.turn(), _TELLER in membership.shards()
                if current is not None and current != turn:
                    effects.stop()
                    turn = current
                signals.wait(TURN_SECONDS if current is None or not ours else effects.step())
        finally:
            effects.stop()
            membership.close()


def _group(log: object, stage: str, topic: Topic, name: str, *, leave: bool, observer: RebalanceObserver) -> GroupMembership:
    from streams.membership import GroupMembership  # noqa: PLC0415  an extra that most installations do without

    kafka = cast("KafkaLog", log)
    return GroupMembership(kafka.background, kafka.settings, stage, topic, name, leave=leave, observer=observer)
