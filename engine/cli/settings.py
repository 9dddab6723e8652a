"""What a deployment may set, and where it is set: `--log`, then `LAHAR_LOG`, then `lahar.toml`, then the default.

`lahar.toml` stands in the working directory:

    log = "sqlite:./lahar.db"
    cluster = "prod-1"
    forget_after = "30d"
    orphan_wait = "60s"
    callbacks = ["my_platform.callbacks"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from engine.cli.errors import describe
from engine.events.times import SECOND, Duration

__all__ = ["DEFAULT_LOG", "FILE_NAME", "Settings", "duration", "load_settings"]

FILE_NAME: Final = "lahar.toml"
DEFAULT_LOG: Final = "sqlite:./lahar.db"

_LOG_FORMS: Final = re.compile(r"sqlite:.+|memory:|kafka://[^/\s]+:\d+(,[^/\s]+:\d+)*")
_UNITS: Final = {"us": 1, "ms": 1_000, "s": SECOND, "m": 60 * SECOND, "h": 3_600 * SECOND, "d": 86_400 * SECOND}
_PART: Final = re.compile(r"(\d+)(us|ms|s|m|h|d)")


def duration(value: object) -> int:
    """Read a length of time: `30d`, `1h30m`, `60s`, `250ms`; a whole number counts seconds.

    Returns:
        Microseconds.

    Raises:
        ValueError: it is neither, or negative.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value * SECOND
    if isinstance(value, str) and value and not _PART.sub("", value):
        return sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(value))
    raise ValueError(f"{value!r} is no length of time: write 30d, 1h30m, 60s or whole seconds")


def _log_url(value: str) -> str:
    if not _LOG_FORMS.fullmatch(value):
        raise ValueError(f"{value!r} names no log: write sqlite:PATH, memory: or kafka://HOST:PORT")
    return value


class Settings(BaseModel):
    """What holds for one run of the command."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    log: Annotated[str, AfterValidator(_log_url)] = DEFAULT_LOG
    """The log: `sqlite:PATH`, `memory:`, `kafka://HOST:PORT`."""
    cluster: str = "default"
    """`clusterid` of what is appended without one of its own."""
    forget_after: Annotated[Duration, BeforeValidator(duration)] = 30 * 86_400 * SECOND
    """How long after its end a job leaves the engine's state; never less than the retention of the inputs."""
    orphan_wait: Annotated[Duration, BeforeValidator(duration)] = 60 * SECOND
    """How long a pod that names an unknown managed job waits for it before it becomes an observed job."""
    callbacks: tuple[str, ...] = ()
    """Modules whose callbacks are registered, beside those of installed entry points."""


def load_settings(log: str | None, environment: Mapping[str, str], directory: Path) -> Settings:
    """Gather the settings.

    Args:
        log: the option `--log`; `None` if it was not given.
        environment: the process's environment; `LAHAR_LOG` is read.
        directory: where `lahar.toml` is looked for; its absence is no error.

    Raises:
        ValueError: the file is no TOML, has an unknown key or a value that does not fit; the text names file and key.
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
    return Settings.model_validate(values)
