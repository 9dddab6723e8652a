"""Charges of runs: what is kept of earlier questions changes no answer."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from usage_records import PRICES, TERMS, run

from engine.billing.book import Book
from engine.billing.charges import charged
from engine.billing.state import Size
from engine.events.prices import PriceBook, PriceVersion

BY_TYPE = {"gpu_seconds": {"*": "0.001"}, "cpu_seconds": {"p4d": "0.0002"}}
LATER = PriceVersion.model_validate({"version": "2026-11", "from": "2026-11-01", "prices": BY_TYPE})
SHAPES = [
    (replace(TERMS, preemptible=preemptible), run(size=Size(4_000, 2**34, gpu), node_type=kind, gpu_model=model, **given))
    for preemptible, gpu, kind, model, given in product(
        (False, True),
        (1, 2),
        ("p4d", "g5"),
        ("A100", "A10G", None),
        ({"price_version": "2026-10"}, {"price_version": "2026-10", "free": True}, {"price_version": "2026-11"}, {}),
    )
]
"""Each differs from some other in one thing alone."""


def book():
    return Book.of(PriceBook(currency="EUR", versions=(PRICES, LATER)), {})


FRESH = {
    (place, length): charged(book(), terms, one, length)
    for place, (terms, one) in enumerate(SHAPES)
    for length in (-3, 1, 3_600_000_000)
}


@given(st.lists(st.sampled_from(sorted(FRESH)), min_size=2, max_size=60))
def test_charges_do_not_depend_on_what_was_asked_before(questions):
    kept = book()
    for place, length in questions:
        terms, one = SHAPES[place]
        assert charged(kept, terms, one, length) == FRESH[place, length]
    assert len(kept.tariffs) <= len({place for place, _ in questions})
