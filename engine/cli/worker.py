"""`lahar worker`: one stage of the engine, or a share of it, beside other workers on the same log."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from engine.cli.app import JsonOption, LogOption, Panel, app, output_of, settings_of
from engine.cli.arguments import MetricsOption
from engine.cli.logging_config import written
from engine.runtime.opening import is_shared
from engine.runtime.stages import BILLING, BILLING_OFF, BUDGETS, SCHEDULING, SCHEDULING_OFF, stages_of
from engine.runtime.worker import EFFECTS, run_effects, run_stage
from engine.signals import Signals


@app.command(
    rich_help_panel=Panel.RUN,
    examples=[
        "lahar worker --stage lifecycle",
        "lahar worker --stage lifecycle --ordinal 0 --workers 2",
        "lahar worker --stage billing",
        "lahar worker --stage effects --metrics 0.0.0.0:9100",
    ],
)
def worker(
    context: typer.Context,
    stage: Annotated[
        str,
        typer.Option(
            "--stage",
            metavar="STAGE",
            help="Its work: run a stage (lifecycle, scheduling, billing, budgets), or call callbacks (effects).",
        ),
    ],
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
    """Run one stage of a log on Kafka until interrupted; any number of workers share it.

    `lifecycle`, `billing`: the workers' group assigns the shards, and reassigns those of a worker that is silent for longer than
    its session (30 s, or KAFKA_SESSION_SECONDS); or each worker has fixed shards by ordinal. `effects`: one worker calls the
    callbacks, the others stand by; so it is with `scheduling` and `budgets`. SIGTERM ends it with code 0, Ctrl-C with 130, both
    after the current transactions. A replaced worker ends with code 4.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    if not is_shared(settings.log):
        raise ValueError(
            f"{settings.log} is run by one process: use `lahar run`; workers share a log on Kafka (--log kafka://HOST:PORT)"
        )
    if (ordinal is None) != (workers is None):
        raise ValueError("--ordinal and --workers belong together: which worker this is, and how many there are")
    stages = {made.name: made for made in stages_of(settings)}
    if stage in {BILLING, BUDGETS} and stage not in stages:
        raise ValueError(BILLING_OFF)
    if stage == SCHEDULING and stage not in stages:
        raise ValueError(SCHEDULING_OFF)
    if stage not in {*stages, EFFECTS}:
        raise ValueError(f"there is no stage {stage!r}: there are {', '.join((*stages, EFFECTS))}")
    if ordinal is not None and stage == EFFECTS:
        raise ValueError(f"--ordinal is for stages ({', '.join(stages)}); of the workers of {EFFECTS} one is active at a time")
    place = None if ordinal is None or workers is None else (ordinal, workers)
    name = instance or socket.gethostname()
    with written(settings.log_format), Signals() as signals:
        if stage == EFFECTS:
            run_effects(settings, output, signals, metrics, name)
        else:
            run_stage(settings, stages[stage], output, signals, metrics, name, place)
    if signals.interrupted:
        raise KeyboardInterrupt
