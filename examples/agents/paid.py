"""Told of every job that completes: `lahar --log kafka://localhost:9092 agents run paid`."""

from engine.events import Event
from streams.agents import agent, job_events


@agent(job_events, level="job", to="Completed")
async def paid(event: Event) -> None:
    """Pay for a job whose end is stated; one that is only inferred may be taken back, and come again."""
    if not event.data.inferred:
        print("paid", event.subject, flush=True)
