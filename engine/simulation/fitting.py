"""Search for jobs of a trace that no node of a cluster can hold, before a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from engine.events.inputs import NodeObserved
from engine.formatting import amount
from engine.simulation.workload import PlannedJob
from statemachines.spec import Requests


def misfits(jobs: Iterable[PlannedJob], nodes: Sequence[NodeObserved]) -> Iterator[tuple[PlannedJob, str]]:
    """Yield the jobs that do not fit on the empty nodes, each with the reason.

    Args:
        jobs: jobs to check.
        nodes: all nodes.
    """
    most = max((node.gpu for node in nodes), default=0)
    total = sum(node.gpu for node in nodes)
    known: dict[tuple[int, int, int], bool] = {}
    for job in jobs:
        for _, requests, _ in job.tasks():
            shape = (requests.gpu, requests.cpu_milli, requests.memory_bytes)
            if shape not in known:
                known[shape] = any(_takes(node, requests) for node in nodes)
            if not known[shape]:
                yield job, f"a pod asks for {_formatted(requests)}; {_largest(nodes, requests, most)}"
                break
        else:
            if job.gpus > total:
                yield job, f"its pods ask for {job.gpus} GPUs; all nodes together have {total}"


def _takes(node: NodeObserved, requests: Requests) -> bool:
    return node.gpu >= requests.gpu and node.cpu_milli >= requests.cpu_milli and node.memory_bytes >= requests.memory_bytes


def _formatted(requests: Requests) -> str:
    cores, memory = amount("cpu", requests.cpu_milli), amount("memory", requests.memory_bytes)
    parts = {
        f"{requests.gpu} GPUs": requests.gpu,
        f"{cores} cores": requests.cpu_milli,
        f"{memory} of memory": requests.memory_bytes,
    }
    return ", ".join(told for told, asked in parts.items() if asked)


def _largest(nodes: Sequence[NodeObserved], requests: Requests, most: int) -> str:
    """Return the reason why no node can hold a pod."""
    if requests.gpu and not most:
        return "no node has a GPU"
    if requests.gpu > most:
        return f"no node has more than {most}"
    if requests.cpu_milli > max((node.cpu_milli for node in nodes), default=0):
        return "no node has as many cores"
    return "no node has all of it"
