"""Measure the lifecycle stage on a real broker: `python benchmarks/kafka.py`. One JSON object a line, then a table.

It starts a broker from the jars that `make kafka` has fetched, or uses the one that `KAFKA_BOOTSTRAP_SERVERS` names, makes topics
of its own and deletes them. What is compared was measured in turns, in one run. It exits with 1 if a budget is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Final, Literal, NamedTuple

from kafka_measures import Burst, Load, Rates, Window, burst_and_restarts, rates, sustained
from kafka_place import broker
from rich.console import Console
from rich.table import Table

_PARTS: Final = ("rates", "sustained", "burst")
_QUICK: Final = Load(rounds=1, observations=60_000, settle_seconds=5.0, window_seconds=10.0, burst_seconds=10.0)
_NEARLY: Final = 0.98
"""Part of a load that must have been there."""
_EVENTS: Final = 0.68
"""Job-events for an observation, at least: seven of a life's ten change something, and a window cuts lives off."""


class Row(NamedTuple):
    """One figure beside its budget."""

    measure: str
    value: float
    unit: str
    about: str
    budget: float | None = None
    """`None`: reported only."""
    sense: Literal["at least", "at most"] = "at least"

    @property
    def met(self) -> bool | None:
        """Whether the budget is met; `None`: there is none."""
        if self.budget is None:
            return None
        return self.value >= self.budget if self.sense == "at least" else self.value <= self.budget

    def record(self) -> dict[str, object]:
        """Return it as a JSON object's fields."""
        found: dict[str, object] = {"measure": self.measure, "value": float(f"{self.value:.4g}"), "unit": self.unit}
        return found | ({} if self.budget is None else {"budget": self.budget, "met": self.met})


def measure(bootstrap: str, load: Load, parts: Sequence[str], console: Console) -> Iterator[Row]:
    """Take the measures and yield their figures.

    Args:
        bootstrap: the broker.
        load: how much is done.
        parts: which measures, of `rates`, `sustained`, `burst`.
        console: is told how far it is.
    """
    if "rates" in parts:
        yield from _of_rates(rates(bootstrap, load, console.print))
    if "sustained" in parts:
        console.print(f"{load.rate:,} observations/s")
        yield from _of_windows(sustained(bootstrap, load, console.print), load)
    if "burst" in parts:
        console.print(f"{load.burst_rate:,} observations/s for {load.burst_seconds:g} s, then restarts")
        yield from _of_burst(burst_and_restarts(bootstrap, load, console.print), load)


def _of_rates(found: Rates) -> Iterator[Row]:
    inputs = {name: median(each) for name, each in found.inputs.items()}
    cpu = {name: median(each) for name, each in found.cpu.items()}
    yield Row("stage", inputs["stage"], "inputs/s", "lifecycle stage, one worker, 4 shards")
    yield Row("stage-cpu", cpu["stage"], "µs/input", "processor time of that worker")
    yield Row("outputs", found.per_input, "records", f"written for an input, {found.size:,} bytes each with headers")
    yield Row("aiokafka", inputs["aiokafka"], "inputs/s", "(i) bare transactional pass-through, as aiokafka comes")
    yield Row("aiokafka-cpu", cpu["aiokafka"], "µs/input", "processor time of (i)")
    yield Row("aiokafka-tuned", inputs["aiokafka-tuned"], "inputs/s", "(i) with Lahar's own batch size and compression")
    yield Row("aiokafka-tuned-cpu", cpu["aiokafka-tuned"], "µs/input", "processor time of that")
    yield Row("faust", inputs["faust"], "inputs/s", "(ii) Faust agent that forwards, exactly_once")
    yield Row("confluent", inputs["confluent"], "inputs/s", "(iii) confluent-kafka doing (i)")
    yield Row("stage-vs-aiokafka", found.ratio("aiokafka"), "ratio", "stage against (i)", 0.45)
    yield Row("stage-vs-tuned", found.ratio("aiokafka-tuned"), "ratio", "stage against (i) with Lahar's own settings")
    yield Row("stage-vs-faust", found.ratio("faust"), "ratio", "stage against (ii)", 10)
    yield Row("stage-vs-confluent", found.ratio("confluent"), "ratio", "stage against (iii)")
    yield Row("two-workers", inputs["two-workers"], "inputs/s", "two workers, two shards each")


