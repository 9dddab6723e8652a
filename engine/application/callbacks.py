"""Callbacks of a log: their status as recorded, and the resume of a disabled one."""

from __future__ import annotations

from engine.effects.callback_status import StoredStatus, stored_statuses
from engine.effects.dispatcher import Dispatcher
from engine.effects.registry import Registry
from engine.log.port import SearchableLog
from engine.log.producer_time import wall_clock
from engine.runtime.callbacks import registered
from engine.runtime.principal import principal_of
from engine.runtime.settings import Settings

__all__ = ["StoredStatus", "registered", "resume", "stored_statuses"]


def resume(log: SearchableLog, settings: Settings, registry: Registry, name: str) -> None:
    """Resume a disabled callback with the notice that failed.

    Args:
        log: writable.
        settings: of this process.
        registry: the registered callbacks.
        name: which callback.

    Raises:
        NotDisabledError: it is not disabled.
    """
    now = wall_clock()
    dispatcher = Dispatcher(log, registry, started=now)
    dispatcher.principal = principal_of(settings.log)
    dispatcher.resume(name, now)
