"""Saves the work of jobs that are given notice, and lets them go: `lahar --log kafka://localhost:9092 agents run checkpoint`."""

import asyncio
import os
import shlex
import subprocess
import time

import lahar
from engine.events import Event
from engine.events.times import SECOND
from streams.agents import agent, job_events

LOG = os.environ.get("LAHAR_LOG", "kafka://localhost:9092")
COMMAND = os.environ.get("CHECKPOINT", "echo checkpoint")
"""Called with the job's id; it returns when the job's work is saved."""


@agent(job_events, level="job", to="WillEvicted", time_limit=600)
async def checkpoint(event: Event) -> None:
    """Checkpoint before the deadline, then acknowledge; a job whose work cannot be saved keeps its notice."""
    left = event.data.deadline / SECOND - time.time()
    if left <= 0:  # an old notice, as a new group reads the topic from its beginning
        return
    saved = await asyncio.to_thread(subprocess.run, [*shlex.split(COMMAND), event.subject], timeout=left, check=False)
    if saved.returncode == 0:
        await asyncio.to_thread(acknowledge, event)


def acknowledge(event: Event) -> None:
    """Let the job be stopped early. Taken again, it acts once: the command's id is the event's; and for this notice only."""
    with lahar.open(LOG, cluster=event.clusterid, process=False) as log:
        said = {"by": "checkpoint", "reason": "its work is saved", "notice": event.data.notice}
        log.command(event.subject, "AcknowledgeNotice", **said, command=f"ack-{event.id}")
