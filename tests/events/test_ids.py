"""Ids say what a thing is, so they never change: each expected value here is a promise to every log ever written."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from engine.events import ids

PARTS = st.text("abc/\x1f", max_size=4)


def test_ids_are_the_same_on_every_machine_and_in_every_release():
    assert ids.digest(b"lahar") == "028559d27525f9385fefdb27502a645a"
    assert ids.output_id("lifecycle", "cause", 0) == "51b5f445730f68c8c7c866d7b386e6b8"
    assert ids.timer_fired_id("lifecycle", "timer") == "62714241631cba7f19d5737943c9a501"
    assert ids.observation_id("uid", "17", deleted=False) == "817831ed51d9efef8e3850bc330c7f99"
    assert ids.observation_id("uid", "17", deleted=True) == "4587b5c8eb899423ecd767fb6560d50a"
    assert ids.import_id("philly", "philly-status", "41", "end") == "8f3b542b24bad0089d51db792ebf7971"
    assert ids.imported_job_id("philly", "philly-status", "41") == "aa9d51a7-8948-5560-9c01-95549e96340e"
    assert ids.submitted_job_id("prod-1", "ml", "llama", "c1") == "bcb13692-5605-515a-abef-48595f79f088"


def test_different_things_have_different_ids():
    made = [
        ids.output_id("lifecycle", "a", 0),
        ids.output_id("lifecycle", "a", 1),
        ids.output_id("lifecycle", "b", 0),
        ids.output_id("billing", "a", 0),
        ids.timer_fired_id("lifecycle", "a"),
        ids.observation_id("a", "1", deleted=False),
        ids.observation_id("a", "1", deleted=True),
        ids.observation_id("a", "2", deleted=False),
        ids.import_id("c", "swf", "1", "start"),
        ids.import_id("c", "swf", "1", "end"),
        ids.imported_job_id("c", "swf", "1"),
        ids.imported_job_id("c", "swf", "2"),
        ids.submitted_job_id("c", "ns", "name", "1"),
        ids.submitted_job_id("c", "ns", "name", "2"),
    ]
    assert len(set(made)) == len(made)


@given(st.lists(st.tuples(PARTS, PARTS, PARTS), unique=True, max_size=6))
def test_parts_do_not_run_into_each_other(rows):
    """("ab", "c") and ("a", "bc") are different rows, whatever stands in them."""
    made = [ids.import_id("c", source_format, row, fact) for source_format, row, fact in rows]
    assert not [pair for pair in combinations(made, 2) if pair[0] == pair[1]]
