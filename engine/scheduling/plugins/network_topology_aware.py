"""Plugins that are accepted and change nothing where what they look at does not exist."""

from __future__ import annotations

from typing import ClassVar

from engine.scheduling.session import Plugin

__all__ = ["NetworkTopologyAware"]


class NetworkTopologyAware(Plugin):
    """Without HyperNodes no node is nearer than another (Volcano `network-topology-aware`)."""

    NAME: ClassVar[str] = "network-topology-aware"
