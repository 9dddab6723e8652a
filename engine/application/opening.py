"""Opening a log from a Python program."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from engine.application.client import Lahar
from engine.runtime.errors import describe
from engine.runtime.opening import is_shared, open_log
from engine.runtime.settings import DEFAULT_LOG, Settings

__all__ = ["open_lahar"]


def open_lahar(
    log: str = DEFAULT_LOG,
    *,
    cluster: str = "default",
    create: bool = True,
    readonly: bool = False,
    process: bool = True,
    max_replicas: int | None = None,
    forget_after: str | int | None = None,
    orphan_wait: str | int | None = None,
    decide_limit: str | int | None = None,
    billing: bool = True,
    callbacks: Sequence[str] = (),
) -> Lahar:
    """Open a log.

    Args:
        log: `sqlite:PATH`, `memory:` or `kafka://HOST:PORT`.
        cluster: whose objects and jobs are put in.
        create: make a file that is not there.
        readonly: only ask.
        process: process what is put in, unless somebody else runs the log.
        max_replicas: this and what follows as in `lahar.toml`, which is not read; the same default.
        forget_after: `30d`, `1h30m`, or seconds.
        orphan_wait: the same.
        decide_limit: the same.
        billing: the same: run the billing stage as well.
        callbacks: modules.

    Raises:
        ValueError: the URL is of no known form, or a setting does not fit.
        LogError: the log cannot be opened; the text says what to do.
    """
    given = {
        "log": log,
        "cluster": cluster,
        "max_replicas": max_replicas,
        "forget_after": forget_after,
        "orphan_wait": orphan_wait,
        "decide_limit": decide_limit,
        "billing": billing,
        "callbacks": tuple(callbacks),
    }
    try:
        settings = Settings.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise ValueError(describe(error)) from None
    target = open_log(log, create=create and not readonly and not is_shared(log), readonly=readonly)
    return Lahar(target, settings, process=process)
