"""Invoices as files: Markdown for people, CSV with one row per line. Amounts of lines are exact; the total is rounded once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO, Final

from engine.billing.exports.comma_separated import write_lines
from engine.billing.exports.errors import ExportError
from engine.billing.invoice import Invoice
from engine.controls import visible_line
from engine.events.prices import METERS

INVOICE_FORMATS: Final = ("markdown", "csv")

_COLUMNS: Final = (
    *("invoice", "period", "state", "tenant", "currency", "line", "queue", "project", "user", "namespace", "name", "job", "month"),
    *METERS,
    "amount",
    *("useful_gpu_seconds", "wasted_gpu_seconds", "wasted_amount"),
    *(f"unpriced_{meter}" for meter in METERS),
    "price_versions",
)
_SPECIAL: Final = re.compile(r"[\\`*_\[\]<>|&~]")
"""Characters that Markdown would interpret as markup, or as the end of a cell."""


def write_invoices(form: str, found: Iterable[tuple[Invoice, str]], stream: BinaryIO) -> None:
    """Write invoices.

    Args:
        form: one of `INVOICE_FORMATS`.
        found: invoices, each with the state of its month: open, closing, closed.
        stream: binary stream for UTF-8.

    Raises:
        ExportError: the format is unknown.
    """
    if form not in INVOICE_FORMATS:
        raise ExportError(f"no format {form!r} of invoices; there are {', '.join(INVOICE_FORMATS)}, and a table without --format")
    documents = ((one.document(), state) for one, state in found)
    if form == "csv":
        rows = (row for document, state in documents for row in _rows(document, state))
        write_lines(_COLUMNS, ([row.get(name) for name in _COLUMNS] for row in rows), stream)
        return
    pages = (_page(document, state) for document, state in documents)
    stream.writelines(("\n" * (place > 0) + "\n".join(page) + "\n").encode() for place, page in enumerate(pages))


def _rows(document: Mapping[str, Any], state: str) -> Iterable[Mapping[str, Any]]:
    """Yield one row per line and one for the adjustment, if there is one; together they are the total."""
    common = {name: document[name] for name in ("invoice", "period", "tenant", "currency")} | {"state": state}
    for line in document["lines"]:
        more = {f"unpriced_{meter}": taken for meter, taken in line["unpriced"].items()}
        more |= {f"{part}_gpu_seconds": line[part].get("gpu_seconds") for part in ("useful", "wasted")}
        more |= {"wasted_amount": line["wasted"]["amount"], "price_versions": ", ".join(line["price_versions"])}
        yield common | line | more | {"line": "job"}
    if document["adjustment"] != "0":
        yield common | {"line": "adjustment", "amount": document["adjustment"]}


def _page(document: Mapping[str, Any], state: str) -> Iterable[str]:
    """Yield the lines of an invoice in Markdown."""
    total = " ".join(filter(None, (document["total"], document["currency"])))
    yield f"# Invoice {document['period']}, {_text(document['tenant'])}"
    yield ""
    yield f"Invoice {document['invoice']}, {state}. Total: **{total}**"
    yield ""
    yield f"Price versions: {', '.join(map(_text, document['price_versions'])) or 'none'}"
    unpriced = [([one["meter"], one["node_type"] or "", one["gpu_model"] or ""], one) for one in document["unpriced"]]
    if unpriced:
        yield from _table("Without a price", ["meter", "node type", "GPU model"], unpriced, ["quantity"])
    numbers = [*(meter for meter in METERS if meter in document["sum"]), "amount"]
    classes = {"useful": document["useful"]} | {f"wasted: {worth}": sums for worth, sums in document["wasted"].items()}
    yield from _table("Use", ["class"], [([name], sums) for name, sums in classes.items()], numbers)
    parts = [*numbers, *(f"wasted {name}" for name in numbers if name in {"gpu_seconds", "amount"})]
    for name in ("queue", "project", "user"):
        groups = [([key], _with_waste(sums)) for key, sums in document[f"by_{name}"].items()]
        yield from _table(f"By {name}", [name], groups, parts)
    if corrections := document["corrections"]:
        months = [([month], sums) for month, sums in corrections.items()]
        yield from _table("Corrections of closed months", ["month"], months, numbers)
    names = ("queue", "project", "user", "job", *(("month",) if corrections else ()))
    jobs = [
        ([f"{line['namespace']}/{line['name']}", *(line[name] or "" for name in names)], _with_waste(line))
        for line in document["lines"]
    ]
    headings = {"job": "id", "month": "corrected month"}
    yield from _table("Jobs", ["job", *(headings.get(name, name) for name in names)], jobs, parts)
    yield ""
    yield f"Sum {document['amount']}, by rounding {document['adjustment']}, total {total}"


def _with_waste(sums: Mapping[str, Any]) -> dict[str, str]:
    return {**sums, **{f"wasted {name}": value for name, value in sums["wasted"].items()}}


def _table(
    title: str, names: Sequence[str], rows: Iterable[tuple[list[str], Mapping[str, str]]], numbers: Sequence[str]
) -> Iterable[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield f"| {' | '.join([*names, *numbers])} |"
    yield f"|{'---|' * len(names)}{'---:|' * len(numbers)}"
    for texts, sums in rows:
        yield f"| {' | '.join([*(_text(text) or '-' for text in texts), *(sums.get(name, '0') for name in numbers)])} |"


def _text(given: str) -> str:
    """Return a user's text escaped for Markdown, with control characters in JSON's notation."""
    return _SPECIAL.sub(r"\\\g<0>", visible_line(" ".join(given.split())))