def _of_windows(found: Sequence[Window], load: Load) -> Iterator[Row]:
    """Yield medians; of what says whether a window was one at all, the worst."""
    taken, seen = min(one.rate for one in found), min(one.events for one in found)
    yield Row("sustained-rate", taken, "observations/s", "taken by the worker, in the worst window", _NEARLY * load.rate)
    about = "with a known latency, for an observation taken, in the worst window"
    yield Row("sustained-events", seen, "job-events", about, _EVENTS)
    cpu = median(one.cpu for one in found)
    yield Row("sustained-cpu", cpu, "cores", "processor time of the worker at that rate", 0.6, "at most")
    interval = median(one.commit_interval_ms for one in found)
    yield Row("sustained-commit-interval", interval, "ms", "between two commits of a shard, mean", 50, "at most")
    yield Row("latency-p50", median(one.p50_ms for one in found), "ms", "input appended → job-event read committed", 75, "at most")
    yield Row("latency-p99", median(one.p99_ms for one in found), "ms", "the same", 250, "at most")


def _of_burst(found: Burst, load: Load) -> Iterator[Row]:
    budget = _NEARLY * load.burst_rate
    yield Row("burst-rate", found.rate, "observations/s", f"as fed for {load.burst_seconds:g} s", budget)
    yield Row("burst-lag", found.lag, "inputs", "waiting when the burst ends")
    yield Row("burst-absorbed", found.absorbed_seconds, "s", "end of the burst → nothing waits", 60, "at most")
    about = f"killed and started again with {found.jobs:,} jobs: process begins → first commit"
    yield Row("restart", median(found.first_commits), "s", about)
    yield Row("restart-all-shards", median(found.all_commits), "s", "the same → every shard has committed", 10, "at most")


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("MEASURE", "VALUE", "UNIT", "BUDGET", "MET", "WHAT"):
        table.add_column(heading, justify="right" if heading in {"VALUE", "BUDGET"} else "left")
    for row in rows:
        limit = "-" if row.budget is None else f"{'≥' if row.sense == 'at least' else '≤'} {row.budget:,g}"
        met = {True: "yes", False: "NO", None: "-"}[row.met]
        table.add_row(row.measure, f"{float(f'{row.value:.3g}'):,g}", row.unit, limit, met, row.about)
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options, measure and print; return 1 if a budget is missed, 4 if there is no broker, or no figure."""
    parser = argparse.ArgumentParser(description="Measure the lifecycle stage on Kafka beside its budgets.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(_PARTS)}; all unless given")
    parser.add_argument("--quick", action="store_true", help="one round of each, a short window, a short burst: for a look")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="of the comparison, windows of steady load, restarts; the median counts"
    )
    parser.add_argument("--burst-seconds", type=float, metavar="S", help="length of the burst (120)")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(_PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(_PARTS)}")
    load = _QUICK if options.quick else Load()
    load = replace(load, rounds=options.rounds or load.rounds, burst_seconds=options.burst_seconds or load.burst_seconds)
    notes = Console(stderr=True)
    rows: list[Row] = []
    try:
        with broker() as bootstrap:
            for row in measure(bootstrap, load, options.parts or _PARTS, notes):
                rows.append(row)
                print(json.dumps(row.record(), ensure_ascii=False), flush=True)
    except (RuntimeError, TimeoutError) as error:
        notes.print(f"no figures: {error}")
        return 4
    Console().print(_table(rows))
    return int(any(row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
