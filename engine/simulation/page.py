"""Self-contained HTML pages: their frame, and the report of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from engine.simulation.figures import Figures
from engine.simulation.plots import Bar, gantt, lines

_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1c2733; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .2rem; } p { margin: .3rem 0; color: #52606d; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .25rem .5rem; text-align: right; white-space: nowrap; }
th { color: #52606d; font-weight: 600; border-bottom: 1px solid #cbd2d9; }
td:first-child, th:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; }
svg { width: 100%; } svg text { font-size: 11px; fill: #52606d; } .grid { stroke: #e4e7eb; }
.key span { margin-right: 1rem; white-space: nowrap; }
.key i { display: inline-block; width: .8rem; height: .8rem; margin-right: .3rem; vertical-align: -1px; }
figure { display: inline-block; margin: .5rem 1.5rem .5rem 0; } figcaption { color: #52606d; }
.words th, .words td { text-align: left; white-space: normal; }
@media print { body { margin: 0; } }
"""
_LISTED: Final = 50
"""Maximum number of waiting jobs that are listed."""


def framed(title: str, parts: Iterable[str]) -> str:
    """Return an HTML page with a title and body parts."""
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{_STYLE}</style>"
    return "\n".join([head, f"<h1>{escape(title)}</h1>", *parts, "</html>\n"])


def page(title: str, document: Mapping[str, Any], figures: Figures, nodes: Mapping[str, tuple[int, Sequence[Bar]]]) -> str:
    """Return the report.

    Args:
        title: title of the page.
        document: results as JSON.
        figures: time series to plot.
        nodes: the busiest nodes with their pods, as in `gantt`.
    """
    totals, times = document["totals"], figures.times
    first = (
        f"{document['begin']} to {document['end']}, {totals['jobs']:,} jobs on {totals['nodes']:,} nodes with "
        f"{totals['gpus']:,} GPUs."
    )
    sums = (
        f"Utilisation {figures.mean_utilisation:.1%}, imbalance {figures.mean_imbalance:.1%}, fragmentation "
        f"{figures.mean_fragmentation:.1%}, fairness {figures.mean_fairness:.3f}; {totals['preemptions']:,} pods preempted, "
        f"{figures.gpu_seconds_lost / 3600:,.1f} GPU hours lost by it; {totals['waiting']:,} jobs still wait."
    )
    parts = [
        f"<p>{escape(first)}</p><p>{sums}</p>",
        "<h2>Waits by queue</h2><p>From submission to the first running pod, in hours.</p>",
        _queues(document["queues"]),
        "<h2>Jobs that wait</h2>",
        lines("Jobs that wait, by queue", times, figures.waiting),
        "<h2>Utilisation</h2><p>GPUs with a pod, of those that are there.</p>",
        lines("Utilisation", times, {"utilisation": figures.utilisation}, share=True),
        "<h2>GPUs by queue</h2>",
        lines("GPUs held by queues", times, figures.shares),
        "<h2>Balance</h2><p>Largest less smallest use of a node, as a share of its GPUs: 0% is even.</p>",
        lines("Imbalance", times, {"imbalance": figures.imbalance}, share=True),
        "<h2>Fragmentation</h2><p>Idle GPUs on nodes with too few of them for a pod, over the trace's mix of pods.</p>",
        lines("Fragmentation", times, {"fragmentation": figures.fragmentation}, share=True),
        "<h2>Preemptions</h2><p>Pods that gave their place to others, in each of the plot's steps.</p>",
        lines("Preemptions", times, {"preemptions": [float(count) for count in figures.preemptions]}),
        "<h2>Fairness</h2><p>Jain's index of GPUs over weight, among queues with jobs: 100% is equal.</p>",
        lines("Fairness", times, {"fairness": figures.fairness}, share=True),
        "<h2>Busiest nodes</h2><p>A lane for each GPU, coloured by queue; pods that would hide each other are drawn once.</p>",
        gantt(nodes, figures.shares, times[-1]),
    ]
    if document["waiting"]:
        parts += ["<h2>Jobs that wait at the end</h2>", _waiting(document["waiting"])]
    return framed(title, parts)


def _queues(queues: Mapping[str, Mapping[str, Any]]) -> str:
    head = "<tr><th>Queue<th>Weight<th>Jobs<th>Began<th>Mean<th>Median<th>99%<th>Longest<th>GPU hours"
    rows = [
        f"<tr><td>{escape(name)}<td>{queue['weight']:g}<td>{queue['jobs']:,}<td>{queue['wait_seconds']['n']:,}"
        + "".join(f"<td>{_hours(queue['wait_seconds'][key])}" for key in ("mean", "median", "p99", "max"))
        + f"<td>{float(queue['gpu_seconds']) / 3600:,.1f}"
        for name, queue in queues.items()
    ]
    return f"<table>{head}{''.join(rows)}</table>"


def _hours(seconds: Any) -> str:  # noqa: ANN401 - an exact decimal, or none
    return "-" if seconds is None else f"{float(seconds) / 3600:,.2f}"


def _waiting(jobs: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        f"<tr><td>{escape(job['name'])}<td>{escape(job['queue'])}<td>{job['gpus']}<td>{escape(job['why'])}"
        for job in jobs[:_LISTED]
    ]
    more = f"<p>and {len(jobs) - _LISTED:,} more.</p>" if len(jobs) > _LISTED else ""
    return f"<table><tr><th>Job<th>Queue<th>GPUs<th>Why{''.join(rows)}</table>{more}"
