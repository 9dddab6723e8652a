"""Binpack: one node is filled before the next one is begun."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from experiments.jobs import Role, training
from experiments.rows import Column, Row
from experiments.trial import node, run, tiers
from statemachines.spec import Requests

_NAME: Final = "binpack"
_WEIGHTS: Final = {
    "binpack.weight": 10,
    "binpack.cpu": 5,
    "binpack.memory": 1,
    "binpack.resources": "nvidia.com/gpu, example.com/foo",
    "binpack.resources.nvidia.com/gpu": 2,
    "binpack.resources.example.com/foo": 3,
}
"""As the report has them."""


def rows() -> Iterator[Row]:
    """Yield the rows: two nodes of 4 cores and 8 GiB, a job of 16 pods and one of 24, each pod with 0.2 cores."""
    nodes = [node(f"node-{at}", 4, memory=8) for at in (1, 2)]
    for without, told in (((), ""), (("binpack",), ", without binpack")):
        plugins = tiers("gang", "predicates", "nodeorder", "binpack", without=without, binpack={"arguments": _WEIGHTS})
        for pods, expected in ((16, [16]), (24, [20, 4])):
            job = training(1, [Role("worker", pods, Requests(cpu_milli=200))], run=600)
            found = run([job], nodes, {"actions": "enqueue, allocate", "tiers": plugins}).pods("node", 60)
            held = [count for _, count in found.most_common()]
            ours = " and ".join(map(str, held))
            seed = "-" if without else "all on one node" if len(expected) == 1 else "one node full, the rest on the other"
            plot = f"job of {pods}: pods by node"
            columns = tuple(Column(plot, case, told, count) for case, count in zip(("fuller", "other"), [*held, 0], strict=False))
            yield Row(_NAME, plot + told, seed, ours, (held == expected) != bool(without), columns)
