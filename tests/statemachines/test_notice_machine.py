"""The notice machine: every change in every situation."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from statemachines.notice import NOTICE, NoticeChange, NoticeFacts, next_state

FACTS = [
    NoticeFacts(victims, acknowledged, unconfirmed, reviewed)
    for victims, acknowledged, unconfirmed, reviewed in product(range(3), range(3), range(3), (False, True))
    if acknowledged <= victims
]
ENDS = ("PreemptorLeft", "PreemptorPlaced", "NotEnough", "WithdrawCommanded", "QueueChanged", "RightRevoked")


def expected(change: str, facts: NoticeFacts) -> str:
    if change in ENDS:
        return "Withdrawn"
    if change in {"VictimLeft", "VictimNotNeeded"}:
        return "Open" if facts.victims else "Withdrawn"
    may_stop = facts.unconfirmed == 0 and facts.reviewed
    if change == "Acknowledged":
        return "Executed" if may_stop and facts.acknowledged == facts.victims else "Open"
    return "Executed" if may_stop else "Withdrawn"


@pytest.mark.parametrize("change", get_args(NoticeChange))
def test_a_change_leads_where_the_rules_say(change: NoticeChange) -> None:
    assert [next_state(change, facts) for facts in FACTS] == [expected(change, facts) for facts in FACTS]


def test_the_table_has_every_change_and_no_way_out_of_an_end() -> None:
    assert {trigger for _, trigger in NOTICE.compiled} == set(get_args(NoticeChange)) == set(NOTICE.triggers)
    assert {state for state, _ in NOTICE.compiled} == {"Open"}
