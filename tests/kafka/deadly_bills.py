"""The example that loads bills, killed as soon as its database has committed the first event of the kind that `DIE_AFTER` names."""

from __future__ import annotations

import os
import signal
from typing import Any

from bills import load

from engine.events import Event
from engine.events.billing import UsageRecorded
from streams.agents import Agents, agent, billing


@agent(billing, types=sorted(load.types), name=load.name)
async def load_and_die(event: Event[Any]) -> None:
    await load.function(event)
    if os.environ["DIE_AFTER"] == (event.data.record if isinstance(event.data, UsageRecorded) else "withdrawal"):
        os.kill(os.getpid(), signal.SIGKILL)


app = Agents("bills", [load_and_die])
