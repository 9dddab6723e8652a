"""Answers in a terminal that need more than one table or sentence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.columns import Columns
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from engine.cli.escaping import visible
from engine.cli.output import Output
from engine.formatting import length, moment

if TYPE_CHECKING:
    from lahar import JobView

_TOP = 8
"""Users and queues shown before the rest is counted."""
_GAP = 2
"""Width of the gap between two columns of a table."""
_NAME = 20
"""Shortest length of a shortened name (characters)."""
_UNBOUNDED = 1 << 20


def render_job(output: Output, job: JobView) -> None:
    """Show a job's state: identity, tasks, attempts and timers."""
    output.console.print(Text.assemble((f"{job.namespace}/{job.name}", "bold"), (f"  {job.id}", "dim")), soft_wrap=True)
    control = "managed" if job.managed else "observed"
    whose = f"queue {job.queue}, user {job.user or '-'}, tenant {job.tenant or '-'}, cluster {job.cluster}"
    whose += f", project {job.project}" if job.project else ""
    output.console.print(f"{job.kind}, {control}, {whose}", soft_wrap=True)
    reason = f" ({job.reason})" if job.reason else ""
    counts = f"restarts {job.restarted}, retries {job.retry_count}"
    output.console.print(Text.assemble((job.phase, "bold"), f"{reason} since {moment(job.since)}; {counts}"), soft_wrap=True)
    if job.parked is not None:
        output.console.print(f"parked: {job.parked}; `lahar job unpark {job.id}` resumes it", soft_wrap=True)
    tasks = _table("TASK", "PHASE", "REASON", "REPLICAS", "MINIMUM")
    for task in job.tasks.values():
        tasks.add_row(task.name, task.phase, task.reason or "-", str(task.replicas), _known(task.min_available))
    rows = []
    for attempt in job.attempts.values():
        ran = None if attempt.running is None or attempt.ended is None else length(attempt.ended - attempt.running)
        known = (attempt.reason, attempt.exit_code, attempt.node, attempt.restarts, ran, attempt.pod or None)
        rows.append([attempt.name, attempt.phase, *map(_known, known)])
    headings = ("ATTEMPT", "PHASE", "REASON", "EXIT", "NODE", "RESTARTS", "RAN", "POD")
    attempts = whole_table(output, headings, rows, {"NODE", "POD"})
    timers = _table("TIMER", "DUE", "ACTION", "POLICY")
    for timer in job.timers.values():
        timers.add_row(timer.kind, "stopped" if timer.held else moment(timer.due), _known(timer.action), _known(timer.policy))
    for table in (tasks, attempts, timers):
        if table.row_count:
            output.console.print("", table, soft_wrap=True)


def whole_table(
    output: Output, headings: Sequence[str], rows: Sequence[Sequence[str]], names: Collection[str], right: Collection[str] = ()
) -> Table:
    """Return a table without cut columns: if it is wider than the output, names are shortened in the middle.

    If it still does not fit (an output of 60 columns, say), the terminal wraps it.

    Args:
        output: output of the command.
        headings: headings of the columns.
        rows: one cell per column.
        names: headings of columns whose cells may be of any length.
        right: headings of right-aligned columns.
    """
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headings, *shown, strict=True)]
    excess = sum(widths) + _GAP * (len(widths) - 1) - output.console.width
    for column, heading in enumerate(headings):
        if heading in names and excess > 0:
            most = max(widths[column] - excess, _NAME)
            excess -= max(widths[column] - most, 0)
            for row in shown:
                row[column] = _shortened(row[column], most)
    table = _table(*headings)
    for made in table.columns:
        made.justify = "right" if made.header in right else "left"
    for row in shown:
        table.add_row(*(Text(cell) for cell in row))
    table.width = output.console.measure(table, options=output.console.options.update(width=_UNBOUNDED)).maximum
    return table


def _shortened(name: str, most: int) -> str:
    half = (most - 1) // 2
    return name if cell_len(name) <= most else f"{name[: most - 1 - half]}…{name[len(name) - half :]}"


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _known(value: object) -> str:
    return "-" if value is None else str(value)


