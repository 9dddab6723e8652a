"""What an agent remembers of what it has done."""

from __future__ import annotations

from job_history import History, opened

from streams.agents.progress import Place, Progress

PLACE = Place("job-events", 0)


def test_memory_is_bounded_and_a_forgotten_job_is_known_by_its_offset() -> None:
    progress = Progress(kept=10)
    given = [History(f"job-{number}").received(opened(), number) for number in range(1_000)]
    for received in given:
        progress.done(received)
    assert len(progress) == 10
    assert all(progress.is_done(received) for received in given)


def test_after_somebody_else_may_have_had_the_partition_a_hole_is_no_loss() -> None:
    progress, history = Progress(), History()
    progress.done(history.received(opened(), 0))
    history.lose()
    progress.resumed({PLACE: 2})
    assert progress.missing(history.received(opened(), 2)) == 0


def test_a_rebalance_that_returns_the_partition_unmoved_hides_no_loss() -> None:
    progress, history = Progress(), History()
    progress.done(history.received(opened(), 0))
    history.lose()
    progress.resumed({PLACE: 1})
    assert progress.missing(history.received(opened(), 2)) == 1


def test_a_partition_that_is_forgotten_is_taken_anew() -> None:
    progress = Progress()
    here, there = History("a", partition=0).received(opened(), 0), History("b", partition=1).received(opened(), 0)
    progress.done(here)
    progress.done(there)
    progress.forget({PLACE})
    assert not progress.is_done(here)
    assert progress.is_done(there)


def test_a_topic_made_anew_under_the_same_name_is_not_taken_for_done() -> None:
    progress, old = Progress(), History("a")
    for offset in range(5):
        progress.done(old.received(opened(), offset))
    later = old.received(opened(), 0)
    assert not progress.is_done(later)
