"""What a deployment may set, and where it is set: `--log`, then `LAHAR_LOG`, then `lahar.toml`, then the default.

`lahar.toml` stands in the working directory:

    log = "sqlite:./lahar.db"
    cluster = "prod-1"
    forget_after = "30d"
    orphan_wait = "60s"
    callbacks = ["my_platform.callbacks"]
    log_format = "json"
    ready_lag = "60s"
    decide_limit = "60s"

`LAHAR_LOG_FORMAT`, `LAHAR_READY_LAG` and `LAHAR_DECIDE_LIMIT` win over the last three.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from engine.cli.errors import describe
from engine.cli.journal import LogFormat
from engine.events.times import SECOND, Duration
from engine.kubernetes.durations import parse_duration
from engine.log.url import must_name_no_login
from engine.log.watchdog import DECIDE_SECONDS

__all__ = ["DEFAULT_LOG", "FILE_NAME", "Settings", "duration", "load_settings"]

FILE_NAME: Final = "lahar.toml"
DEFAULT_LOG: Final = "sqlite:./lahar.db"

_VARIABLES: Final = {"LAHAR_LOG_FORMAT": "log_format", "LAHAR_READY_LAG": "ready_lag", "LAHAR_DECIDE_LIMIT": "decide_limit"}

_DAY: Final = 86_400 * SECOND
_DAYS: Final = re.compile(r"\d{1,6}d", re.ASCII)


def duration(value: object) -> int:
    """Read a length of time: `30d`, else as Go writes them (`1h30m`, `60s`); a whole number counts seconds.

    Returns:
        Microseconds.

    Raises:
        ValueError: it is neither, or negative.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value * SECOND
    if isinstance(value, str) and _DAYS.fullmatch(value):
        return int(value[:-1]) * _DAY
    if isinstance(value, str) and not value.startswith("-"):
        return parse_duration(value)
    raise ValueError(f"{value!r} is no length of time: write 30d, 1h30m, 60s or whole seconds")


class Settings(BaseModel):
    """What holds for one run of the command."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    log: str = DEFAULT_LOG
    """The log: `sqlite:PATH`, `memory:`, `kafka://HOST:PORT`."""
    cluster: str = "default"
    """`clusterid` of what is appended without one of its own."""
    forget_after: Annotated[Duration, BeforeValidator(duration)] = 30 * _DAY
    """How long after its end a job leaves the engine's state; never less than the retention of the inputs."""
    orphan_wait: Annotated[Duration, BeforeValidator(duration)] = 60 * SECOND
    """How long a pod that names an unknown managed job waits for it before it becomes an observed job."""
    callbacks: tuple[str, ...] = ()
    """Modules whose callbacks are registered, beside those of installed entry points."""
    log_format: LogFormat = "text"
    """How a process that goes on writes its logs: `text` or `json`."""
    ready_lag: Annotated[Duration, BeforeValidator(duration)] = 60 * SECOND
    """How long an input may wait in a process that is ready (`/readyz`). In a rolling update the next worker is not stopped
    before this one has caught up."""
    decide_limit: Annotated[Duration, BeforeValidator(duration), Field(ge=SECOND)] = round(DECIDE_SECONDS) * SECOND
    """Processor time that deciding one input or timer may take; then the process ends, and the second time it is set aside. At
    least a second."""


def load_settings(log: str | None, environment: Mapping[str, str], directory: Path) -> Settings:
    """Gather the settings.

    Args:
        log: the option `--log`; `None` if it was not given.
        environment: the process's environment; `LAHAR_LOG` and the variables above are read.
        directory: where `lahar.toml` is looked for; its absence is no error.

    Raises:
        ValueError: the file is no TOML, has an unknown key or a value that does not fit; the text names file and key. Or a
            variable's value does not fit; the text names it. Or the log's URL holds a password.
    """
    path = directory / FILE_NAME
    values: dict[str, Any] = {}
    if path.is_file():
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
            Settings.model_validate(values)
        except ValidationError as error:
            raise ValueError(f"{FILE_NAME}: {describe(error)}") from None
        except ValueError as error:
            raise ValueError(f"{FILE_NAME}: {error}") from None
    chosen = log or environment.get("LAHAR_LOG")
    if chosen:
        values["log"] = chosen
    for variable, name in _VARIABLES.items():
        if given := environment.get(variable):
            values[name] = given
            try:
                Settings.model_validate({name: given})
            except ValidationError as error:
                raise ValueError(f"{variable}={given}: {error.errors()[0]['msg']}") from None
    settings = Settings.model_validate(values)
    must_name_no_login(settings.log)
    return settings
