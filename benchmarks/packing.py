"""Alibaba's pods on its nodes, one after the other, until they ask for as many GPUs as there are: how many are allocated then.

    python benchmarks/packing.py openb_pod_list_default.csv

No pod ends. Pods come in an order shuffled by a fixed seed, and in another order again when all have come, as in the simulations of
Weng et al. (Beware of Fragmentation, USENIX ATC 2023), whose figures docs/simulation.md has beside this one. Shares of GPUs are cut
from all GPUs of a node together.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from experiments.jobs import BEGIN
from experiments.trial import run, tiers

from engine.events.inputs import NodeObserved
from engine.events.times import SECOND
from engine.simulation.machines import read_nodes, sample_nodes
from engine.simulation.traces import read_trace
from engine.simulation.traces.rows import TraceRow
from engine.simulation.workload import PlannedJob
from statemachines.spec import Requests

_GPU: Final = "nvidia.com/gpu"
_PARTS: Final = 1000
"""Of a GPU."""
_SEED: Final = 42
_FOR_EVER: Final = 10**9 * SECOND
_BINPACK: Final = {"binpack.memory": 0, "binpack.resources": _GPU}
"""Cores and GPUs count alike, as in their best fit."""
_SCHEDULER: Final = {
    "actions": "allocate, backfill",
    "tiers": tiers("gang", "predicates", "binpack", binpack={"arguments": _BINPACK}),
}


def allocated(pods: Sequence[Requests], nodes: Sequence[NodeObserved]) -> float:
    """Return the part of the GPUs that is allocated when pods that ask for as many have come."""
    shares = [replace(pod, gpu=pod.gpu * _PARTS if pod.gpu_share_milli is None else pod.gpu_share_milli) for pod in pods]
    parts = [replace(node, gpu=node.gpu * _PARTS, resources={_GPU: node.gpu * _PARTS * 1000}) for node in nodes]
    total = sum(node.gpu for node in parts)
    jobs = list(_arrivals(shares, total))
    done = run(jobs, parts, _SCHEDULER, until=jobs[-1].submit + 60 * SECOND)
    return sum(placement.gpu for placement in done.results.placements) / total


def _arrivals(pods: Sequence[Requests], total: int) -> Iterator[PlannedJob]:
    """Yield a job of each pod, one a second, until they ask for all."""
    chance, order, arrived, number = Random(_SEED), list[Requests](), 0, 0  # noqa: S311 - no secret
    while arrived < total:
        order = order or chance.sample(pods, len(pods))
        pod, submit = order.pop(), BEGIN + number * SECOND
        row = TraceRow(number, str(number), f"pod-{number}", submit, submit, submit + _FOR_EVER, "Completed", (pod,))
        yield PlannedJob(row.name, row, submit)
        arrived += pod.gpu
        number += 1


def main(path: Path) -> None:
    """Print the part, of all nodes."""
    pods = [row.pods[0] for row in read_trace(path, "openb") if isinstance(row, TraceRow)]
    with sample_nodes() as table:
        print(f"{allocated(pods, read_nodes(table)):.2%} of the GPUs are allocated when pods have come that ask for all")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
