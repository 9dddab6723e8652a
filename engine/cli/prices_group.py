"""`lahar prices …`: the price book that is in force, and one that is to be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.application.billing import price_book
from engine.application.files import read_objects
from engine.billing.book import Book, book_faults
from engine.cli.app import JsonOption, LogOption, Panel, group, output_of, settings_of
from engine.events.prices import PriceBook, read_book
from engine.history.diff import diff_documents
from engine.history.reading import cluster_facts
from engine.kubernetes.observation.cluster_facts import ClusterFacts
from engine.log.errors import LogUnavailableError
from engine.log.producer_time import wall_clock as now
from engine.runtime.engine import opened
from engine.runtime.errors import BAD_INPUT, FINDING, NotFoundError

__all__ = ["prices"]

prices = group("prices", Panel.ASK, "The price book: check, show and compare.")

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="YAML or JSON; - for standard input.")]


def _read(file: Path) -> tuple[PriceBook, dict[str, object]]:
    books = [document for document in read_objects(file) if document.kind == "PriceBook"]
    if len(books) != 1:
        raise ValueError(f"{file}: has {len(books)} objects of kind PriceBook; write one")
    spec = books[0].content.get("spec")
    book, faults = read_book(spec if isinstance(spec, dict) else {})
    if book is None:
        raise ValueError("\n".join(f"{file}: {books[0].place}: {path}: {message}" for path, message in faults))
    return book, dict(spec) if isinstance(spec, dict) else {}


@prices.command("check", examples=["lahar prices check prices.yaml"])
def check(context: typer.Context, file: FileArgument, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Check a price book: its form, what may not change, and that each kind of node has a price."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    book, spec = _read(file)
    known, facts = Book(), ClusterFacts()
    try:
        with opened(settings) as source:
            known = price_book(source)
            for event in cluster_facts(source):
                facts.absorb(event)
    except LogUnavailableError as error:
        output.note(f"only the file itself was checked: {error}")
    kinds = sorted({(node.type, node.gpu_model) for node in facts.nodes.values()}, key=str)
    faults = book_faults(known, book, now())
    version, _ = Book.of(book, spec).at(now())
    if version is not None:
        faults += [
            (f"spec.versions ({version.version}).prices.{meter}", f"has no price for {model or kind or 'nodes of unknown type'}")
            for meter in version.prices
            for kind, model in kinds
            if version.rate("prices", meter, kind, model) is None
        ]
    for path, message in faults:
        output.fail(f"{file}: {path}: {message}")
    if faults:
        raise typer.Exit(BAD_INPUT)
    if output.as_json:
        output.record({"versions": [version.version for version in book.versions], "currency": book.currency})
        return
    output.line(f"{file}: {len(book.versions)} version(s), {book.currency}, months in {book.time_zone}")


@prices.command("show", examples=["lahar prices show"])
def show(context: typer.Context, log: LogOption = None, _as_json: JsonOption = True) -> None:
    """Show the price book in force, as JSON."""
    output, settings = output_of(context, as_json=True), settings_of(context, log)
    with opened(settings) as source:
        book = price_book(source)
    if book.book is None:
        raise NotFoundError("price book", settings.log, "give one with `lahar apply FILE`")
    output.record(dict(book.spec))


@prices.command("diff", examples=["lahar prices diff prices.yaml"])
def diff(context: typer.Context, file: FileArgument, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Show what a price book changes against the one in force; exit code 1 if anything does."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    _, spec = _read(file)
    with opened(settings) as source:
        known = price_book(source)
    changes = list(diff_documents(dict(known.spec), spec))
    for change in changes:
        if output.as_json:
            output.record(change._asdict())
            continue
        output.line(f"{change.path}: {change.before} -> {change.after}")
    if changes:
        raise typer.Exit(FINDING)
    if not output.as_json:
        output.line("nothing changes")
