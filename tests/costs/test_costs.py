"""No input costs more than a bounded amount of time and memory, whatever it says.

Not which outcome it has is asked here, only that there is one within the budget. That the budget is narrow enough is shown by
planted defects that it finds.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from cost_meter import Meter, TooDearError, process
from hostile_inputs import ORDINARY, Hostile, corpus, mutated
from pydantic_core import to_json

SIZE = 12_000
DEEP = 64_000
KNOWN = {hostile.name: hostile for hostile in corpus(SIZE)}


@pytest.fixture(scope="module")
def meter() -> Meter:
    return Meter()


def check(meter: Meter, hostile: Hostile) -> None:
    try:
        meter.check(hostile.content)
    except TooDearError as error:
        pytest.fail(f"{hostile.name}: {error}; an ordinary input takes {meter.ordinary * 1000:.2f} ms")


def test_ordinary_inputs_are_taken() -> None:
    """The fuzz begins where the product does something."""
    outcomes = [outcome for content in ORDINARY for outcome in process(to_json(content))]
    assert outcomes == ["applied", "applied", "applied", "applied", "unchanged", "unchanged", "refused"]


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_to_be_dear_is_within_the_budget(meter: Meter, name: str) -> None:
    check(meter, KNOWN[name])


@pytest.mark.parametrize("seed", range(4))
def test_a_value_that_grows_is_within_the_budget_wherever_it_stands(meter: Meter, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - the same values in each run are wanted
    for _ in range(25):
        check(meter, mutated(random, SIZE))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_large_values_too(meter: Meter, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - the same values in each run are wanted
    for _ in range(50):
        check(meter, mutated(random, DEEP))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(KNOWN)))
def test_what_is_known_to_be_dear_is_so_at_any_size(meter: Meter, number: int) -> None:
    for size in (1_000, 30_000, 200_000):
        check(meter, list(corpus(size))[number])


def quadratic(content: bytes) -> None:
    for _ in content:
        for _ in content * 16:
            pass


def filling(content: bytes) -> list[int]:
    return list(range(300, 300 + 200 * len(content)))


@pytest.mark.parametrize("run", [quadratic, filling])
def test_what_grows_with_the_square_or_fills_the_memory_is_found(run: Any) -> None:
    meter = Meter()
    meter.run = run
    with pytest.raises(TooDearError):
        meter.check(b"b" * SIZE)
