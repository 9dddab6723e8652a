"""Resource quantities mean what Kubernetes says they mean."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kubernetes.errors import QuantityError
from engine.kubernetes.reading.quantity import bytes_, milli, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", Fraction(1, 2)),
        ("1.5Gi", 3 * 2**29),
        ("2e3", 2000),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1Ei", 2**60),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+1k", 1000),
        ("-1", -1),
        ("100n", Fraction(1, 10**7)),
        (2, 2),
        (0.5, Fraction(1, 2)),
        (1e-5, Fraction(1, 10**5)),
        ("0.0000000001", Fraction(1, 10**9)),
        ("1e999999999999", 2**63 - 1),
        (10**30, 2**63 - 1),
    ],
)
def test_value(text: object, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", ".", "m", "1 ", "1e", "1MI", "--1", "1,5", "\uff11", "9" * 300, True, None, float("nan"), [1], {}]
)
def test_what_is_no_quantity(text: object) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse_quantity(text)


def test_rounding_goes_up() -> None:
    assert milli(parse_quantity("0.1001")) == 101
    assert milli(parse_quantity("100u")) == 1
    assert bytes_(parse_quantity("1500m")) == 2
    assert bytes_(parse_quantity("1Mi")) == 1048576


@given(st.integers(0, 10**6), st.integers(0, 3))
def test_scaling_by_a_suffix_is_scaling_by_a_thousand(number: int, power: int) -> None:
    """`Nk` is `N` thousand, and so on upwards."""
    assert parse_quantity(f"{number}{['', 'k', 'M', 'G'][power]}") == number * 1000**power


@given(st.text() | st.from_regex(r"[+-]?\d{0,3}\.?\d{0,3}([eE][+-]?\d{1,9}|[numkMGTPE]?i?)", fullmatch=True))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    with suppress(QuantityError):
        assert milli(parse_quantity(text)) <= (2**63 - 1) * 1000
