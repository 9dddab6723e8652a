"""Errors of agents.

AgentError
└── AgentModuleError   a module cannot be imported, or declares no agent
"""

from __future__ import annotations


class AgentError(ValueError):
    """Raised when an agent's declaration is invalid, or selects events that it cannot receive."""


class AgentModuleError(AgentError):
    """Raised when a module of agents cannot be imported or declares none."""
