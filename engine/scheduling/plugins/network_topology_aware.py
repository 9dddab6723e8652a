"""Network-topology-aware: accepted without effect, since Lahar has no HyperNodes.

Extension points: none.
"""

from __future__ import annotations

from typing import ClassVar

from engine.scheduling.session import Plugin


class NetworkTopologyAware(Plugin):
    """Plugin without effect: without HyperNodes no node is nearer than another (Volcano `network-topology-aware`)."""

    NAME: ClassVar[str] = "network-topology-aware"
