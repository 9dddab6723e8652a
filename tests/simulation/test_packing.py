"""Pods that come until they ask for all GPUs: what `benchmarks/packing.py` measures."""

from __future__ import annotations

import pytest
from packing import allocated
from simulated import machine

from statemachines.spec import Requests


@pytest.mark.parametrize(
    ("pod", "part"),
    [
        (Requests(cpu_milli=4000, gpu=1, gpu_share_milli=800), 1.0),  # five on the four GPUs of a node
        (Requests(cpu_milli=4000, gpu=3), 0.75),
        (Requests(cpu_milli=60_000, gpu=1), 0.25),  # a node of 64 cores takes one
        (Requests(cpu_milli=1000, gpu=8), 0.0),
    ],
)
def test_gpus_are_allocated_as_far_as_nodes_have_room(pod: Requests, part: float) -> None:
    assert allocated([pod], [machine("n1", 4), machine("n2", 4)]) == pytest.approx(part)
