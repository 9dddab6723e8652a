"""Settings of a deployment and their precedence: `--log`, then `LAHAR_LOG`, then a configuration file, then the default.

The file is the one in `--config` or `LAHAR_CONFIG`. Without these, `lahar.toml` is read from `/etc/lahar`, from `lahar` in the
user's configuration folder (`$XDG_CONFIG_HOME`, `~/.config`) and from the working directory; keys of later files take precedence.
The file in the working directory loads no code: its `callbacks` are ignored. It cannot redirect credentials either: if the
environment has a login to Kafka, hosts that only this file names are rejected.

    log = "sqlite:./lahar.db"
    cluster = "prod-1"
    forget_after = "30d"
    orphan_wait = "60s"
    max_replicas = 20000
    services = ["Notebook", "LeaderWorkerSet"]
    callbacks = ["my_platform.callbacks"]
    log_format = "json"
    ready_lag = "60s"
    decide_limit = "60s"
    billing = true
    scheduling = true
    scheduler_config = "volcano-scheduler.conf"

    [accelerators]
    "nvidia.com/gpu.shared" = "1/4"

`LAHAR_LOG_FORMAT`, `LAHAR_READY_LAG`, `LAHAR_DECIDE_LIMIT`, `LAHAR_BILLING`, `LAHAR_SCHEDULING` and `LAHAR_SCHEDULER_CONFIG`
override the keys of these names. Relative paths in a file start at the file's folder.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

from engine.events.bounds import INT32, REPLICAS
from engine.events.fault_messages import faults_of, message_of
from engine.events.times import SECOND, Duration
from engine.events.values import Name
from engine.kubernetes.reading.accelerators import BUILT_IN, Accelerators
from engine.kubernetes.reading.durations import parse_duration
from engine.log.url import must_name_no_login
from engine.processor.watchdog import DECIDE_SECONDS

LogFormat = Literal["text", "json"]
FILE_NAME: Final = "lahar.toml"
DEFAULT_LOG: Final = "sqlite:./lahar.db"
_SYSTEM: Final = Path("/etc/lahar") / FILE_NAME
_LARGEST: Final = 64 << 10
"""Maximum size of a configuration file (bytes)."""
_DOTS: Final = 200
"""Maximum number of dots in a line: each part of a dotted key is a table, and the TOML reader stores the path of each."""

_KAFKA: Final = "kafka://"

_CREDENTIALS: Final = frozenset(
    {
        "KAFKA_SASL_USERNAME",
        "KAFKA_SASL_PASSWORD",
        "KAFKA_SASL_TOKEN_PROVIDER",
        "KAFKA_SSL_CERTFILE",
        "KAFKA_SSL_KEYFILE",
        "KAFKA_SSL_KEYFILE_PASSWORD",
    }
)
"""Variables with credentials for brokers, in any letter case, as `streams.settings` reads them."""

_VARIABLES: Final = {
    "LAHAR_LOG_FORMAT": "log_format",
    "LAHAR_READY_LAG": "ready_lag",
    "LAHAR_DECIDE_LIMIT": "decide_limit",
    "LAHAR_BILLING": "billing",
    "LAHAR_SCHEDULING": "scheduling",
    "LAHAR_SCHEDULER_CONFIG": "scheduler_config",
}

_DAY: Final = 86_400 * SECOND
_DAYS: Final = re.compile(r"\d{1,6}d", re.ASCII)


def duration(value: object) -> int:
    """Parse a duration: `30d`, or Go's format (`1h30m`, `60s`); a whole number is in seconds.

    Returns:
        Microseconds.

    Raises:
        ValueError: the value is neither, or negative.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value * SECOND
    if isinstance(value, str) and _DAYS.fullmatch(value):
        return int(value[:-1]) * _DAY
    if isinstance(value, str) and not value.startswith("-"):
        return parse_duration(value)
    raise ValueError(f"{value!r} is not a length of time: write 30d, 1h30m, 60s or whole seconds")


def _accelerators(rows: object) -> Accelerators:
    """Parse the table of accelerators.

    Raises:
        ValueError: it is not a table, or a share is invalid.
    """
    if not isinstance(rows, dict) or not all(isinstance(share, str | int | float) for share in rows.values()):
        raise ValueError('write a table of resources: "nvidia.com/gpu.shared" = "1/4"')
    return Accelerators(rows)


class _File(BaseModel):
    """Keys of a configuration file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    log: str = DEFAULT_LOG
    """URL of the log: `sqlite:PATH`, `memory:`, `kafka://HOST:PORT`."""
    cluster: str = "default"
    """`clusterid` of inputs without one."""
    forget_after: Annotated[Duration, BeforeValidator(duration)] = 30 * _DAY
    """Time from a job's end until it leaves the engine's state; at least the retention of the inputs."""
    orphan_wait: Annotated[Duration, BeforeValidator(duration)] = 60 * SECOND
    """Time for which a pod waits for the unknown managed job that it names, before it becomes an observed job."""
    max_replicas: Annotated[int, Field(strict=True, ge=1, le=INT32)] = REPLICAS
    """Maximum number of replicas of a job."""
    services: tuple[Name, ...] = ()
    """Kinds of controllers whose pods are services, besides Kubernetes' own: their jobs have the kind `Other`. `Pod`: pods without
    controller."""
    billing: bool = True
    """Run the billing stage. After a pause it continues where it stopped."""
    scheduling: bool = True
    """Run the scheduling stage. Otherwise jobs with `schedulerName: lahar` wait for a process that runs it."""
    scheduler_config: Path | None = None
    """Scheduler configuration in Volcano's format (docs/scheduling.md). Default: Volcano's default."""
    callbacks: tuple[str, ...] = ()
    """Modules whose callbacks are registered, besides installed entry points."""
    log_format: LogFormat = "text"
    """Format of a long-running process's logs: `text` or `json`."""
    ready_lag: Annotated[Duration, BeforeValidator(duration)] = 60 * SECOND
    """Maximum wait of an input in a ready process (`/readyz`). A rolling update stops the next worker only after this one has
    caught up."""
    accelerators: Annotated[Accelerators, PlainValidator(_accelerators)] = Field(default_factory=lambda: BUILT_IN)
    """GPUs per unit by resource, or pattern with `*`, before Lahar's own table: `1`, `0.25`, `"1/7"`; `"device"`: not a GPU."""
    decide_limit: Annotated[Duration, BeforeValidator(duration), Field(ge=SECOND)] = round(DECIDE_SECONDS) * SECOND
    """Limit of processor time for one input or timer; beyond it the process ends, and the second time the input is parked or
    dropped. At least a second."""


