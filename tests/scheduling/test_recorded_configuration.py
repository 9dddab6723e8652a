"""Rounds record the configuration that they run with, when it is another one than before."""

from __future__ import annotations

import pytest
from deployment import Deployment, task, vcjob
from hypothesis import given
from hypothesis import strategies as st

from engine.events.scheduling import RoundEnded
from engine.scheduling.configuration import DEFAULT, SWITCHES, Configuration, read_configuration
from engine.scheduling.stage import SchedulingStage

OTHER = read_configuration(
    {
        "actions": "enqueue, allocate",
        "tiers": [
            {"plugins": [{"name": "gang", "enableJobOrder": False}, {"name": "predicates"}]},
            {"plugins": [{"name": "capacity", "enabledHierarchy": True, "arguments": {"ancestorReclaimLevel": 1}}]},
        ],
        "configurations": [{"name": "allocate", "arguments": {}}],
    }
)


def recorded(deployment: Deployment) -> list[Configuration]:
    return [read_configuration(e.data.configuration) for e in deployment.events(RoundEnded) if e.data.configuration]


def test_the_first_round_records_it_and_a_later_one_only_another_one() -> None:
    configurations = [DEFAULT, DEFAULT, OTHER, OTHER, DEFAULT]
    deployment = Deployment(stage=lambda: SchedulingStage(configurations.pop(0)))
    deployment.node("n1", cpu=8)
    for at in range(5):
        if at:
            deployment.restart()
        deployment.submit(f"j{at}", vcjob(f"j{at}", task("w", 1)))
        deployment.settle()
        deployment.wait(3)
    assert recorded(deployment) == [DEFAULT, OTHER, DEFAULT]


plugins = st.fixed_dictionaries(
    {"name": st.sampled_from(["gang", "drf", "capacity"])},
    optional={
        "arguments": st.dictionaries(st.text("ab.", min_size=1), st.integers() | st.booleans() | st.text("xyz")),
        **{f"enable{name.title().replace('_', '')}": st.booleans() for name in sorted(SWITCHES)},
    },
)


@given(
    actions=st.lists(st.sampled_from(["enqueue", "allocate", "reclaim"]), unique=True),
    tiers=st.lists(st.lists(plugins, max_size=3), max_size=3),
)
def test_what_is_recorded_is_read_as_the_same_configuration(actions: list[str], tiers: list[list[dict[str, object]]]) -> None:
    found = read_configuration({"actions": ", ".join(actions), "tiers": [{"plugins": tier} for tier in tiers]})
    assert read_configuration(found.document()) == found


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [1]}])
def test_any_argument_can_be_recorded(value: object) -> None:
    given = {"tiers": [{"plugins": [{"name": "gang", "arguments": {"x": value}}]}]}
    document = read_configuration(given).document()
    assert read_configuration(document).document() == document
