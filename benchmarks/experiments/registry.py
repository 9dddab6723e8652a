"""All experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from experiments import binpack, fair_share, gang, notice, octopus, paddlepaddle, task_topology
from experiments.rows import Row


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment."""

    about: str
    """What it shows, one line."""
    rows: Callable[[], Iterable[Row]]


EXPERIMENTS: Final[dict[str, Experiment]] = {
    "gang": Experiment("Jobs whose pods need each other, on a cluster too small for all of them", gang.rows),
    "fair-share": Experiment("Shares of jobs, of namespaces and of queues", fair_share.rows),
    "binpack": Experiment("One node is filled before the next one", binpack.rows),
    "task-topology": Experiment("Parameter servers and workers beside each other", task_topology.rows),
    "notice": Experiment("A privileged job after a notice, at once, and not at all", notice.rows),
    "paddlepaddle": Experiment("Parameter servers and trainers as two tasks; elastic trainers", paddlepaddle.rows),
    "octopus": Experiment("1,104 GPUs under an overload of real jobs, against a queue whose head blocks it", octopus.rows),
}
"""Name → experiment."""
