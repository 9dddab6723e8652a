"""The checks of the stage see a bug that is planted in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

import pytest
from log_checker import faults_of
from stage_stories import told
from test_stage_laws import finished, make

from engine.scheduling import absorb, evolve, explainer, persist, upkeep
from engine.scheduling.job_records import Attempt, Head
from engine.scheduling.objects import node_of

SEEDS = range(40)
NUMBERS = count()


def breaks_rules(seed: int) -> bool:
    return faults_of(told(seed, make).log) != []


def waits_for_ever(seed: int) -> bool:
    return finished(told(seed, make)) != []


def differs_after_restarts(seed: int) -> bool:
    topics = "scheduling", "decisions", "preemptions"
    return told(seed, make, restarts=True).messages(*topics) != told(seed, make).messages(*topics)


def without_claims(state, known, attempt) -> None:
    """A decision holds no node until it is accepted."""
    attempt.claim = None
    upkeep.place(state, known, attempt)


def without_taints(seen):
    return node_of(replace(seen, taints=[], unschedulable=False))


def place_without_node(state, known, attempt) -> None:
    """A pod takes nothing of its node."""
    attempt.node = attempt.decided = ""
    upkeep.place(state, known, attempt)


def forgotten(decode: Callable[[bytes], Head], field: str) -> Callable[[bytes], Head]:
    def read(content: bytes) -> Head:
        head = decode(content)
        setattr(head, field, type(getattr(head, field))())
        return head

    return read


def pages_without_claims(decode: Callable[[bytes], list[Attempt]]) -> Callable[[bytes], Iterable[Attempt]]:
    def read(content: bytes) -> list[Attempt]:
        attempts = decode(content)
        for attempt in attempts:
            attempt.claim = None
        return attempts

    return read


@pytest.mark.parametrize(
    ("owner", "name", "bug", "seen"),
    [
        (evolve, "touch_attempt", without_claims, breaks_rules),
        (upkeep, "node_of", without_taints, breaks_rules),
        (absorb, "place", place_without_node, breaks_rules),
        (upkeep, "note_waiting", lambda cluster, known: None, waits_for_ever),
        (explainer, "due_at", lambda said, place, head: 0 if next(NUMBERS) % 3 == 0 else None, differs_after_restarts),
        (persist, "_read_head", forgotten(persist._read_head, "written"), differs_after_restarts),
        (persist, "_read_head", forgotten(persist._read_head, "open"), differs_after_restarts),
        (persist, "_read_page", pages_without_claims(persist._read_page), differs_after_restarts),
    ],
    ids=["claims", "taints", "capacity", "waiting", "reasons", "sequences", "unanswered", "claims in snapshots"],
)
def test_a_planted_bug_is_seen(monkeypatch, owner, name, bug, seen):
    monkeypatch.setattr(owner, name, bug)
    assert any(seen(seed) for seed in SEEDS)
