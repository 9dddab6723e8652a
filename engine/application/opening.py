"""Opening a log from a Python program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from engine.application.client import Lahar
from engine.application.errors import RequestError
from engine.arguments import checked
from engine.effects.errors import CallbackError
from engine.effects.registry import load
from engine.events.fault_messages import faults_of
from engine.runtime.opening import is_shared, open_log
from engine.runtime.settings import DEFAULT_LOG, Settings
from engine.runtime.stages import scheduling as scheduling_stage
from engine.scheduling.errors import ConfigurationError


@checked
def open_lahar(
    log: str = DEFAULT_LOG,
    *,
    cluster: str = "default",
    create: bool = True,
    readonly: bool = False,
    process: bool = True,
    max_replicas: int | None = None,
    services: Sequence[str] = (),
    forget_after: str | int | None = None,
    orphan_wait: str | int | None = None,
    decide_limit: str | int | None = None,
    billing: bool = True,
    scheduling: bool = True,
    scheduler_config: str | Path | None = None,
    callbacks: Sequence[str] = (),
    accelerators: Mapping[str, str | float] | None = None,
) -> Lahar:
    """Open a log.

    Args:
        log: `sqlite:PATH`, `memory:` or `kafka://HOST:PORT`.
        cluster: cluster of the objects and jobs that this program appends.
        create: create the file if it does not exist.
        readonly: reject writes.
        process: process inputs here, unless another process runs the log.
        max_replicas: this and the following as in `lahar.toml` (which is not read), with the same defaults.
        services: kinds whose pods are services.
        forget_after: `30d`, `1h30m`, or seconds.
        orphan_wait: as `forget_after`.
        decide_limit: as `forget_after`.
        billing: run the billing stage too.
        scheduling: run the scheduling stage too.
        scheduler_config: file with actions and plugins; default Volcano's.
        callbacks: names of modules with callbacks.
        accelerators: resource → GPUs of a unit.

    Raises:
        RequestError: the URL is malformed, or a setting is invalid: its type, its value, a file or a module that it names.
        LogError: the log cannot be opened; the text says what to do.
    """
    given = {
        "log": log,
        "cluster": cluster,
        "max_replicas": max_replicas,
        "services": services,
        "forget_after": forget_after,
        "orphan_wait": orphan_wait,
        "decide_limit": decide_limit,
        "billing": billing,
        "scheduling": scheduling,
        "scheduler_config": scheduler_config,
        "callbacks": callbacks,
        "accelerators": None if accelerators is None else dict(accelerators),
    }
    try:
        settings = Settings.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise RequestError(faults_of(error)) from None
    try:
        if settings.scheduler_config is not None:
            scheduling_stage(settings)
        if process and not readonly and not is_shared(log):
            load(settings.callbacks)
    except (ConfigurationError, CallbackError) as error:
        raise RequestError(str(error)) from None
    try:
        target = open_log(log, create=create and not readonly and not is_shared(log), readonly=readonly)
    except ValueError as error:
        raise RequestError(str(error)) from None
    return Lahar(target, settings, process=process)
