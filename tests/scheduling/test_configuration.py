"""Configuration in Volcano's format: what is read, what is refused and how it is said."""

import pytest
import yaml

from engine.scheduling.cluster.model import Cluster
from engine.scheduling.configuration import DEFAULT, Arguments, Configuration, PluginOption, read_configuration
from engine.scheduling.errors import ConfigurationError
from engine.scheduling.scheduler import Scheduler

TEXT = """
actions: "enqueue, allocate,preempt"
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
  - name: drf
    enabledHierarchy: true
- plugins:
  - name: binpack
    arguments:
      binpack.weight: 10
configurations:
- name: preempt
  arguments: {enableTopologyAwarePreemption: true}
"""


def test_volcanos_file_is_read():
    found = read_configuration(yaml.safe_load(TEXT))
    assert found.actions == ("enqueue", "allocate", "preempt")
    gang, drf = found.tiers[0]
    assert "preemptable" not in gang.enabled
    assert "job_order" in gang.enabled
    assert "hierarchy" in drf.enabled
    assert "hierarchy" not in gang.enabled
    assert found.tiers[1][0].arguments == {"binpack.weight": 10}
    assert found.arguments_of("preempt").truth("enableTopologyAwarePreemption", default=False)
    assert found.arguments_of("allocate") == {}


def test_what_is_left_out_is_volcanos_default():
    assert read_configuration({}) == DEFAULT
    Scheduler(Cluster(), DEFAULT)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"actions": ["allocate"]}, "actions"),
        ({"tiers": {"plugins": []}}, "tiers"),
        ({"tiers": [{"plugins": [{"enableJobOrder": True}]}]}, "has no name"),
        ({"tiers": [{"plugins": [{"name": "gang", "enableFlying": True}]}]}, "enableFlying"),
        ({"tiers": [{"plugins": [{"name": "gang", "enableJobOrder": "yes"}]}]}, "enableJobOrder"),
        ({"tiers": [{"plugins": [{"name": "gang", "arguments": 3}]}]}, "arguments"),
        ({"tiers": [{"plugins": [{"name": "proportion"}, {"name": "drf", "enabledHierarchy": True}]}]}, "cannot share a tier"),
    ],
)
def test_what_cannot_be_read_is_named(content, said):
    with pytest.raises(ConfigurationError, match=said):
        read_configuration(content)


@pytest.mark.parametrize(
    ("actions", "tiers", "said"),
    [
        (("fly",), (), "unknown action 'fly'; known are allocate, backfill"),
        ((), ((PluginOption("magic"),),), "unknown plugin 'magic'; known are binpack"),
        ((), ((PluginOption("binpack", arguments=Arguments({"binpack.cpu": "much"})),),), "binpack.cpu: 'much' is no number"),
        ((), ((PluginOption("binpack", arguments=Arguments({"binpack.cpu": float("nan")})),),), "binpack.cpu: nan is no number"),
        ((), ((PluginOption("overcommit", arguments=Arguments({"overcommit-factor": "inf"})),),), "'inf' is no number"),
        ((), ((PluginOption("binpack", arguments=Arguments({"binpack.cpu": 10**400})),),), "is no number"),
        ((), ((PluginOption("binpack", arguments=Arguments({"binpack.cpu": -1})),),), "below zero"),
        ((), ((PluginOption("tdm", arguments=Arguments({"tdm.revocable-zone.a": "9-17"})),),), "8:00-18:00"),
        ((), ((PluginOption("tdm", arguments=Arguments({"tdm.revocable-zone.a": "9:00-25:00"})),),), "beyond 24:00"),
        ((), ((PluginOption("sla", arguments=Arguments({"sla-waiting-time": "long"})),),), "sla-waiting-time"),
        ((), ((PluginOption("predicates", arguments=Arguments({"predicate.NodePortsEnable": 3})),),), "neither true nor false"),
    ],
)
def test_what_cannot_run_is_refused_at_start(actions, tiers, said):
    with pytest.raises(ConfigurationError, match=said):
        Scheduler(Cluster(), Configuration(actions, tiers))
