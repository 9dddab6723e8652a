"""`lahar dead-letters …`: list, redrive, discard."""

from __future__ import annotations

import base64
from typing import Annotated
from uuid import uuid4

import typer
from rich.table import Table

from engine.application.arguments import wall_clock as now
from engine.application.job_inputs import command_message
from engine.cli.app import JsonOption, LogOption, Panel, group, output_of, settings_of
from engine.cli.arguments import By, NoProcessOption, ReasonOption
from engine.cli.input_outcomes import finish, new_feed
from engine.events.inputs import CommandIssued
from engine.events.times import format_time
from engine.formatting import stamp
from engine.history.dead_letters import latest_letters, meant_letters
from engine.history.redrive import objection, redriven
from lahar import Lahar, Letter

letters = group("dead-letters", Panel.OPERATE, "Inputs that could not be read: list them, put them in again, discard them.")

_SHOWN = 12
"""Characters of an id in a table."""


@letters.command("list")
def list_letters(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Those that were discarded, too: by whom, when, why.")] = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the open dead letters with reason and origin, those that were redriven and failed again once."""
    output = output_of(context, as_json)
    table = Table(box=None, pad_edge=False)
    for heading in ("ID", "AT", "ORIGIN", "REASON", "BYTES", "TRIES", *(["DISCARDED"] if everything else [])):
        table.add_column(heading)
    with Lahar.opened(settings_of(context, log)) as source:
        for letter in source.dead_letters(discarded=everything):
            if output.as_json:
                output.record(_document(letter))
            else:
                table.add_row(*_cells(letter), *([_discarded(letter)] if everything else []))
    if not output.as_json:
        output.console.print(table)
        output.notes.print(f"{table.row_count} dead letter(s)", style="dim")


def _document(letter: Letter) -> dict[str, object]:
    event, tries, discarded = letter
    data = event.data
    found: dict[str, object] = {
        "id": event.id,
        "recordedtime": format_time(event.recordedtime),
        "reason": data.reason,
        "topic": data.topic,
        "partition": data.partition,
        "offset": data.offset,
        "key": data.key,
        "content": data.content,
        "tries": tries,
    }
    if data.digest:
        found["digest"] = data.digest
    if discarded is not None:
        found["discarded"] = {
            "recordedtime": format_time(discarded.recordedtime),
            "by": discarded.data.by,
            "principal": discarded.data.principal,
            "reason": discarded.data.reason,
        }
    return found


def _cells(letter: Letter) -> list[str]:
    event, data = letter.event, letter.event.data
    origin = f"{data.topic}/{data.partition} @{data.offset}"
    size = "too large" if data.digest else str(len(base64.b64decode(data.content)))
    return [event.id[:_SHOWN], stamp(event.recordedtime), origin, data.reason, size, str(letter.tries)]


def _discarded(letter: Letter) -> str:
    if letter.discarded is None:
        return "-"
    data, who = letter.discarded.data, letter.discarded.data.by or letter.discarded.data.principal
    parts = [f"by {who}" if who else "", stamp(letter.discarded.recordedtime), data.reason]
    return " ".join(filter(None, parts))


@letters.command("redrive", examples=["lahar dead-letters redrive", "lahar dead-letters redrive e61f8a05"])
def redrive(
    context: typer.Context,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids or beginnings of them; all that are open unless given.")
    ] = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Append dead letters to their topics again, unchanged, after an upgrade that can read them.

    Those that still cannot be read become dead letters again.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    with Lahar.opened(settings, readonly=False) as target:
        known = latest_letters(target.log)
        chosen = meant_letters(known, ids) if ids else [letter for letter in known if letter.discarded is None]
        for data, why in [(letter.event.data, objection(letter.event.data)) for letter in chosen]:
            if why is not None:
                output.warn(f"{data.topic}/{data.partition} @{data.offset} {why}, and is not redriven")
        found = [letter.event for letter in chosen if objection(letter.event.data) is None]
        feed = new_feed(target, output, process=not no_process)
        for event in found:
            for topic, messages in redriven(event, settings.accelerators):
                feed.append(topic, messages)
        if found:
            finish(feed, output)
    if output.as_json:
        output.record({"redriven": len(found)})
    else:
        output.console.print(f"{len(found)} dead letter(s) redriven")


@letters.command(
    "discard",
    examples=[
        "lahar dead-letters discard e61f8a05 --by ann --reason 'a probe of the ingress'",
        "lahar dead-letters list --json | jq -r .id | xargs lahar dead-letters discard",
    ],
)
def discard(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids or beginnings of them.")],
    reason: ReasonOption = "",
    by: By = "",
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close dead letters that need no more attention. Nothing is deleted: `list --all` shows them.

    A later input with the same content, redriven or new, opens the letter again.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    with Lahar.opened(settings, readonly=False) as target:
        feed = new_feed(target, output, process=not no_process)
        for letter in meant_letters(latest_letters(target.log), ids):
            ident = letter.event.id
            if letter.discarded is not None:
                output.warn(f"{ident[:_SHOWN]} was discarded before: {_discarded(letter)}")
                continue
            message = command_message(settings.cluster, ident, CommandIssued("Discard", by, reason), str(uuid4()), now())
            feed.append("jobs", [message])
            feed.expect(message, f"dead letter {ident[:_SHOWN]}")
        finish(feed, output)
