"""Arguments and options shared by several commands."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from itertools import islice
from typing import Annotated, Final

import typer

from engine.application.arguments import wall_clock as now
from engine.application.errors import LogError
from engine.cli.app import settings_of
from engine.events.jobs import JobOpened
from engine.events.times import from_micros, to_micros
from engine.formatting import SHOWN_ZONE
from engine.history.reading import job_events
from engine.moments import parse_moment
from engine.runtime.opening import open_log

MOST_SHOWN: Final = 1_000_000_000
"""Largest `--limit`."""
_SUGGESTED: Final = 200
"""Most jobs offered for completion by a shell."""


def date_time(text: str) -> datetime:
    """Return a moment given on the command line; a time without an offset is of the zone of `--tz`.

    Raises:
        ValueError: see `parse_moment`.
    """
    return parse_moment(text, from_micros(now()), SHOWN_ZONE.get())


def moment(text: str) -> int:
    """Return a moment given on the command line (microseconds); as `date_time`."""
    return to_micros(date_time(text))


def recorded_at(at: str | None) -> int:
    """Return the recorded time of an input (microseconds): that of `--at`, or now."""
    return now() if at is None else moment(at)


def _complete_job(context: typer.Context, incomplete: str) -> list[str]:
    """Return the jobs for a completion, by name or, for the beginning of an id, by id. On any error, none."""
    try:
        settings = settings_of(context, context.params.get("log"))
        with closing(open_log(settings.log, create=False, readonly=True)) as log:
            names: dict[str, None] = {}
            for event in job_events(log, {JobOpened.TYPE}):
                if isinstance(event.data, JobOpened):
                    names[f"{event.data.namespace}/{event.data.name}"] = None
                    if incomplete:
                        names[event.subject] = None
            return list(islice((name for name in names if name.startswith(incomplete)), _SUGGESTED))
    except (LogError, ValueError, OSError):
        return []


def several(given: list[str] | None) -> frozenset[str]:
    """Return the values of an option that may be repeated or hold several, separated by commas.

    Raises:
        ValueError: one is empty, so nothing could have it.
    """
    values = frozenset(value.strip() for text in given or () for value in text.split(","))
    if "" in values:
        raise ValueError("a phase or a reason is empty: leave the option out, or write names, a,b")
    return values


def in_order(first: str | None, last: str | None, options: str) -> tuple[int | None, int | None]:
    """Return the moments of two options (microseconds); `None`: it was not given.

    Args:
        first: from when.
        last: until when.
        options: what they are called, for the error: `--since is later than --until`.

    Raises:
        ValueError: one is not a time, or the first is later than the last.
    """
    begin, end = (None if text is None else moment(text) for text in (first, last))
    if begin is not None and end is not None and begin > end:
        raise ValueError(f"{options} ({first}, {last}): nothing lies between")
    return begin, end


_JOB_HELP: Final = (
    "Job id, a unique prefix of it, namespace/name, or namespace/name@id; before a name, the cluster/ where there are several. "
    "The name alone where one namespace has it."
)

JobArgument = Annotated[
    str,
    typer.Argument(metavar="JOB", help=_JOB_HELP, autocompletion=_complete_job),
]
OptionalJob = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB",
        help=f"{_JOB_HELP} Without it: the whole cluster.",
        autocompletion=_complete_job,
    ),
]
ClusterOption = Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Only jobs of this cluster.")]
NamespaceOption = Annotated[str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Only jobs of this namespace.")]
PhasesOption = Annotated[
    list[str] | None, typer.Option("--phase", metavar="PHASE", help="Only changes to these phases, at any level; a,b or repeated.")
]
ReasonsOption = Annotated[
    list[str] | None, typer.Option("--reason", metavar="REASON", help="Only events with these reasons; a,b or repeated.")
]
NodeOption = Annotated[str | None, typer.Option("--node", metavar="NAME", help="Only events that name this node.")]
JobOption = Annotated[str | None, typer.Option("--job", metavar="JOB", help="Only this job.", autocompletion=_complete_job)]
ById = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="Id of the command; giving one twice for a job changes nothing.")
]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Kept in the history.")]
By = Annotated[str, typer.Option("--by", metavar="USER", help="Who asks; kept in the history.")]
NoProcessOption = Annotated[
    bool,
    typer.Option(
        "--no-process",
        help="Only append; the next command, or `lahar run`, processes it. On Kafka it is always so: workers process.",
    ),
]
RecordedOption = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="Record it at this time instead of now (to play a recorded story).")
]

MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve /metrics, /healthz and /readyz there, without a host on 127.0.0.1 only; port 0 takes a free one.",
    ),
]
