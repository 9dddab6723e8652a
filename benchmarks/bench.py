"""`lahar bench`: take measures and print them beside their budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from budgets import MEASURES
from measures import Budget, measure
from rich.table import Table

from engine.cli.output import Output

BUDGETS: Final = {budget.name: budget for budget in MEASURES}


def bench(output: Output, names: Sequence[str], runs: int | None) -> bool:
    """Take measures, print them, and return whether all budgets are met.

    Args:
        output: where they are printed.
        names: the measures; none: all.
        runs: runs of each; `None`: those that it has.

    Raises:
        ValueError: there is no such measure.
    """
    for name in names:
        if name not in BUDGETS:
            raise ValueError(f"no measure {name!r}; there are {', '.join(BUDGETS)}")
    missed = False
    table = Table(box=None, pad_edge=False)
    for heading in ("MEASURE", "VALUE", "UNIT", "FLOOR", "BUDGET", "MET", "SPREAD"):
        table.add_column(heading, justify="left" if heading in {"MEASURE", "UNIT", "MET"} else "right")
    for name in names or BUDGETS:
        with output.progress("") as progress:
            progress.add_task(f"{name}: {BUDGETS[name].about}", total=None)
            record = measure(BUDGETS[name], runs)
        missed |= record["met"] is False
        if output.as_json:
            output.record(record)
            output.flush()
        else:
            table.add_row(*_row(BUDGETS[name], record))
    if not output.as_json:
        output.console.print(table)
    return not missed


def _row(budget: Budget, record: dict[str, Any]) -> list[str]:
    limit = "-" if budget.limit is None else f"{'≥' if budget.sense == 'at least' else '≤'} {budget.limit:,g}"
    met = {True: "yes", False: "NO", None: "-"}[record["met"]]
    floor = "-" if record["floor"] is None else f"{record['floor']:,g}"
    return [budget.name, f"{record['value']:,g}", budget.unit, floor, limit, met, f"{record['spread']:.0%}"]
