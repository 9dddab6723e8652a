"""`lahar callbacks …`: list the registered callbacks; resume a disabled one."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from engine.application.callbacks import StoredStatus, registered, resume, stored_statuses
from engine.cli.app import JsonOption, LogOption, Panel, group, output_of, settings_of
from engine.cli.arguments import NoProcessOption
from engine.cli.input_outcomes import finish, new_feed
from engine.events.times import format_time
from engine.formatting import moment
from lahar import Lahar
from statemachines.callbacks import BudgetSelector, Selector

callbacks = group("callbacks", Panel.OPERATE, "List the registered callbacks; resume a disabled one.")


@callbacks.command("list")
def list_callbacks(context: typer.Context, log: LogOption = None, as_json: JsonOption = False) -> None:
    """List the registered callbacks: selection, lag, and whether they are disabled.

    The last failure is that of the last abandoned delivery. Failures still being retried are in the log lines and metrics of the
    process that calls the callbacks.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    registry = registered(settings, output)
    with Lahar.opened(settings) as source:
        found = stored_statuses(source.log, registry)
    if output.as_json:
        for status in found:
            output.record(_document(status))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("NAME", "SELECTS", "LAG", "STATE", "LAST FAILURE"):
        table.add_column(heading, justify="right" if heading == "LAG" else "left", overflow="fold")
    for status in found:
        failure = status.failure
        table.add_row(
            status.name,
            "; ".join(f"{name} {_words(value)}" for name, value in _selected(status.selector).items()) or "everything",
            f"{status.lag:,}",
            _state(status),
            "-" if failure is None else f"{moment(failure.time)}: {failure.message}",
        )
    output.console.print(table)
    output.notes.print(f"{len(found)} callback(s)", style="dim")


@callbacks.command("resume", examples=["lahar callbacks resume billing.usage"])
def resume_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `lahar callbacks list` shows it.")],
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume a disabled callback with the notice that failed.

    A running `lahar run`, or on Kafka an effects worker, then calls it; without one it is called at once.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    registry = registered(settings, output)
    registry.get(name)
    with Lahar.opened(settings, readonly=False) as target:
        feed = new_feed(target, output, process=not no_process)
        # Its disabling may have been reported but not processed.
        feed.process(notify=False)
        resume(target.log, settings, registry, name)
        if output.as_json:
            output.record({"name": name, "outcome": "resumed"})
        else:
            output.console.print(f"{name}: resumed", soft_wrap=True)
        finish(feed, output)


def _document(status: StoredStatus) -> dict[str, Any]:
    failure = status.failure
    return {
        "name": status.name,
        "origin": status.origin,
        "selector": _selected(status.selector),
        "lag": status.lag,
        "state": _state(status),
        "last_failure": None if failure is None else {"time": format_time(failure.time), "message": failure.message},
    }


def _state(status: StoredStatus) -> str:
    return "disabled" if status.disabled else "live"


def _selected(selector: Selector | BudgetSelector) -> dict[str, Any]:
    """Return a selector in the form of its declaration."""
    if isinstance(selector, BudgetSelector):
        about = {"event": ["budget.crossed"]}
        return about | {"tenant": sorted(selector.tenants)} if selector.tenants else about
    content: dict[str, Any] = {
        "level": sorted(selector.levels),
        "from": sorted(selector.sources),
        "to": sorted(selector.phases),
        "reason": sorted(selector.reasons),
        "task": sorted(selector.tasks),
        "labels": dict(selector.labels),
    }
    return {name: value for name, value in content.items() if value}


def _words(value: list[str] | dict[str, str]) -> str:
    return ", ".join(value if isinstance(value, list) else (f"{name}={label}" for name, label in value.items()))
