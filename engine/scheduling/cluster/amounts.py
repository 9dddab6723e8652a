"""Amounts of resources: by name, memory in bytes, everything else in thousandths (Volcano).

Integers except where amounts are divided: the share of a queue may be a fraction. In limits an absent name differs from 0; each
rule documents the meaning of absence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from engine.kubernetes.reading.quantity import bytes_, milli, parse_quantity

Amounts: TypeAlias = dict[str, float]
"""Resource name → amount."""
Part: TypeAlias = Iterable[tuple[str, float]]
"""Amounts as pairs, such as the request of a pod."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
"""Number of pods; every pod takes one."""
TOLERANCE: Final = 0.1
"""Amounts that differ by less are equal (Volcano `minResource`)."""
LARGEST: Final = 2**59
"""Largest amount; larger ones are capped so that row sums stay within 64 bits."""

_LARGEST_OF_POD: Final = 2**48


def bounded(amount: int) -> int:
    """Return the requested amount of a pod, capped at 281 TB, or as many thousandths.

    The sum over 32,768 such pods stays within 64 bits: an overflow would make a full node look empty.
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
    """Subtract from a total, in place; names at 0 are removed, since users can invent any number of them."""
    for name, amount in part:
        left = total.get(name, 0) - amount
        if left:
            total[name] = left
        else:
            total.pop(name, None)


def is_nothing(amounts: Mapping[str, float]) -> bool:
    """Return whether every amount is zero; `pods` does not count (Volcano `IsEmpty`)."""
    return all(amount < TOLERANCE for name, amount in amounts.items() if name != PODS)


def at_most(left: Mapping[str, float], right: Mapping[str, float], absent: float = 0) -> bool:
    """Return whether `left` is at most `right` in each of its resources (Volcano `LessEqual`).

    Args:
        left: amounts.
        right: amounts.
        absent: amount of a resource that `right` lacks.
    """
    return all(amount < right.get(name, absent) + TOLERANCE for name, amount in left.items())


def within(used: Mapping[str, float], part: Part, limit: Mapping[str, float]) -> bool:
    """Return whether a request fits in a limit, in the requested resources (Volcano `LessEqualWithDimension`).

    Args:
        used: allocated amounts.
        part: requested amounts; a resource with a request of 0 is not compared.
        limit: largest amounts; an absent resource counts as 0, but `pods` is unlimited where it is absent.
    """
    return next(_beyond(used, part, limit), None) is None


def missing(used: Mapping[str, float], part: Part, limit: Mapping[str, float]) -> Amounts:
    """Return the amounts by which a request exceeds a limit."""
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
    """Return a part as a fraction of a whole; of a whole of 0, a part of 0 is 0 and any other is 1 (Volcano)."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def dominant_share(part: Mapping[str, float], whole: Mapping[str, float]) -> float:
    """Return the largest share of any resource of the whole (dominant resource fairness)."""
    largest_share = 0.0
    for name, amount in whole.items():
        held = part.get(name)
        if held:
            found = held / amount if amount else 1.0  # as `share`, whose call costs as much as the rest: this is asked all the time
            if found > largest_share:  # noqa: PLR1730 - so does a call of max
                largest_share = found
    return largest_share
