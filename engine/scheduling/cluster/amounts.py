"""Amounts of resources: by name, memory in bytes, everything else in thousandths (Volcano).

Integers wherever nothing is divided; a share of a queue may be a fraction. A name that is absent differs from 0 where limits are
meant: each rule says what absence stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from engine.kubernetes.reading.quantity import bytes_, milli, parse_quantity

__all__ = [
    "CPU",
    "LARGEST",
    "MEMORY",
    "PODS",
    "TOLERANCE",
    "Amounts",
    "Part",
    "add",
    "at_most",
    "bounded",
    "dominant_share",
    "is_nothing",
    "largest",
    "missing",
    "read_amounts",
    "share",
    "subtract",
    "within",
]

Amounts: TypeAlias = dict[str, float]
"""Resource name → amount."""
Part: TypeAlias = Iterable[tuple[str, float]]
"""Amounts as pairs: what one pod asks for."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
"""Places for pods; every pod takes one."""
TOLERANCE: Final = 0.1
"""Amounts that differ by less are equal (Volcano `minResource`)."""
LARGEST: Final = 2**59
"""Amounts are capped there: the sums of a row of an array stay within 64 bits."""

_LARGEST_OF_POD: Final = 2**48


def bounded(amount: int) -> int:
    """Return an amount that a pod asks for, capped at 281 TB, or as many thousandths.

    What 32,768 such pods take of one node stays within 64 bits: a sum that overflowed would make a full node look empty.
    """
    return min(amount, _LARGEST_OF_POD)


def read_amounts(resources: Mapping[str, object]) -> Amounts:
    """Read a resource list of Kubernetes, or a quota's, which may say `requests.memory`.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    found: Amounts = {}
    for name, text in resources.items():
        quantity = parse_quantity(text)
        amount = bytes_(quantity) if name.rpartition(".")[2] == MEMORY else milli(quantity)
        found[name] = max(-LARGEST, min(amount, LARGEST))
    return found


def add(total: Amounts, part: Part) -> None:
    """Add to a total, in place."""
    for name, amount in part:
        total[name] = total.get(name, 0) + amount


def subtract(total: Amounts, part: Part) -> None:
    """Take from a total, in place; of what is nothing then not even the name stays, since names are anybody's."""
    for name, amount in part:
        left = total.get(name, 0) - amount
        if left:
            total[name] = left
        else:
            total.pop(name, None)


def is_nothing(amounts: Mapping[str, float]) -> bool:
    """Return whether there is nothing of any resource; places for pods do not count (Volcano `IsEmpty`)."""
    return all(amount < TOLERANCE for name, amount in amounts.items() if name != PODS)


def at_most(left: Mapping[str, float], right: Mapping[str, float], absent: float = 0) -> bool:
    """Return whether `left` is at most `right` in each of its resources (Volcano `LessEqual`).

    Args:
        left: amounts.
        right: amounts.
        absent: what a resource that `right` lacks counts as.
    """
    return all(amount < right.get(name, absent) + TOLERANCE for name, amount in left.items())


def within(used: Mapping[str, float], part: Part, limit: Mapping[str, float]) -> bool:
    """Return whether a part still fits in a limit, in the resources that it asks for (Volcano `LessEqualWithDimension`).

    Args:
        used: what is taken already.
        part: what is asked for; a resource of which nothing is asked is not compared.
        limit: what there may be; nothing of a resource that it lacks, but any number of places for pods.
    """
    return next(_beyond(used, part, limit), None) is None


def missing(used: Mapping[str, float], part: Part, limit: Mapping[str, float]) -> Amounts:
    """Return how much of what is asked for would be beyond a limit."""
    return dict(_beyond(used, part, limit))


def _beyond(used: Mapping[str, float], part: Part, limit: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    for name, amount in part:
        wanted, most = used.get(name, 0) + amount, limit.get(name, 0)
        if amount > 0 and wanted >= most + TOLERANCE and (name != PODS or PODS in limit):
            yield name, wanted - most


def largest(left: Mapping[str, float], right: Mapping[str, float]) -> Amounts:
    """Return the larger of two amounts of each resource."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in left.keys() | right.keys()}


def share(part: float, whole: float) -> float:
    """Return a part as a fraction of a whole; of nothing, nothing is 0 and anything is 1 (Volcano)."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def dominant_share(part: Mapping[str, float], whole: Mapping[str, float]) -> float:
    """Return the largest fraction that is taken of any resource of the whole (dominant resource fairness)."""
    largest_share = 0.0
    for name, amount in whole.items():
        held = part.get(name)
        if held:
            found = held / amount if amount else 1.0  # as `share` does: a call costs as much as the rest, and this is asked often
            if found > largest_share:  # noqa: PLR1730 - the same
                largest_share = found
    return largest_share
