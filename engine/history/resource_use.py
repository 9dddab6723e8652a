"""Resource use of attempts: resources times time, summed as whole numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from engine.events.job_state import AttemptState
from engine.events.times import SECOND
from engine.exact_numbers import seconds
from statemachines.spec import GPU, Requests


@dataclass(slots=True)
class Use:
    """Resources times time: microseconds times billionths of GPUs, of GPUs actually used, thousandths of cores."""

    gpu: int = 0
    share: int = 0
    cpu: int = 0
    unmetered: dict[str, int] = field(default_factory=dict)
    """Extended resources without a meter, by name: microseconds times thousandths of the unit."""

    def take(self, requests: Requests, length: int) -> None:
        """Add the use of one attempt over a duration (microseconds)."""
        self.gpu += requests.gpu_billionths * length
        self.share += requests.used_billionths * length
        self.cpu += requests.cpu_milli * length
        for name, amount in requests.unmetered.items():
            self.unmetered[name] = self.unmetered.get(name, 0) + amount * length

    def add(self, other: Use) -> None:
        """Add another use."""
        self.gpu += other.gpu
        self.share += other.share
        self.cpu += other.cpu
        for name, amount in other.unmetered.items():
            self.unmetered[name] = self.unmetered.get(name, 0) + amount

    def result(self, suffix: str = "") -> dict[str, Decimal]:
        """Return the exact sums of metered resources in seconds; each name ends in `suffix`."""
        return {
            f"gpu_seconds{suffix}": seconds(self.gpu, SECOND * GPU),
            f"gpu_share_seconds{suffix}": seconds(self.share, SECOND * GPU),
            f"cpu_seconds{suffix}": seconds(self.cpu, 1_000_000_000),
        }


@dataclass(slots=True)
class LiveAttempt(AttemptState):
    """An open attempt, with its use over [Running, end)."""

    since: int | None = None
    """Start of the interval with the current `requests` (microseconds); `None`: it has not run."""
    before: Use = field(default_factory=Use)
    """Its use before the last change of its requests."""

    def resize(self, requests: Requests, time: int) -> None:
        """Change its requests from a time on (microseconds), or from the last change if that was later."""
        self.before = self.until(time)
        self.requests = requests
        if self.since is not None:
            self.since = max(self.since, time)

    def until(self, time: int) -> Use:
        """Return its use up to a time (microseconds), or to its end."""
        use = Use()
        use.add(self.before)
        if self.since is not None:
            use.take(self.requests, max(time - self.since, 0))
        return use


def use_so_far(attempts: Iterable[LiveAttempt], time: int) -> Use:
    """Return the use of open attempts up to a time (microseconds)."""
    total = Use()
    for attempt in attempts:
        total.add(attempt.until(time))
    return total
