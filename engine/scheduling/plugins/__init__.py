"""Plugins by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.scheduling.configuration import PluginOption
from engine.scheduling.errors import UnknownPluginError
from engine.scheduling.plugins.binpack import BinPack
from engine.scheduling.plugins.capacity import Capacity
from engine.scheduling.plugins.cdp import Cdp
from engine.scheduling.plugins.conformance import Conformance
from engine.scheduling.plugins.drf import Drf
from engine.scheduling.plugins.fairshare import FairShare
from engine.scheduling.plugins.gang import Gang
from engine.scheduling.plugins.network_topology_aware import NetworkTopologyAware
from engine.scheduling.plugins.nodeorder import NodeOrder
from engine.scheduling.plugins.overcommit import Overcommit
from engine.scheduling.plugins.pdb import Pdb
from engine.scheduling.plugins.predicates import Predicates
from engine.scheduling.plugins.priority import Priority
from engine.scheduling.plugins.proportion import Proportion
from engine.scheduling.plugins.resourcequota import ResourceQuota
from engine.scheduling.plugins.sla import Sla
from engine.scheduling.plugins.task_topology import TaskTopology
from engine.scheduling.plugins.tdm import Tdm
from engine.scheduling.session import Plugin

__all__ = ["PLUGINS", "make_plugin"]

PLUGINS: Final[Mapping[str, type[Plugin]]] = {
    plugin.NAME: plugin
    for plugin in (
        BinPack,
        Capacity,
        Cdp,
        Conformance,
        Drf,
        FairShare,
        Gang,
        NetworkTopologyAware,
        NodeOrder,
        Overcommit,
        Pdb,
        Predicates,
        Priority,
        Proportion,
        ResourceQuota,
        Sla,
        TaskTopology,
        Tdm,
    )
}
"""Name in the tiers → plugin."""


def make_plugin(option: PluginOption, more: Mapping[str, type[Plugin]]) -> Plugin:
    """Return a plugin with its switches and arguments.

    Args:
        option: its entry in the tiers.
        more: plugins of third parties, by name; none replaces one of `PLUGINS`.

    Raises:
        UnknownPluginError: no plugin has that name.
        ConfigurationError: an argument is invalid.
    """
    plugin = PLUGINS.get(option.name) or more.get(option.name)
    if plugin is None:
        raise UnknownPluginError(option.name, [*PLUGINS, *more])
    return plugin(option)
