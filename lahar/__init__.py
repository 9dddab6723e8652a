"""Lahar as a library: open a log, submit, query, subscribe.

    import lahar

    with lahar.open("sqlite:./lahar.db") as log:
        log.submit(manifest)
        print(log.why("default/train").headline)

Names exported here keep their meaning within a major version; see docs/library.md.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from engine import __version__
from engine.former_names import former

if TYPE_CHECKING:
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

_NAMES: Final = {
    "engine.application.apply": "AppliedObject",
    "engine.application.billing": "Bills PeriodError",
    "engine.application.client": "Lahar",
    "engine.application.errors": "AlreadyExistsError RequestError",
    "engine.application.feed": "Taken",
    "engine.application.ingestion": "Ingested",
    "engine.application.opening": "open",
    "engine.application.preemptions": "Preemptions",
    "engine.application.scheduling": "Scheduling",
    "engine.application.subscription": "Events",
    "engine.billing.exports.errors": "ExportError",
    "engine.billing.invoice": "Bill Invoice",
    "engine.billing.records": "Record",
    "engine.events": "Event",
    "engine.events.outcomes": "Fault",
    "engine.history.asof": "ClusterAsOf",
    "engine.history.billing": "Finding Unfinished",
    "engine.history.billing_explanation": "AdjustmentExplanation RecordExplanation",
    "engine.history.budgets": "TenantBudgetStatus",
    "engine.history.dead_letters": "Letter",
    "engine.history.diff": "Change",
    "engine.history.errors": "AmbiguousError HistoryError NotFoundError TokenError UnopenedError",
    "engine.history.event_filter": "Selection",
    "engine.history.explanation": "Explanation",
    "engine.history.listing": "Filter JobLine",
    "engine.history.preemptions": "NoticeView",
    "engine.history.status": "ShardStatus",
    "engine.history.timeline": "Timeline",
    "engine.history.verify": "Verdict",
    "engine.history.view": "JobView",
    "engine.log.errors": "LogError",
    "engine.scheduling.errors": "ConfigurationError",
    "engine.scheduling.status": "GroupStatus NodeStatus PodStatus QueueStatus QuotaStatus TenantStatus",
    "engine.simulation": "SimulationError",
    "engine.simulation.comparison": "Comparison Figure",
    "statemachines.errors": "LaharError UnknownNameError",
}
"""Exported names by module; a module is imported on the first use of one of its names."""
_PLACES: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

_FORMER: Final = {"BudgetStanding": "TenantBudgetStatus"} | {
    f"{what}Standing": f"{what}Status" for what in ("Group", "Node", "Pod", "Queue", "Quota", "Tenant")
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _PLACES:
            return former(sys.modules[__name__], name, _FORMER)
        return getattr(import_module(_PLACES[name]), "open_lahar" if name == "open" else name)

    def __dir__() -> list[str]:
        return __all__
