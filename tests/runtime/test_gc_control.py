"""The collector works between commits and is given back."""

import gc
import weakref

import pytest

from engine.runtime.gc_control import GcControl, freeze_live_objects

_COMMITS = 20
"""Within which it looks once at least."""


class Node:
    """Something that can be part of a cycle."""

    def __init__(self) -> None:
        self.other: Node = self


def test_the_collector_is_taken_over_and_given_back() -> None:
    assert gc.isenabled()
    with freeze_live_objects() as collector:
        assert isinstance(collector, GcControl)
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_it_is_given_back_after_a_failure() -> None:
    with pytest.raises(ZeroDivisionError), freeze_live_objects():
        _ = 1 / 0
    assert gc.isenabled()


def test_cycles_made_before_are_not_set_aside() -> None:
    lost = weakref.ref(Node())
    with freeze_live_objects():
        assert lost() is None


def test_it_collects_once_in_ten_commits() -> None:
    collections: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            collections.append(about["generation"])

    with freeze_live_objects() as collector:
        gc.callbacks.append(note)
        try:
            for _ in range(30):
                collector.tick()
            assert collections == [1, 1, 1]
            for _ in range(9):
                collector.tick()
        finally:
            gc.callbacks.remove(note)
    assert collections == [1, 1, 1]


def test_cycles_made_meanwhile_are_found() -> None:
    with freeze_live_objects() as collector:
        lost = weakref.ref(Node())
        assert lost() is not None
        for _ in range(_COMMITS):
            collector.tick()
        assert lost() is None


def test_cycles_that_were_set_aside_are_found_when_it_looks_through_them() -> None:
    with freeze_live_objects() as collector:
        node = Node()
        lost = weakref.ref(node)
        for _ in range(_COMMITS):
            collector.tick()
        del node
        for _ in range(_COMMITS):
            collector.tick()
        assert lost() is not None
        collector.collect_frozen()
        assert lost() is None
        assert gc.get_freeze_count() > 0


def test_what_survives_is_set_aside() -> None:
    with freeze_live_objects() as collector:
        before = gc.get_freeze_count()
        kept = [Node() for _ in range(1000)]
        for _ in range(_COMMITS):
            collector.tick()
        assert gc.get_freeze_count() >= before + len(kept)
