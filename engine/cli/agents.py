"""`lahar agents run`: agents, consumers of the truth, in a process of their own."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from prometheus_client import PlatformCollector, ProcessCollector

from engine.application.errors import LogUnavailableError
from engine.cli.app import JsonOption, LogOption, Panel, group, output_of, settings_of
from engine.cli.arguments import MetricsOption
from engine.cli.logging_config import written
from engine.runtime.monitoring import STILL_SECONDS
from engine.runtime.opening import is_shared
from engine.runtime.serving import Server, parse_address
from engine.signals import Signals

if TYPE_CHECKING:
    from streams.agents.app import AgentApp

agents = group("agents", Panel.RUN, "Run agents: functions and counters that consume job events, on Kafka.")


@agents.command(
    "run",
    examples=[
        "lahar --log kafka://localhost:9092 agents run my_platform.agents",
        "lahar --log kafka://localhost:9092 agents run streams.agents.usage:app --metrics 9101",
    ],
)
def run(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE[:NAME]",
            help="A module that declares agents, looked for in the working directory first; with a name, the `Agents` in it.",
        ),
    ],
    metrics: MetricsOption = None,
    instance: Annotated[
        str | None,
        typer.Option(
            "--instance",
            metavar="NAME",
            help="Its name among the processes that run these agents, the same after a restart: it then has its partitions back "
            "at once. Without one they wait 10 s for a process that was killed.",
        ),
    ] = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deliver committed job events to agents until interrupted.

    Each event is delivered at least once, in the order of its job; docs/agents.md lists the guarantees. SIGTERM ends it with code
    0, Ctrl-C with 130, both after running calls have returned and the position is committed. Needs Faust, which the extra `agents`
    installs.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    app = _made(settings.log, target, instance)
    from streams.agents.run import run as run_agents  # noqa: PLC0415  an extra that most installations do without

    # Both register themselves.
    ProcessCollector(registry=app.registry)
    PlatformCollector(registry=app.registry)
    address = None if metrics is None else parse_address(metrics)
    with ExitStack() as stack:
        stack.enter_context(written(settings.log_format))
        if address is not None:
            hangs = partial(app.hangs, STILL_SECONDS)
            server = Server(address, app.registry, healthy=hangs, ready=lambda: [*app.not_ready(), *hangs()])
            stack.enter_context(server)
            output.note(f"metrics: {server.url}")
        with Signals() as signals:
            output.note(f"running {target}; Ctrl-C stops")
            run_agents(app, lambda: signals.stopped)
        if signals.interrupted:
            raise KeyboardInterrupt


def _made(url: str, target: str, instance: str | None) -> AgentApp:
    """Return the app of some agents.

    Raises:
        ValueError: the log is not on Kafka, or there are no such agents.
        LogUnavailableError: this installation cannot run agents.
    """
    if not is_shared(url):
        raise ValueError(f"{url} has no agents, a log on Kafka has: --log kafka://HOST:PORT; callbacks do the same for {url}")
    try:
        from streams.agents.app import AgentApp  # noqa: PLC0415  an extra that most installations do without
        from streams.agents.run import find  # noqa: PLC0415
        from streams.settings import KafkaSettings  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise LogUnavailableError(f"{missing.name} is not installed; agents need lahar[agents]") from None
    return AgentApp(find(target), KafkaSettings.of_url(url), instance=instance)
