"""Nodes of a simulated cluster from a table of machines, as Alibaba published them (`openb_node_list_*.csv`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from engine.events.inputs import NodeObserved
from engine.simulation.errors import RowError, TraceError
from engine.simulation.traces.files import read_lines
from engine.simulation.traces.rows import Fields, csv_fields

__all__ = ["read_nodes", "sample_nodes", "sample_of"]

_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_GOLDEN: Final = 0.618033988749895
_MEBIBYTE: Final = 1 << 20
_PODS: Final = 110
"""Pods that a node takes: Kubernetes' default. The table does not tell."""


def read_nodes(path: Path) -> list[NodeObserved]:
    """Read a table of machines, plain or gzip'd.

    Raises:
        TraceError: the file cannot be read, is no such table, or has a row that makes no sense, which the text names.
    """
    found: dict[str, NodeObserved] = {}
    try:
        for fields in csv_fields(read_lines(path), "openb nodes", _COLUMNS):
            try:
                node = _node(fields)
                if node.name in found:
                    raise RowError(f"node {node.name} was there before")  # noqa: TRY301 - one handler
            except RowError as error:
                raise TraceError(f"line {fields.line}: {error}") from None
            found[node.name] = node
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None
    return list(found.values())


def _node(fields: Fields) -> NodeObserved:
    name, gpu, model = fields.key("sn"), fields.count("gpu"), fields.text("model")
    labels = {"kubernetes.io/hostname": name, **({"nvidia.com/gpu.product": model} if model else {})}
    return NodeObserved(
        name,
        cpu_milli=fields.count("cpu_milli"),
        memory_bytes=fields.count("memory_mib") * _MEBIBYTE,
        gpu=gpu,
        pods=_PODS,
        gpu_model=model or None,
        labels=labels,
        resources={"nvidia.com/gpu": gpu * 1000} if gpu else {},
    )


@contextmanager
def sample_nodes() -> Iterator[Path]:
    """Yield the path of the table that ships with Lahar: 1,523 nodes of Alibaba's cluster, 2023, with 6,212 GPUs."""
    with as_file(files("engine.simulation") / "data" / "openb_nodes.csv.gz") as path:
        yield path


def sample_of(nodes: Sequence[NodeObserved], gpus: int) -> list[NodeObserved]:
    """Return a part of the nodes that has at most so many GPUs, taken evenly from all of them, so that their mix stays.

    Args:
        nodes: all nodes, in order.
        gpus: how many GPUs the part has at most.

    Raises:
        TraceError: it would have no node.
    """
    total = sum(node.gpu for node in nodes)
    if gpus >= total:
        return list(nodes)
    taken: set[str] = set()
    left = gpus
    for node in _spread([node for node in nodes if node.gpu]):
        if node.gpu <= left:
            taken.add(node.name)
            left -= node.gpu
    without = _spread([node for node in nodes if not node.gpu])
    taken.update(node.name for node in without[: len(without) * gpus // total])
    if not taken:
        raise TraceError(f"no node has as few as {gpus} GPUs; the nodes have {total} together")
    return [node for node in nodes if node.name in taken]


def _spread(nodes: Sequence[NodeObserved]) -> list[NodeObserved]:
    """Return nodes in an order of which every beginning is spread evenly over all of them (multiples of the golden ratio)."""
    return [node for _, node in sorted(enumerate(nodes), key=lambda place: place[0] * _GOLDEN % 1)]
