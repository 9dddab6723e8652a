"""Invoices as files: texts that users chose are no markup, and lines add up."""

from __future__ import annotations

import csv
from decimal import Decimal
from io import BytesIO, StringIO

from hypothesis import given
from hypothesis import strategies as st

from engine.billing.exports.invoice_files import write_invoices
from engine.billing.invoice import Invoice, InvoiceLine, LineSum

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
AMOUNTS = st.decimals("0", "1000", places=6)


@st.composite
def invoices(draw: st.DrawFn) -> Invoice:
    made = Invoice(draw(TEXTS), "2026-10", "EUR")
    for number in range(draw(st.integers(1, 4))):
        queue, project, user, namespace, name = (draw(TEXTS) for _ in range(5))
        line = InvoiceLine(queue, project, user, namespace, name, f"job-{number}", draw(st.sampled_from(("", "2026-08"))))
        made.lines[line], amount = LineSum(), draw(AMOUNTS)
        for sums in (made.lines[line], made.total):
            sums.take("gpu_seconds", Decimal(60), amount)
    return made


def written(form: str, *found: Invoice) -> str:
    stream = BytesIO()
    write_invoices(form, [(one, "closed" if one.period == "2026-10" else "open") for one in found], stream)
    return stream.getvalue().decode()


@given(invoice=invoices())
def test_the_rows_of_an_invoice_are_its_total(invoice: Invoice) -> None:
    rows = list(csv.DictReader(StringIO(written("csv", invoice), newline="")))
    assert sum(Decimal(row["amount"]) for row in rows) == invoice.rounded
    jobs = [row for row in rows if row["line"] == "job"]
    assert [tuple(row[name] for name in ("queue", "project", "user", "namespace", "name", "job", "month")) for row in jobs] == [
        (line.queue, line.project, line.user, line.namespace, line.name, line.job, line.month) for line in sorted(invoice.lines)
    ]


@given(invoice=invoices())
def test_no_text_leaves_its_cell(invoice: Invoice) -> None:
    lines = written("markdown", invoice).split("\n")
    start = lines.index("## Jobs") + 4
    assert len(lines[start:]) == len(invoice.lines) + 3  # an empty line, the sum, the end
    for line in lines[start : start + len(invoice.lines)]:
        assert line.replace("\\\\", "").replace("\\|", "").count("|") == 10
        assert "<" not in line.replace("\\<", "")


def test_no_text_steers_the_terminal() -> None:
    text = written("markdown", Invoice("a\x1b[31m\u202e", "2026-10", "EUR"))
    assert text.startswith("# Invoice 2026-10, a\\\\u001b\\[31m\\\\u202e\n")
    assert "\x1b" not in text


def test_each_invoice_has_a_page() -> None:
    text = written("markdown", Invoice("a", "2026-10", "EUR"), Invoice("b", "2026-11"))
    assert [line for line in text.splitlines() if line.startswith("# ")] == ["# Invoice 2026-10, a", "# Invoice 2026-11, b"]
    assert text.count(", closed. Total: **0.00 EUR**") == text.count(", open. Total: **0**") == 1
