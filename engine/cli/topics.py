"""`lahar topics`: Kafka's topics, as declared and as found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.app import JsonOption, LogOption, Panel, group, output_of, settings_of
from engine.cli.exit_codes import FINDING
from engine.cli.output import Output
from engine.runtime.opening import is_shared, not_installed

if TYPE_CHECKING:
    from streams.settings import KafkaSettings
    from streams.topics import Difference

topics = group("topics", Panel.OPERATE, "Kafka's topics and their settings: compare, create.")

PartitionsOption = Annotated[
    int,
    typer.Option(
        "--partitions",
        metavar="COUNT",
        min=1,
        max=10_000,
        help="Of each topic that is partitioned by job: two to four times the workers ever needed. It cannot be changed later.",
    ),
]
CopiesOption = Annotated[
    int, typer.Option("--replication", metavar="COPIES", min=1, max=9, help="Copies of each record; 1 only for trying out.")
]


@topics.command("plan", examples=["lahar --log kafka://localhost:9092 topics plan"])
def show_plan(
    context: typer.Context,
    partitions: PartitionsOption = 8,
    replication: CopiesOption = 3,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List differences between the cluster's topics and those declared; exit code 1 if any.

    Changes nothing.
    """
    output = output_of(context, as_json)
    settings = _kafka_settings(settings_of(context, log).log)
    from streams.client.event_loop import run  # noqa: PLC0415  an extra that most installations do without
    from streams.topics import declared, plan  # noqa: PLC0415  the same

    found = run(plan(settings, declared(settings, partitions, replication)))
    _show(output, found, "the topics are as declared")
    if found:
        raise typer.Exit(FINDING)


@topics.command("apply", examples=["lahar --log kafka://localhost:9092 topics apply --partitions 16"])
def apply_plan(
    context: typer.Context,
    partitions: PartitionsOption = 8,
    replication: CopiesOption = 3,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create missing topics and change settings that differ.

    Numbers of partitions and copies are never changed.
    """
    output = output_of(context, as_json)
    settings = _kafka_settings(settings_of(context, log).log)
    from streams.client.event_loop import run  # noqa: PLC0415  an extra that most installations do without
    from streams.topics import apply, declared  # noqa: PLC0415  the same

    found = run(apply(settings, declared(settings, partitions, replication)))
    _show(output, found, "nothing to change")


def _kafka_settings(url: str) -> KafkaSettings:
    """Return the settings of the cluster that a URL names.

    Raises:
        ValueError: the URL is not that of a log on Kafka.
        LogUnavailableError: the client for Kafka is not installed.
    """
    if not is_shared(url):
        raise ValueError(f"{url} has no topics; name a log on Kafka: --log kafka://HOST:PORT")
    try:
        from streams.settings import KafkaSettings  # noqa: PLC0415  an extra that most installations do without
    except ModuleNotFoundError as missing:
        raise not_installed(url, missing) from None
    return KafkaSettings.of_url(url)


def _show(output: Output, found: list[Difference], otherwise: str) -> None:
    for difference in found:
        if output.as_json:
            output.record(
                {
                    "topic": difference.topic,
                    "setting": difference.setting,
                    "found": difference.found,
                    "wanted": difference.wanted,
                }
            )
        else:
            output.console.print(str(difference), soft_wrap=True)
    if not found and not output.as_json:
        output.console.print(otherwise)
