"""Callbacks on the machines of job and replica: `lahar events --json | python pager.py`."""

import sys

from transitions import EventData

from engine.events import decode, from_cloudevent
from engine.history.machines import Machines, Who


class Pager:
    """Told of each job and replica that enters a phase."""

    def __init__(self, who: Who) -> None:
        self.who = who

    def on_enter_Failed(self, entered: EventData) -> None:  # noqa: N802, D102 - as transitions calls it
        reason = entered.kwargs["event"].data.reason
        print(f"{self.who.level} {self.who.task}[{self.who.replica}] has failed: {reason}")

    def on_enter_Restarting(self, entered: EventData) -> None:  # noqa: N802, D102 - as above
        print(f"{self.who.level} restarts; it was {entered.transition.source}")

    def on_enter_Completed(self, entered: EventData) -> None:  # noqa: N802, D102, ARG002 - as above
        print(f"{self.who.level} is completed")


machines = Machines(lambda who: None if who.level == "task" else Pager(who))
for line in sys.stdin.buffer:
    if b'"specversion"' in line:  # not what says where following has come to
        machines.take(decode(from_cloudevent(line, 0)))
