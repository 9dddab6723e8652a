"""A misspelt name of a closed vocabulary is refused with the nearest that there is."""

import pytest

from statemachines.callbacks import parse_selector
from statemachines.errors import LaharError, SelectorError, UnknownNameError
from statemachines.names import must_be_known, must_not_be_misspelt, nearest
from statemachines.vocabulary import JOB_PHASES, REASONS


@pytest.mark.parametrize(("given", "near"), [("failed", "Failed"), ("Runing", "Running"), ("COMPLETED", "Completed"), ("x", None)])
def test_the_nearest_name_whatever_the_case(given, near):
    assert nearest(given, JOB_PHASES) == near


def test_a_name_that_resembles_none_is_refused_with_the_vocabulary():
    with pytest.raises(UnknownNameError, match="no phase 'zzz'; write one of Aborted, Aborting"):
        must_be_known("phase", ["Failed", "zzz"], JOB_PHASES)


def test_names_of_an_open_vocabulary_pass_unless_they_nearly_match_one():
    must_not_be_misspelt("reason", ["BackoffLimitExceeded", "OomKilled"], REASONS)
    with pytest.raises(LaharError, match="did you mean OomKilled"):
        must_not_be_misspelt("reason", ["OOMKiled"], REASONS)


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ({"level": "replicas"}, "did you mean replica?"),
        ({"to": "failed"}, "did you mean Failed?"),
        ({"level": "job", "from": "Runing"}, "did you mean Running?"),
        ({"reason": "OOMKilled"}, "did you mean OomKilled?"),
        ({"reasons": "OomKilled"}, "did you mean reason?"),
        ({"level": "replica", "to": ["Failed", "Lost"], "reason": "NodeLosst"}, "did you mean NodeLost?"),
    ],
)
def test_a_callback_with_a_misspelt_name_is_refused_when_it_is_declared(selector, hint):
    with pytest.raises(SelectorError) as refused:
        parse_selector(selector)
    assert str(refused.value).endswith(hint)
