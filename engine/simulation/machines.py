"""Nodes of a simulated cluster from a CSV file in Alibaba's format (`openb_node_list_*.csv`)."""

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

_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_GOLDEN: Final = 0.618033988749895
_MEBIBYTE: Final = 1 << 20
_PODS: Final = 110
"""Pod capacity of a node, Kubernetes' default; the file has no such column."""


def read_nodes(path: Path) -> list[NodeObserved]:
    """Read a CSV file of nodes, plain or gzip'd.

    Raises:
        TraceError: the file cannot be read, has another header, or has an invalid row; the message names the line.
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
    """Yield the path of the node file that ships with Lahar: 1,523 nodes of Alibaba's cluster, 2023, with 6,212 GPUs."""
    with as_file(files("engine.simulation") / "data" / "openb_nodes.csv.gz") as path:
        yield path


def sample_of(nodes: Sequence[NodeObserved], gpus: int) -> list[NodeObserved]:
    """Return a sample of the nodes with at most `gpus` GPUs, spread evenly so that the mix of node types stays.

    Args:
        nodes: all nodes, in order.
        gpus: maximum number of GPUs of the sample.

    Raises:
        TraceError: the sample would be empty.
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
    """Return the nodes in an order whose every prefix is spread evenly over all nodes (multiples of the golden ratio)."""
    return [node for _, node in sorted(enumerate(nodes), key=lambda place: place[0] * _GOLDEN % 1)]
