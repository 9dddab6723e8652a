"""List of stages: one process runs them in this order, and every command about stages uses it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from engine.billing.event_factory import STAGE as BILLING
from engine.billing.stage import BillingStage
from engine.budgets.stage import STAGE as BUDGETS
from engine.budgets.stage import BudgetsStage
from engine.lifecycle.stage import LifecycleStage
from engine.processor.stage import Stage
from engine.runtime.scheduler_config import load_configuration, load_plugins
from engine.runtime.settings import Settings
from engine.scheduling.configuration import Configuration
from engine.scheduling.errors import ConfigurationError
from engine.scheduling.stage import STAGE as SCHEDULING
from engine.scheduling.stage import SchedulingStage

__all__ = [
    "BILLING",
    "BILLING_OFF",
    "BUDGETS",
    "SCHEDULING",
    "SCHEDULING_OFF",
    "STAGES",
    "billing",
    "budgets",
    "lifecycle",
    "scheduling",
    "scheduling_by",
    "stages_of",
]

SCHEDULING_OFF: Final = "the scheduling stage is off here, by `scheduling = false` in a configuration file or by LAHAR_SCHEDULING"
"""Message of commands that need the scheduling stage."""
BILLING_OFF: Final = "the billing stage is off here, by `billing = false` in a configuration file or by LAHAR_BILLING"
"""Message of commands that need the billing stage."""


def lifecycle(settings: Settings) -> LifecycleStage:
    """Return the lifecycle stage as configured."""
    return LifecycleStage(
        forget_after=settings.forget_after,
        orphan_wait=settings.orphan_wait,
        max_replicas=settings.max_replicas,
        services=settings.services,
        accelerators=settings.accelerators,
    )


def billing(_settings: Settings) -> BillingStage:
    """Return the billing stage."""
    return BillingStage()


def budgets(_settings: Settings) -> BudgetsStage:
    """Return the budgets stage."""
    return BudgetsStage()


def scheduling(settings: Settings) -> SchedulingStage:
    """Return the scheduling stage as configured.

    Raises:
        ConfigurationError: the configuration cannot be used; the message names the file.
    """
    return scheduling_by(load_configuration(settings.scheduler_config), str(settings.scheduler_config))


def scheduling_by(configuration: Configuration, source: str) -> SchedulingStage:
    """Return the scheduling stage with a configuration.

    Raises:
        ConfigurationError: the configuration cannot be used; the message names its source.
    """
    try:
        return SchedulingStage(configuration, load_plugins(configuration), stopwatch=perf_counter)
    except ConfigurationError as error:
        raise ConfigurationError(f"{source}: {error}") from None


STAGES: Final[list[Callable[[Settings], Stage[Any]]]] = [lifecycle, scheduling, billing, budgets]
"""Factories of the stages."""


def stages_of(settings: Settings) -> list[Stage[Any]]:
    """Return all configured stages; without billing there is no usage to compare with budgets."""
    off: list[Callable[[Settings], Stage[Any]]] = []
    if not settings.billing:
        off += [billing, budgets]
    if not settings.scheduling:
        off.append(scheduling)
    return [make(settings) for make in STAGES if make not in off]
