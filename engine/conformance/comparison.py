"""Compares a conformance case's expectation with the outcome of the rules.

Only the expectation's keys count. Names of pods are compared as sets, resources and durations by value; `reason_contains` is not
compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from engine.kubernetes.reading.durations import parse_duration
from engine.kubernetes.reading.quantity import parse_quantity

_SETS: Final = frozenset({"killed", "evicted", "pods_deleted", "pods_left", "feasible_nodes"})
_DURATIONS: Final = frozenset({"delay"})
_RESOURCES: Final = frozenset({"min_resources"})
_PARTIAL: Final = frozenset({"scores", "phases"})
"""Nested objects of which only the expected keys count, too."""
_NOT_COMPARED: Final = frozenset({"reason_contains", "epsilon"})


@dataclass(slots=True)
class Failure:
    """One field that is not as expected."""

    field: str
    expected: Any
    actual: Any


def compare(expected: Mapping[str, Any], actual: Mapping[str, Any], epsilon: float = 0) -> list[Failure]:
    """Compare an outcome with a case's expectation.

    Args:
        expected: the case's `expected`.
        actual: the outcome; a key that it lacks fails.
        epsilon: tolerance for numbers.

    Raises:
        ValueError: an expected duration or quantity cannot be read.
    """
    failures: list[Failure] = []
    for name, wanted in expected.items():
        if name in _NOT_COMPARED:
            continue
        if name not in actual:
            failures.append(Failure(name, wanted, "not part of this kind's outcome"))
        elif not _equal(name, wanted, actual[name], epsilon):
            failures.append(Failure(name, wanted, actual[name]))
    return failures


def _equal(name: str, wanted: Any, found: Any, epsilon: float) -> bool:  # noqa: ANN401 - JSON values
    if name in _SETS and isinstance(wanted, list):
        return set(wanted) == set(found)
    if name in _DURATIONS:
        # Volcano cannot distinguish a delay of 0 from no delay.
        return _micros(wanted) == _micros(found)
    if name in _RESOURCES:
        return _amounts(wanted or {}) == _amounts(found or {})
    if name == "pipelined":
        return _pipelined(wanted, found)
    if name in _PARTIAL:
        return _within(wanted, found, epsilon)
    return _same(wanted, found, epsilon)


def _pipelined(wanted: Any, found: Any) -> bool:  # noqa: ANN401 - JSON values
    """Compare groups with the nodes that their pods may be promised, with groups and the nodes they are."""
    return wanted.keys() == found.keys() and all(set(nodes) <= set(wanted[group]) for group, nodes in found.items())


def _within(wanted: Any, found: Any, epsilon: float) -> bool:  # noqa: ANN401 - JSON values
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and _within(value, found[name], epsilon) for name, value in wanted.items()
        )
    return _same(wanted, found, epsilon)


def _same(wanted: Any, found: Any, epsilon: float) -> bool:  # noqa: ANN401 - JSON values
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(
            _holds(one, other) if isinstance(one, dict) else _same(one, other, epsilon)
            for one, other in zip(wanted, found, strict=True)
        )
    if isinstance(wanted, int | float) and isinstance(found, int | float) and epsilon:
        return abs(wanted - found) <= epsilon
    return bool(wanted == found)


def _holds(wanted: dict[str, Any], found: Any) -> bool:  # noqa: ANN401 - JSON values
    """Return whether a value holds; of an object in a list only the expected keys count."""
    return isinstance(found, dict) and all(name in found and found[name] == value for name, value in wanted.items())


def _micros(value: Any) -> int:  # noqa: ANN401 - JSON values
    return 0 if value is None else parse_duration(str(value))


def _amounts(resources: Mapping[str, Any]) -> dict[str, Fraction]:
    amounts = {name: parse_quantity(value) for name, value in resources.items()}
    return {name: amount for name, amount in amounts.items() if amount}
