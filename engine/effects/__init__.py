"""Effects: callbacks on committed events, by consumers that distinguish live events from replays.

A module that declares callbacks needs only the names exported here.
"""

from engine.effects.errors import Disable, RetryLater
from engine.effects.notice import BudgetNotice, Notice
from engine.effects.registry import budget_callback, callback

__all__ = ["BudgetNotice", "Disable", "Notice", "RetryLater", "budget_callback", "callback"]
