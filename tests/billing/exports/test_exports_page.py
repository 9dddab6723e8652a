"""docs/billing-exports.md has the tables that the code has."""

from __future__ import annotations

from exports_page import PAGE, columns, focus, record, written_anew


def test_the_page_is_what_the_code_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(part in page for part in (columns(), focus(), record()))
    assert page == written_anew(page), "`make docs` writes it anew"


def test_what_has_drifted_is_written_anew() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written_anew(page.replace("| `amount` |", "| `price` |")) == page
