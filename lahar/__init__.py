"""Lahar as a library: open a log, put in, ask, subscribe.

    import lahar

    with lahar.open("sqlite:./lahar.db") as log:
        log.submit(manifest)
        print(log.why("default/train").headline)

What stands here keeps its meaning within a major version; see docs/library.md.
"""

import sys
from typing import TYPE_CHECKING, Final

from engine import __version__
from engine.application.apply import AppliedObject
from engine.application.billing import Bills, PeriodError
from engine.application.client import Lahar
from engine.application.errors import AlreadyExistsError, RequestError
from engine.application.feed import Taken
from engine.application.ingestion import Ingested
from engine.application.opening import open_lahar as open  # noqa: A004 - `lahar.open` reads as what it does
from engine.application.preemptions import Preemptions
from engine.application.scheduling import Scheduling
from engine.application.subscription import Events
from engine.billing.exports.errors import ExportError
from engine.billing.invoice import Bill, Invoice
from engine.billing.records import Record
from engine.events import Event
from engine.events.outcomes import Fault
from engine.former_names import former
from engine.history.asof import ClusterAsOf
from engine.history.billing import Finding, Unfinished
from engine.history.billing_explanation import AdjustmentExplanation, RecordExplanation
from engine.history.budgets import TenantBudgetStatus
from engine.history.dead_letters import Letter
from engine.history.diff import Change
from engine.history.errors import AmbiguousError, HistoryError, NotFoundError, TokenError, UnopenedError
from engine.history.event_filter import Selection
from engine.history.explanation import Explanation
from engine.history.listing import Filter, JobLine
from engine.history.preemptions import NoticeView
from engine.history.status import ShardStatus
from engine.history.timeline import Timeline
from engine.history.verify import Verdict
from engine.history.view import JobView
from engine.log.errors import LogError
from engine.scheduling.errors import ConfigurationError
from engine.scheduling.status import GroupStatus, NodeStatus, PodStatus, QueueStatus, QuotaStatus, TenantStatus
from engine.simulation import SimulationError
from engine.simulation.comparison import Comparison, Figure
from statemachines.errors import LaharError, UnknownNameError

__all__ = [
    "AdjustmentExplanation",
    "AlreadyExistsError",
    "AmbiguousError",
    "AppliedObject",
    "Bill",
    "Bills",
    "Change",
    "ClusterAsOf",
    "Comparison",
    "ConfigurationError",
    "Event",
    "Events",
    "Explanation",
    "ExportError",
    "Fault",
    "Figure",
    "Filter",
    "Finding",
    "GroupStatus",
    "HistoryError",
    "Ingested",
    "Invoice",
    "JobLine",
    "JobView",
    "Lahar",
    "LaharError",
    "Letter",
    "LogError",
    "NodeStatus",
    "NotFoundError",
    "NoticeView",
    "PeriodError",
    "PodStatus",
    "Preemptions",
    "QueueStatus",
    "QuotaStatus",
    "Record",
    "RecordExplanation",
    "RequestError",
    "Scheduling",
    "Selection",
    "ShardStatus",
    "SimulationError",
    "Taken",
    "TenantBudgetStatus",
    "TenantStatus",
    "Timeline",
    "TokenError",
    "Unfinished",
    "UnknownNameError",
    "UnopenedError",
    "Verdict",
    "__version__",
    "open",
]

_FORMER: Final = {"BudgetStanding": "TenantBudgetStatus"} | {
    f"{what}Standing": f"{what}Status" for what in ("Group", "Node", "Pod", "Queue", "Quota", "Tenant")
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return former(sys.modules[__name__], name, _FORMER)
