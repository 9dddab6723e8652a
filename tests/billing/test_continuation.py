"""At an hour mark `continued` says of an attempt what `runs_of` and `difference` say, or nothing."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest
from billing_shard import run
from hypothesis import given, settings
from hypothesis import strategies as st
from job_programs import closed_programs, node_programs, programs
from msgspec.structs import replace
from test_planted_billing_bugs import fails, sample

from engine.billing import continuation, event_factory
from engine.billing.book import Book
from engine.billing.corrections import difference
from engine.billing.usage_segments import runs_of

continued = continuation.continued
any_program = st.one_of(programs(), closed_programs(), node_programs())


def must_go_on_as_computed(program):
    """Run a program; return how many hour marks of attempts were continued, and how many computed anew."""
    found: Counter[bool] = Counter()
    wrong = []  # a failure of a decision is an event of its own

    def checked(state, known, attempt, node, until):
        made = continued(state, known, attempt, node, until)
        found[made is not None] += 1
        if made is not None:
            wanted = runs_of(known.job, attempt, () if node is None else node.facts, state.book, until)
            computed = difference(attempt.recorded, wanted, state.periods.__contains__)
            if computed != ([], [replace(made, invoice="", revision=0)]):
                wrong.append((made, computed))
        return made

    with patch.object(event_factory, "continued", checked):
        run(program)
    assert wrong == []
    return found


@settings(max_examples=60)
@given(any_program)
def test_what_goes_on_is_what_is_computed(program):
    must_go_on_as_computed(program)


def test_many_attempts_go_on():
    found: Counter[bool] = sum((must_go_on_as_computed(program) for program in sample()[:20]), Counter())
    assert min(found.values()) > 50


IN_FORCE = Book.in_force
PLANTED = {
    "price versions and months last for ever": (Book, "in_force", lambda book, begin, _until: IN_FORCE(book, begin, begin)),
    "resizes and revisions of jobs are passed over": (continuation, "_begun", lambda _known, _attempt, last: last.begun),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug, plant):
    plant(*PLANTED[bug])
    assert any(fails(must_go_on_as_computed, program) for program in sample())
