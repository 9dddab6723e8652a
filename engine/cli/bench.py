"""`lahar bench`: measure the budgets of this release on this machine."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.table import Table

from engine.cli.app import JsonOption, Panel, app, output_of
from engine.runtime.errors import FINDING

__all__ = ["Budget", "Measured", "bench", "measure"]

_BENCHMARKS: Final = Path(__file__).parents[2] / "benchmarks"
"""The measures are part of a checkout, not of an installation."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a measure."""

    value: float
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """One measure, its budget, and how it is taken."""

    name: str
    unit: str
    about: str
    limit: float | None
    """`None`: reported only."""
    sense: Literal["at least", "at most"]
    take: Callable[[], Measured]
    runs: int = 3

    def met(self, value: float) -> bool | None:
        """Return whether a value is within the budget; `None`: there is no budget."""
        if self.limit is None:
            return None
        return value >= self.limit if self.sense == "at least" else value <= self.limit


def measure(budget: Budget, runs: int | None = None) -> dict[str, Any]:
    """Take a measure and return its record: the median of the runs, and the floor's.

    Args:
        budget: the measure.
        runs: number of runs; default that of the measure.
    """
    taken = [budget.take() for _ in range(runs or budget.runs)]
    values = sorted(run.value for run in taken)
    value = statistics.median(values)
    floors = [run.floor for run in taken if run.floor is not None]
    return {
        "measure": budget.name,
        "value": _round(value),
        "unit": budget.unit,
        "floor": _round(statistics.median(floors)) if floors else None,
        "budget": budget.limit,
        "met": budget.met(value),
        "runs": len(taken),
        "spread": _round((values[-1] - values[0]) / value) if value else 0.0,
    }


def _round(number: float) -> float:
    return float(f"{number:.4g}")


def _measures() -> dict[str, Budget]:
    """Return the measures by name.

    Raises:
        ValueError: this is not a checkout.
    """
    if not (_BENCHMARKS.parent / "pyproject.toml").is_file() or not (_BENCHMARKS / "budgets.py").is_file():
        raise ValueError("an installed Lahar has no benchmarks: run `make bench` in a checkout of its sources")
    sys.path.insert(0, str(_BENCHMARKS))
    return {budget.name: budget for budget in import_module("budgets").MEASURES}


def _complete(incomplete: str) -> list[str]:
    return [name for name in _measures() if name.startswith(incomplete)]


@app.command(rich_help_panel=Panel.TOOLS)
def bench(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="Only these measures.", autocompletion=_complete)
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Runs of each measure; the median counts.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure speed, memory and pauses beside their budgets; exit code 1 if one is not met.

    The measures are not installed with Lahar: this works in a checkout of its sources.
    """
    output = output_of(context, as_json)
    known = _measures()
    for name in names or []:
        if name not in known:
            raise ValueError(f"no measure {name!r}; there are {', '.join(known)}")
    missed = False
    table = Table(box=None, pad_edge=False)
    for heading in ("MEASURE", "VALUE", "UNIT", "FLOOR", "BUDGET", "MET", "SPREAD"):
        table.add_column(heading, justify="left" if heading in {"MEASURE", "UNIT", "MET"} else "right")
    for name in names or known:
        with output.progress("") as progress:
            progress.add_task(f"{name}: {known[name].about}", total=None)
            record = measure(known[name], runs)
        missed |= record["met"] is False
        if output.as_json:
            output.record(record)
            output.flush()
        else:
            table.add_row(*_row(known[name], record))
    if not output.as_json:
        output.console.print(table)
    if missed:
        raise typer.Exit(FINDING)


def _row(budget: Budget, record: dict[str, Any]) -> list[str]:
    limit = "-" if budget.limit is None else f"{'≥' if budget.sense == 'at least' else '≤'} {budget.limit:,g}"
    met = {True: "yes", False: "NO", None: "-"}[record["met"]]
    floor = "-" if record["floor"] is None else f"{record['floor']:,g}"
    return [budget.name, f"{record['value']:,g}", budget.unit, floor, limit, met, f"{record['spread']:.0%}"]
