"""`lahar queue …`: queues as scheduling sees them; open and close them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import typer

from engine.application.queue_state import change_queue_state
from engine.cli.app import JsonOption, LogOption, Panel, group, output_of, settings_of
from engine.cli.arguments import NoProcessOption, RecordedOption, recorded_at
from engine.cli.columns import Column, show_list
from engine.cli.input_outcomes import finish, new_feed
from engine.cli.standings import (
    GROUPS,
    NONE,
    UNLISTED,
    AtOption,
    ClusterOption,
    ItsClusterOption,
    amount_text,
    answer,
    counts_text,
    print_list,
    print_resources,
    print_title,
    shown_as_json,
    unit_text,
)
from engine.formatting import amount
from lahar import Lahar, QueueStatus

queues = group("queue", Panel.ASK, "Queues: shares, use, who waits and for what; open and close them.")

NameOfQueue = Annotated[str, typer.Argument(metavar="NAME", help="The queue.")]


@queues.command("list", examples=["lahar queue list", "lahar queue list --cluster prod-1 --json"])
def list_queues(
    context: typer.Context,
    cluster: ClusterOption = None,
    at: AtOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List queues with what they hold, what they deserve, and how many of their jobs wait."""
    output, found = answer(context, log, as_json, lambda asked: asked.queues(cluster), at)
    print_list(output, found, _QUEUES)


def _held(allocated: Mapping[str, int], deserved: Mapping[str, int]) -> str:
    """Return what is held of what is deserved: `16/32 cpu, 128/256 GiB`."""
    names = sorted((allocated.keys() | deserved.keys()) - UNLISTED)
    return (
        ", ".join(
            f"{_number(name, allocated.get(name, 0))}/{amount_text(name, deserved.get(name))}{unit_text(name)}" for name in names
        )
        or NONE
    )


def _number(name: str, value: int) -> str:
    return amount(name, value).partition(" ")[0]


def _share(queue: QueueStatus) -> str:
    return NONE if queue.share is None else f"{queue.share:.0%}"


_QUEUES: Final[tuple[Column[QueueStatus], ...]] = (
    Column("QUEUE", lambda queue: queue.name, "name"),
    Column("STATE", lambda queue: queue.state),
    Column("WEIGHT", lambda queue: str(queue.weight), "number"),
    Column("HOLDS/DESERVES", lambda queue: _held(queue.allocated, queue.deserved), "name"),
    Column("SHARE", _share, "number"),
    Column("JOBS", lambda queue: counts_text(queue.jobs)),
    Column("WAITING", lambda queue: str(len(queue.waiting)), "number"),
)


@queues.command("show", examples=["lahar queue show research"])
def show_queue(
    context: typer.Context,
    name: NameOfQueue,
    cluster: ItsClusterOption = None,
    at: AtOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a queue: its share of each resource, its jobs, and who waits for what, in order."""
    output, queue = answer(context, log, as_json, lambda asked: asked.queue(name, cluster), at)
    if shown_as_json(output, queue):
        return
    facts = [queue.state, f"weight {queue.weight}", f"priority {queue.priority}"]
    facts += [f"below {queue.parent}"] if queue.parent else []
    facts += [] if queue.reclaimable else ["not reclaimable"]
    facts += [] if queue.share is None else [f"holds {_share(queue)} of what it deserves ({queue.plugin})"]
    facts += ["overused"] if queue.overused and queue.allocated else []
    print_title(output, queue.name, queue.cluster, *facts)
    print_resources(
        output,
        guarantee=queue.guarantee,
        deserved=queue.deserved,
        capability=queue.capability,
        limit=queue.limit,
        allocated=queue.allocated,
        requested=queue.requested,
    )
    output.console.print()
    output.console.print(f"jobs: {counts_text(queue.jobs)}", soft_wrap=True)
    if queue.waiting:
        places = {group.job: str(place) for place, group in enumerate(queue.waiting, start=1)}
        output.console.print()
        show_list(output, queue.waiting, (Column("WAITING", lambda group: places[group.job], "number"), *GROUPS))


@queues.command("open", examples=["lahar queue open research"])
def open_queue(
    context: typer.Context,
    name: NameOfQueue,
    cluster: ItsClusterOption = None,
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open a queue, and those below it that were closed with it."""
    _change(context, name, "Open", cluster, at, log, as_json=as_json, process=not no_process)


@queues.command("close", examples=["lahar queue close research"])
def close_queue(
    context: typer.Context,
    name: NameOfQueue,
    cluster: ItsClusterOption = None,
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close a queue and those below it: they take no jobs and start none; pods that run, run on.

    It is Closing until its jobs are over, then Closed.
    """
    _change(context, name, "Closed", cluster, at, log, as_json=as_json, process=not no_process)


def _change(
    context: typer.Context,
    name: str,
    state: Literal["Open", "Closed"],
    cluster: str | None,
    at: str | None,
    log: str | None,
    *,
    as_json: bool,
    process: bool,
) -> None:
    output, settings = output_of(context, as_json), settings_of(context, log)
    recorded = recorded_at(at)
    with Lahar.opened(settings, readonly=False) as target:
        feed = new_feed(target, output, process=process)
        changed = change_queue_state(feed, target.log, name, state, recorded, cluster=cluster, warn=output.warn)
        for one in changed:
            if output.as_json:
                output.record({"kind": one.kind, "name": one.name, "state": state, "outcome": one.outcome})
            else:
                output.line(f"Queue {one.name}: {'was' if one.outcome == 'unchanged' else 'is now'} {state}")
        finish(feed, output)