class Settings(_File):
    """Settings of one run of the command."""

    home: Path | None = None
    """Folder of the file that names the callbacks, where their modules are searched first."""
    untrusted_callbacks: bool = False
    """True if `lahar.toml` in the working directory names callbacks, which are ignored."""


def load_settings(log: str | None, environment: Mapping[str, str], directory: Path, config: Path | None = None) -> Settings:
    """Load the settings.

    Args:
        log: option `--log`; `None` if it was not given.
        environment: environment variables; reads `LAHAR_LOG`, `LAHAR_CONFIG`, the variables above, and those for the user's
            configuration folder.
        directory: working directory.
        config: option `--config`; `None` if it was not given.

    Raises:
        ValueError: a file is not TOML, is too large, or has an unknown key or an invalid value (the text names file and key); a
            variable's value is invalid (the text names it); the log's URL holds a password; or credentials of the environment would
            be sent to hosts that only the working directory's file names.
        OSError: the file in `config` or `LAHAR_CONFIG` cannot be read.
    """
    named = config or (Path(environment["LAHAR_CONFIG"]) if environment.get("LAHAR_CONFIG") else None)
    values: dict[str, Any] = {}
    untrusted = ""
    if named is not None:
        values = _resolved(_read(named, str(named)), directory / named) | {"home": (directory / named).resolve().parent}
    else:
        trusted = [path for path in _trusted(environment) if path.is_file()]
        for path in trusted:
            found = _resolved(_read(path, str(path)), path)
            values |= found | ({"home": path.parent} if "callbacks" in found else {})
        here = directory / FILE_NAME
        if here.is_file() and not any(path.samefile(here) for path in trusted):
            found = _resolved(_read(here, FILE_NAME), here)
            values["untrusted_callbacks"] = bool(found.pop("callbacks", ()))
            untrusted = found.get("log", "") if found.get("log") != values.get("log") else ""
            values |= found
    chosen = log or environment.get("LAHAR_LOG")
    if chosen:
        values["log"] = chosen
    for variable, name in _VARIABLES.items():
        if given := environment.get(variable):
            values[name] = given
            try:
                Settings.model_validate({name: given})
            except ValidationError as error:
                raise ValueError(f"{variable}={given}: {message_of(error.errors(include_url=False)[0])}") from None
    settings = Settings.model_validate(values)
    must_name_no_login(settings.log)
    if untrusted and not chosen:
        _must_get_no_credentials(untrusted, environment)
    return settings


def _must_get_no_credentials(log: str, environment: Mapping[str, str]) -> None:
    """Check that a log named only in the working directory's file receives none of the user's credentials.

    Otherwise `lahar status` in another user's folder would log in at any host in that folder's file. Hosts in
    `KAFKA_BOOTSTRAP_SERVERS` are the user's own.
    """
    if not log.startswith(_KAFKA):
        return
    given = {name.upper(): value for name, value in environment.items() if value}
    held = sorted(_CREDENTIALS & given.keys())
    own = {host.strip() for host in given.get("KAFKA_BOOTSTRAP_SERVERS", "").split(",")} - {""}
    hosts = {host.strip() for host in log.removeprefix(_KAFKA).rstrip("/").split(",")} - {""}
    if held and not (own and hosts <= own):
        raise ValueError(
            f"./{FILE_NAME}: log = {log!r}: {', '.join(held)} would be sent to a host that only this file names; "
            f"if you trust it, give --log URL, LAHAR_LOG=URL or --config {FILE_NAME}"
        )


def _resolved(values: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return the values of a file with its relative paths resolved from its folder."""
    given = values.get("scheduler_config")
    return values if given is None else values | {"scheduler_config": file.resolve().parent / given}


def _trusted(environment: Mapping[str, str]) -> list[Path]:
    """Return the configuration files that only the user or the machine's administrator can have written."""
    own = environment.get("XDG_CONFIG_HOME") or (f"{environment['HOME']}/.config" if environment.get("HOME") else "")
    # The XDG specification ignores relative paths; one would be below the working directory.
    return [_SYSTEM, *([Path(own) / "lahar" / FILE_NAME] if Path(own).is_absolute() else [])]


def _read(path: Path, shown: str) -> dict[str, Any]:
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"{shown}: has more than {_LARGEST:,} bytes, too many for a configuration file")
    for number, line in enumerate(content.splitlines(), start=1):
        if line.count(b".") > _DOTS:
            raise ValueError(f"{shown}: line {number} has more than {_DOTS} dots, which no setting has")
    try:
        values = tomllib.loads(content.decode())
        _File.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"{shown}: {faults_of(error, _File.model_fields)}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{shown}: {error}") from None
    return values
