"""`lahar prices …`: the price book that is in force, and one that is to be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.application.apply import part_of
from engine.application.arguments import wall_clock as now
from engine.application.errors import LogUnavailableError
from engine.application.files import read_given
from engine.application.places import Place
from engine.application.prices import book_of, check_book, diff_books, spec_of, unpriced_meters, unpriced_times
from engine.cli.app import JsonOption, LogOption, Panel, group, output_of, settings_of
from engine.cli.exit_codes import BAD_INPUT, FINDING, NotThereError
from engine.history.reading import cluster_facts
from engine.runtime.opening import opened
from lahar import Lahar

prices = group("prices", Panel.ASK, "The price book: check, show and compare.")

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="YAML or JSON; - for standard input.")]


def _read(file: Path, cluster: str) -> tuple[Place, dict[str, object]]:
    """Return the place and specification of the price book in a file, which is read as `lahar apply` reads it."""
    books = [document for document in read_given(file) if document.kind == "PriceBook"]
    if len(books) != 1:
        raise ValueError(f"{file}: has {len(books)} objects of kind PriceBook; write one")
    return part_of(cluster, str(file), books[0], now()).place, spec_of(books[0].content)


@prices.command("check", examples=["lahar prices check prices.yaml"])
def check(context: typer.Context, file: FileArgument, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Check a price book: its form, what may not change, and that each kind of node has a price.

    It lists the resources that jobs have used and that no meter charges.
    """
    output, settings = output_of(context, as_json), settings_of(context, log)
    place, spec = _read(file, settings.cluster)
    not_billed: list[str] = []
    try:
        with Lahar.opened(settings) as source, source.partial(output.warn):
            used = source.summary(other=True)
            book, faults = check_book(spec, cluster_facts(source.log), now())
            not_billed = list(used["not_billed"])
    except LogUnavailableError as error:
        output.note(f"only the file itself was checked: {error}")
        book, faults = check_book(spec, (), now())
    for fault in faults:
        output.fail(place.of_warning(f"{fault.path}: {fault.message}"))
    if book is None or faults:
        raise typer.Exit(BAD_INPUT)
    for notice in (*unpriced_times(book, now()), *unpriced_meters(book, now())):
        output.note(place.of_warning(f"{notice.path}: {notice.message}"))
    for name in not_billed:
        output.note(f"{file}: {name}: is used and not billed: it is no accelerator with GPU time")
    if output.as_json:
        output.record({"versions": list(book.names), "currency": spec["currency"], "not_billed": not_billed})
        return
    output.line(f"{file}: {len(book.names)} version(s), {spec['currency']}, months in {book.time_zone}")


@prices.command("show", examples=["lahar prices show"])
def show(context: typer.Context, log: LogOption = None, _as_json: JsonOption = True) -> None:
    """Show the price book in force, as JSON."""
    output, settings = output_of(context, as_json=True), settings_of(context, log)
    with opened(settings) as source:
        book = book_of(cluster_facts(source))
    if book.book is None:
        raise NotThereError("price book", None, f"{settings.log} has none; give one with `lahar apply FILE`")
    output.record(dict(book.spec))


@prices.command("diff", examples=["lahar prices diff prices.yaml"])
def diff(context: typer.Context, file: FileArgument, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Show what a price book changes against the one in force; exit code 1 if anything does."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    _, spec = _read(file, settings.cluster)
    with opened(settings) as source:
        changes = diff_books(book_of(cluster_facts(source)).spec, spec)
    for change in changes:
        if output.as_json:
            output.record(change._asdict())
            continue
        output.line(f"{change.path}: {_shown(change.before)} -> {_shown(change.after)}")
    if changes:
        raise typer.Exit(FINDING)
    if not output.as_json:
        output.line("nothing changes")


def _shown(value: object) -> str:
    """Return a value of a price book as text."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
