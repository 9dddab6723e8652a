"""Model check of preemption with notice: the interleavings of a small world keep every invariant."""

from __future__ import annotations

from random import Random
from time import monotonic

import pytest
from notice_actions import ALONE, COMPETING, actions, first, take
from notice_search import search
from notice_steps import Live


def test_every_state_with_one_thing_happening_outside_keeps_the_invariants():
    found = search(happen=1, late=0)
    assert (found.fault, found.way, found.complete) == ("", [], True)
    assert min(found.ends[end] for end in ("open", "executed", "withdrawn")) > 100


def test_every_state_with_messages_under_way_keeps_the_invariants():
    found = search(happen=0, late=2, notices=2)
    assert (found.fault, found.way, found.complete) == ("", [], True)


def test_every_state_of_two_competing_privileged_jobs_keeps_the_invariants():
    found = search(happen=0, late=1, privileged=COMPETING, notices=2)
    assert (found.fault, found.way, found.complete) == ("", [], True)
    assert found.ends["executed"] > 1_000


@pytest.mark.parametrize("privileged", [ALONE, COMPETING], ids=["alone", "competing"])
def test_processes_that_are_never_restarted_decide_the_same(privileged):
    for seed in range(10):
        dice, world = Random(seed), first(privileged)  # noqa: S311 - a walk, not a secret
        live = Live.of(world)
        while choices := actions(world, 3, 2):
            action = dice.choice(choices)
            after, faults = take(world, action)
            again, more = take(world, action, live)
            assert (faults, more) == ([], [])
            assert again == after
            world = after


@pytest.mark.slow
def test_five_minutes_of_states_keep_the_invariants(capsys):
    end = monotonic() + 300
    # From small to large: each is searched as far as time allows.
    for happen, late, jobs in (
        (1, 0, COMPETING),
        (1, 1, ALONE),
        (2, 0, ALONE),
        (1, 1, COMPETING),
        (2, 1, ALONE),
        (3, 2, COMPETING),
    ):
        found = search(happen=happen, late=late, privileged=jobs, notices=2, seconds=(end - monotonic()) / 2)
        with capsys.disabled():
            how = "all of them" if found.complete else f"to depth {found.depth}"
            print(f"\n{len(jobs)} privileged, {happen} outside, {late} late: {found.states:,} states ({how}), ", end="")
            print(f"{found.steps:,} steps, {found.ends}", end="")
        assert (found.fault, found.way) == ("", [])
