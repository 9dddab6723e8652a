"""Measure the budgets of this release and print one JSON object a line: `python benchmarks/budgets.py [NAME…]`.

The measures themselves are `engine/cli/measures.py`, so that `lahar bench` has them wherever Lahar is installed.
"""

from __future__ import annotations

import json
import sys

from engine.cli.bench import measure
from engine.cli.measures import MEASURES


def main(names: list[str]) -> int:
    """Print the records of the named measures, of all without names; return 1 if a budget is not met."""
    missed = False
    for budget in MEASURES:
        if not names or budget.name in names:
            record = measure(budget)
            missed |= record["met"] is False
            print(json.dumps(record), flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
