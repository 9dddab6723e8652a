"""Prometheus metrics of the agents of one process."""

from __future__ import annotations

from typing import Final, Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Outcome = Literal["done", "unselected", "duplicate", "unknown", "unreadable", "lost"]
"""Outcome of a record: the function succeeded; not selected; already done; type unknown to this release; undecodable; failed while
its partition was reassigned."""

_SECONDS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0, 120.0)


class AgentMetrics:
    """Metrics of all agents of a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the metrics, once per registry."""
        label = ("agent",)
        self.events = Counter("lahar_agent_events", "Records taken, by outcome.", (*label, "outcome"), registry=registry)
        self.missing = Counter("lahar_agent_missing", "Events that should have come and did not.", label, registry=registry)
        self.failures = Counter("lahar_agent_failures", "Calls that failed.", label, registry=registry)
        self.failing = Gauge("lahar_agent_failing", "1 while an event is given again and again.", label, registry=registry)
        self.seconds = Histogram("lahar_agent_seconds", "Duration of a call.", label, buckets=_SECONDS, registry=registry)
        self.lag = Gauge("lahar_agent_lag_records", "Records that wait in a partition.", ("topic", "partition"), registry=registry)

    def watch(self, agent: str) -> None:
        """Export the metrics of an agent with zeros from the start."""
        for outcome in get_args(Outcome):
            self.events.labels(agent, outcome)
        for family in (self.missing, self.failures, self.failing, self.seconds):
            family.labels(agent)
