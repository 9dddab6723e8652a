"""Scheduling: a stage that admits, places and evicts jobs in cycles, by Volcano's actions and plugins."""

from __future__ import annotations

from typing import Final

from engine import former_names

_MODEL: Final = ("amounts", "budgets", "changes", "entities", "nodes", "notices", "presence", "queues", "selectors", "sub_groups")
FORMER_MODULES: Final = {
    "engine.scheduling.model": "engine.scheduling.cluster",
    **{f"engine.scheduling.model.{name}": f"engine.scheduling.cluster.{name}" for name in _MODEL},
    "engine.scheduling.model.cluster": "engine.scheduling.cluster.model",
    "engine.scheduling.admitted_requests": "engine.scheduling.inqueue_resources",
    "engine.scheduling.answers": "engine.scheduling.plugin_results",
    "engine.scheduling.lines": "engine.scheduling.pending.queue",
    "engine.scheduling.plugins.neutral": "engine.scheduling.plugins.network_topology_aware",
    "engine.scheduling.reasons": "engine.scheduling.pending.reasons",
}
"""Former modules that a plugin of a third party may import."""
_NAMES: Final = {
    "engine.scheduling.admitted_requests": {"AdmittedRequests": "InqueueResources"},
    "engine.scheduling.lines": {"Kind": "EquivalenceClass", "Lines": "PendingQueue"},
}

former_names.install(FORMER_MODULES, _NAMES)
