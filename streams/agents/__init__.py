"""Agents: functions that Lahar calls with committed events from Kafka. See `docs/agents.md`.

    from streams.agents import agent, job_events

    @agent(job_events, level="job", to="Completed")
    async def paid(event):
        if not event.data.inferred:  # an inferred end may be revised
            print("paid", event.subject)

Declaring agents needs nothing beside Lahar; running them (`lahar agents run MODULE`) needs Faust, the extra `lahar[agents]`.
"""

from engine.effects import RetryLater
from streams.agents.declaration import Agent, Agents, Source, agent, billing, dead_letters, job_events
from streams.agents.errors import AgentError, AgentModuleError
from streams.agents.received import Received

__all__ = [
    "Agent",
    "AgentError",
    "AgentModuleError",
    "Agents",
    "Received",
    "RetryLater",
    "Source",
    "agent",
    "billing",
    "dead_letters",
    "job_events",
]
