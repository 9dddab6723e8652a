"""How queues, nodes, tenants and pod groups of scheduling are asked for and printed: what their commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Protocol, TypeVar

import typer
from rich.text import Text

from engine.cli.app import output_of, settings_of
from engine.cli.arguments import date_time
from engine.cli.columns import Column, show_list
from engine.cli.output import Output
from engine.cli.render import whole_table
from engine.formatting import amount
from engine.runtime.stages import SCHEDULING_OFF
from lahar import GroupStatus, Lahar, Scheduling

ClusterOption = Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster.")]
ItsClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="Its cluster, where several have the name.")
]

AtOption = Annotated[str | None, typer.Option("--at", metavar="TIME", help="As it stood at this time, by what was recorded then.")]

NONE: Final = "-"
UNLISTED: Final = frozenset({"pods"})
"""Resources that lists leave out; `show` has all."""


class _Status(Protocol):
    @property
    def cluster(self) -> str: ...

    def document(self) -> dict[str, Any]: ...


S = TypeVar("S", bound=_Status)
T = TypeVar("T")


def answer(
    context: typer.Context,
    log: str | None,
    as_json: bool,
    question: Callable[[Scheduling], T],
    at: str | None = None,
) -> tuple[Output, T]:
    """Ask the scheduling shard of the log, as it stood at a time; returns the answer, and where it is to be shown."""
    then = None if at is None else date_time(at)
    output, settings = output_of(context, as_json), settings_of(context, log)
    if not settings.scheduling:
        output.note(SCHEDULING_OFF)
    with Lahar.opened(settings) as opened:
        with output.busy("reading the log"):
            asked = opened.scheduling if then is None else opened.scheduling_at(then)
        return output, question(asked)


def shown_as_json(output: Output, found: _Status) -> bool:
    """Show its JSON if that is wanted; returns whether it was."""
    if output.as_json:
        output.record(found.document())
    return output.as_json


def print_list(output: Output, found: Sequence[S], columns: Sequence[Column[S]]) -> None:
    """Show a row for each, or its JSON."""
    if output.as_json:
        for one in found:
            output.record(one.document())
        return
    show_list(output, found, (Column("CLUSTER", lambda one: one.cluster, "cluster"), *columns))


def print_title(output: Output, name: str, cluster: str, *facts: str) -> None:
    """Show what a page is about: its name and cluster, and facts on one line."""
    output.console.print(Text.assemble((name, "bold"), (f"  cluster {cluster}", "dim")), soft_wrap=True)
    output.console.print(", ".join(facts), soft_wrap=True)


def print_resources(output: Output, **columns: Mapping[str, int]) -> None:
    """Show amounts, a row for each resource."""
    names = sorted({name for amounts in columns.values() for name in amounts})
    rows = [(name, *(amount_text(name, amounts.get(name)) for amounts in columns.values())) for name in names]
    headings = tuple(heading.upper() for heading in columns)
    if rows:
        output.console.print("", whole_table(output, ("RESOURCE", *headings), rows, {"RESOURCE"}, set(headings)), soft_wrap=True)


def amount_text(name: str, value: int | None) -> str:
    """Return an amount of a resource in its unit; `-` without one."""
    return NONE if value is None else amount(name, value)


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return amounts with their resources, on one line."""
    return ", ".join(f"{amount(name, value)}{unit_text(name)}" for name, value in amounts.items() if name not in UNLISTED) or NONE


def unit_text(resource: str) -> str:
    """Return what stands behind an amount of a resource."""
    return "" if resource == "memory" else f" {resource}"


def counts_text(counts: Mapping[Any, int]) -> str:
    """Return counts with their names, on one line."""
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or NONE


def _reason(group: GroupStatus) -> str:
    """Return why a group waits, in a few words."""
    said = group.reason
    if group.promised:
        return f"promised {', '.join(group.promised)}"
    if said is None:
        return "held" if group.held else NONE
    lacking = ", ".join(f"{amount(name, value)} {name}" for name, value in said.missing.items())
    return f"{said.reason}: {lacking} missing" if lacking else said.reason


GROUPS: Final[tuple[Column[GroupStatus], ...]] = (
    Column("JOB", lambda group: f"{group.namespace}/{group.name}", "name"),
    Column("PHASE", lambda group: group.phase),
    Column("MINIMUM", lambda group: str(group.min_available), "number"),
    Column("PODS", lambda group: counts_text(group.members)),
    Column("REASON", _reason, "name"),
)
"""Columns of pod groups."""
