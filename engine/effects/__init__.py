"""Effects: what is done in the world because of committed events, by consumers that know whether they are live.

A module that declares callbacks needs no more than what this package shows.
"""

from engine.effects.errors import Disable, RetryLater
from engine.effects.notice import Notice
from engine.effects.registry import callback

__all__ = ["Disable", "Notice", "RetryLater", "callback"]
