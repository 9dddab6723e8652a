"""Agents to be killed: write each event that they are told of to the file `told` before they return."""

from __future__ import annotations

import os

from engine.events import Event
from streams.agents import agent, job_events


@agent(job_events)
async def note(event: Event) -> None:
    """Append a line in one write: a kill leaves it whole or not there."""
    told = os.open("told", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(told, f"{event.subject} {event.sequence}\n".encode())
    os.close(told)
