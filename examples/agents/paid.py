"""Told of every job that completes: `lahar --log kafka://localhost:9092 agents run paid`."""

from engine.events import Event
from streams.agents import agent, job_events


@agent(job_events, level="job", to="Completed")
async def paid(event: Event) -> None:
    """Say which job, and which of its events says so: the two together are the key of a payment."""
    print("paid", event.subject, event.sequence, flush=True)
