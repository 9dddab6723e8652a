"""Experiments as one self-contained page of HTML: columns with the feature and without it, and the rows below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from operator import attrgetter

from engine.simulation.page import framed
from engine.simulation.plots import columns, key
from experiments.registry import EXPERIMENTS
from experiments.rows import Row


def page(rows: Iterable[Row]) -> str:
    """Return the page; the rows of an experiment are beside each other."""
    parts = ["<p>Published claims, and what the simulated cluster shows with a feature and without it.</p>"]
    for name, own in groupby(rows, attrgetter("name")):
        parts += _experiment(name, list(own))
    return framed("Experiments", parts)


def _experiment(name: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"<h2>{escape(name)}</h2><p>{escape(EXPERIMENTS[name].about)}.</p>"
    variants: dict[str, None] = {}
    plots: dict[str, dict[str, dict[str, float]]] = {}
    for column in (column for row in rows for column in row.columns):
        variant = column.variant.removeprefix(", ") or "with the feature"
        variants[variant] = None
        plots.setdefault(column.plot, {}).setdefault(column.case, {})[variant] = column.value
    yield key(variants)
    for plot, cases in plots.items():
        yield f"<figure><figcaption>{escape(plot)}</figcaption>{columns(plot, cases, list(variants))}</figure>"
    lines = (
        f"<tr><td>{escape(row.measure)}<td>{escape(row.seed)}<td>{escape(row.ours)}<td>{'yes' if row.ok else 'NO'}" for row in rows
    )
    yield f"<table class=words><tr><th>Measure<th>Seed<th>Ours<th>OK{''.join(lines)}</table>"
