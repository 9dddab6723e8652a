"""Logs of long-running processes on standard error, one line per record, as text or as JSON.

A JSON line has `time`, `level`, `logger` and `message`, and the known ones of `shard`, `job`, `event_id`, `correlation_id`,
`cause`, `callback`, `topic`, `partition`, `offset`, `reason`, `seconds`, `events`; for an exception `error` (its class) and
`traceback`.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

import typer

from engine.cli.escaping import visible

if TYPE_CHECKING:
    from engine.runtime.settings import LogFormat

_OURS: Final = ("engine", "streams", "lahar")
"""Loggers that are written from level INFO; others from WARNING."""

_MUTED: Final = "aiokafka"
"""Muted logger: it logs each attempt to reach a broker. Lahar logs the resulting exception once."""

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_logger: Final = logging.getLogger("engine.runtime.logging_config")  # what reads these lines may know it by this name


class _Lines(logging.StreamHandler[TextIO]):
    """Handler for the current standard error."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(formatter)
        self.addFilter(lambda record: record.name.partition(".")[0] != _MUTED)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        """Ignore the stream of the base class."""


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802  as logging has it
        return _time(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  as logging has it
        return visible(super().formatMessage(record))


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD and not name.startswith("_")}
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = record.exc_info[0].__name__
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def written(form: LogFormat) -> Iterator[None]:
    """Write logs to standard error during a `with` block; as JSON, also the error that ends it.

    Raises:
        typer.Exit: as JSON, the block failed; the last line has the reason.
    """
    handler = _Lines(_Json() if form == "json" else _Text())
    root = logging.getLogger()
    before = {name: logging.getLogger(name).level for name in _OURS}
    root.addHandler(handler)
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    try:
        yield
    except Exception as error:
        from engine.cli.exit_codes import describe, exit_code  # noqa: PLC0415 - imports the errors

        if form != "json" or isinstance(error, typer.Exit):
            raise
        _logger.error("%s", describe(error), extra={"error": type(error).__name__})  # noqa: TRY400  the traceback is for LAHAR_DEBUG
        raise typer.Exit(exit_code(error)) from error
    finally:
        root.removeHandler(handler)
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def is_json() -> bool:
    """Return true if standard error has JSON lines, so that nothing else may be written to it."""
    return any(isinstance(handler.formatter, _Json) for handler in logging.getLogger().handlers)