def render_summary(output: Output, result: dict[str, Any]) -> None:
    """Show the result of `Summary` on a page."""
    totals = _pairs(
        [
            ("jobs", _count(result["jobs"])),
            ("attempts", _count(result["attempts"])),
            ("GPU hours", _hours(result["gpu_seconds"])),
            ("GPU hours, shared", _hours(result["gpu_share_seconds"])),
            ("core hours", _hours(result["cpu_seconds"])),
            *_so_far(result),
            ("peak GPUs", f"{result['peak_gpus']['value']} at {result['peak_gpus']['time']}"),
            *[(f"{name}, not billed", f"{_hours(used['unit_seconds'])} unit hours") for name, used in result["not_billed"].items()],
            ("never started", _count(result["never_started"])),
            ("without end", _count(result["without_end"])),
            ("rejected rows", _count(result["rejected_rows"])),
        ]
    )
    output.console.print(Panel(totals, title="In the log", expand=False, title_align="left"))
    output.console.print(
        Columns(
            [
                _counts("Jobs by phase", result["jobs_by_phase"]),
                _counts("Attempts by phase", result["attempts_by_phase"]),
                _counts("Attempts by reason", result["attempts_by_reason"]),
                _spread("Wait", result["wait_seconds"]),
                _spread("Run", result["run_seconds"]),
            ]
        )
    )
    for title, key in (("cluster", "by_cluster"), ("queue", "by_queue"), ("user", "by_user")):
        if key in result:
            output.console.print(_groups(title, result[key], open_too=result["open_attempts"] > 0))


def _so_far(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the use of open attempts, if there are any."""
    uses = [("GPU hours so far", "gpu_seconds_so_far"), ("core hours so far", "cpu_seconds_so_far")]
    rows = [("open attempts", _count(result["open_attempts"])), *((name, _hours(result[key])) for name, key in uses)]
    return rows if result["open_attempts"] else []


def _pairs(rows: list[tuple[str, str]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="cyan")
    table.add_column(justify="right")
    for name, value in rows:
        table.add_row(name, value)
    return table


def _counts(title: str, counts: dict[str, int]) -> Panel:
    rows = sorted(counts.items(), key=lambda item: -item[1])
    return Panel(_pairs([(name or "-", _count(count)) for name, count in rows]), title=title, expand=False, title_align="left")


def _spread(title: str, spread: dict[str, Any]) -> Panel:
    rows = [("n", _count(spread["n"]))]
    rows += [(name, _length(spread[name])) for name in ("mean", "median", "p99", "max")]
    return Panel(_pairs(rows), title=title, expand=False, title_align="left")


def _groups(title: str, groups: dict[str, dict[str, Any]], *, open_too: bool) -> Table:
    table = Table(box=None, pad_edge=False, title_justify="left")
    table.add_column(title, style="cyan")
    uses = ["gpu_seconds", "cpu_seconds", *(["gpu_seconds_so_far", "cpu_seconds_so_far"] if open_too else [])]
    for heading in ("jobs", "attempts", "GPU hours", "core hours", "GPU hours so far", "core hours so far")[: 2 + len(uses)]:
        table.add_column(heading, justify="right")
    ranked = sorted(groups.items(), key=lambda item: (-item[1]["gpu_seconds"], -item[1]["jobs"], item[0]))
    for name, group in ranked[:_TOP]:
        table.add_row(
            name or "(none)",
            _count(group["jobs"]),
            _count(group["attempts"]),
            *(_hours(group[use]) for use in uses),
        )
    if len(ranked) > _TOP:
        table.add_row(f"… and {len(ranked) - _TOP} more", style="dim")
    return table


def _count(number: int) -> str:
    return f"{number:,}"


def _hours(seconds: Decimal) -> str:
    return f"{seconds / 3600:,.1f}"


def _length(seconds: Decimal | None) -> str:
    return "-" if seconds is None else length(int(seconds * 1_000_000))
