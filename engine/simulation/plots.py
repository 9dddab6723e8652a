"""SVG plots: lines over time, grouped columns, and a Gantt chart of pods on nodes. Self-contained, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, inf, log10
from typing import Final

_COLOURS: Final = (
    "#2f7d5b", "#d9822b", "#3b6fb6", "#b23a48", "#7b5ea7", "#8c6d46", "#4aa3a2", "#6b7a8f",
    "#9aa53b", "#c0629f", "#1f4e5f", "#e0b13c", "#5c8a3a", "#94443f", "#5f6caf", "#3f3f3f",
)  # fmt: skip
_LEFT: Final = 56
_RIGHT: Final = 932
_TOP: Final = 10
_BOTTOM: Final = 170
_HALVES: Final = (0.0, 0.5, 1.0)
_LANE: Final = 5
"""Height of one GPU in a Gantt chart."""
_COLUMN: Final = 46
"""Width of a column including its gap."""
_GAP: Final = 26
"""Gap between the columns of two cases."""
_LETTER: Final = 6
"""Width of a letter of a label."""
_WIDE: Final = 100
"""Ratio of the largest to the smallest value from which columns have a logarithmic scale."""
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Bar:
    """Pod on a node. Times are seconds since the begin."""

    begin: float
    end: float
    gpu: int
    label: str
    series: str
    """Series that determines the colour, as in `lines`."""


def lines(what: str, times: Sequence[float], series: Mapping[str, Sequence[float]], *, share: bool = False) -> str:
    """Return a line plot, with a legend if it has several series.

    Args:
        what: accessible title (`aria-label`).
        times: end of each step (seconds).
        series: values per step, by name.
        share: values are shares of 1, shown as percent up to 100.
    """
    highest = 1.0 if share else max((value for values in series.values() for value in values), default=0.0)
    top = _round_up(highest) if not share else 1.0
    length = times[-1] if times else 1.0
    paths = []
    for number, values in enumerate(series.values()):
        points = " ".join(
            f"{_x(time, length):.1f},{_BOTTOM - min(value, top) / top * (_BOTTOM - _TOP):.1f}"
            for time, value in zip(times, values, strict=True)
        )
        paths.append(f'<polyline points="{points}" fill=none stroke="{_colour(number)}" stroke-width=1.4 />')
    marks = {part: f"{part:.0%}" if share else f"{part * top:g}" for part in _HALVES}
    return (
        f'<svg viewBox="0 0 960 196" role=img aria-label="{escape(what)}">'
        f"{_value_axis(marks)}{_time_axis(length, _BOTTOM)}{''.join(paths)}</svg>" + (key(series) if len(series) > 1 else "")
    )


def columns(what: str, cases: Mapping[str, Mapping[str, float]], series: Sequence[str]) -> str:
    """Return a plot of labelled columns, grouped by case; logarithmic if the values are far apart.

    Args:
        what: accessible title (`aria-label`).
        cases: case → series → value; infinity is shown as "never".
        series: names in the order of their colours.
    """
    scale = _Scale([value for values in cases.values() for value in values.values() if value != inf])
    x, parts = _LEFT + _GAP / 2, []
    for case, values in cases.items():
        width = max(len(values) * _COLUMN, len(case) * _LETTER)
        begin = x + (width - len(values) * _COLUMN) / 2
        parts += [
            _column(begin + at * _COLUMN, value, scale, series.index(name)) for at, (name, value) in enumerate(values.items())
        ]
        parts.append(f"<text x={x + width / 2:.1f} y={_BOTTOM + 16} text-anchor=middle>{escape(case)}</text>")
        x += width + _GAP
    right = x - _GAP / 2
    return (
        f'<svg viewBox="0 -8 {right:g} 204" style="width:{right:g}px" role=img aria-label="{escape(what)}">'
        f"{_value_axis(scale.marks, right)}{''.join(parts)}</svg>"
    )


class _Scale:
    """Scale from values to fractions of a plot's height: linear from 0, or logarithmic if the values are far apart."""

    def __init__(self, values: Sequence[float]) -> None:
        """Choose the scale for values of 0 or more."""
        top, low = max(values, default=0.0), min((value for value in values if value > 0), default=1.0)
        self._top = _round_up(top)
        self._first: int | None = None
        """Exponent of the lowest power of ten; `None` for a linear scale."""
        if top < _WIDE * low:
            self.marks = {part: f"{part * self._top:g}" for part in _HALVES}
            """Label by fraction of the height."""
            return
        self._first, self._last = ceil(log10(low)) - 1, ceil(log10(top))
        powers = range(self._first, self._last + 1)
        self.marks = {(power - self._first) / (self._last - self._first): f"{10.0**power:,g}" for power in powers}

    def part(self, value: float) -> float:
        """Return the fraction of the height for a value."""
        if self._first is None:
            return value / self._top
        return (log10(value) - self._first) / (self._last - self._first) if value > 0 else 0.0


def _column(x: float, value: float, scale: _Scale, number: int) -> str:
    never = value == inf
    y = _TOP if never else _BOTTOM - scale.part(value) * (_BOTTOM - _TOP)
    told = "never" if never else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    look = f'fill=none stroke="{_colour(number)}" stroke-dasharray=4' if never else f'fill="{_colour(number)}"'
    return (
        f"<rect x={x + 3:.1f} y={y:.1f} width={_COLUMN - 6} height={_BOTTOM - y:.1f} {look} />"
        f"<text x={x + _COLUMN / 2:.1f} y={y - 4:.1f} text-anchor=middle>{told}</text>"
    )


def key(names: Iterable[str]) -> str:
    """Return the legend."""
    spans = (f'<span><i style="background:{_colour(number)}"></i>{escape(name)}</span>\n' for number, name in enumerate(names))
    return f"<p class=key>{''.join(spans)}</p>"


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _x(time: float, length: float) -> float:
    return _LEFT + time / length * (_RIGHT - _LEFT)


def _round_up(value: float) -> float:
    """Return the smallest number of the form 1, 2 or 5 times a power of ten that is not below the value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** len(str(int(value)))
    return next(step * power for step in (0.1, 0.2, 0.5, 1.0) if value <= step * power)


def _value_axis(marks: Mapping[float, str], right: float = _RIGHT) -> str:
    """Return the horizontal grid lines with their labels, by fraction of the height."""
    parts = []
    for part, label in marks.items():
        y = _BOTTOM - part * (_BOTTOM - _TOP)
        parts.append(
            f"<path d='M{_LEFT} {y:.1f}H{right:g}' class=grid /><text x={_LEFT - 6} y={y + 4:.1f} text-anchor=end>{label}</text>"
        )
    return "".join(parts)


def _time_axis(length: float, bottom: int) -> str:
    unit, name = next(((unit, name) for unit, name in ((_DAY, "d"), (3600, "h"), (60, "min")) if length >= 2 * unit), (1, "s"))
    every = _round_up(length / unit / 8)
    marks = []
    for number in range(int(length / unit / every) + 1):
        x = _x(number * every * unit, length)
        marks.append(f"<path d='M{x:.1f} {_TOP}V{bottom}' class=grid />")
        marks.append(f"<text x={x:.1f} y={bottom + 16} text-anchor=middle>{number * every:g} {name}</text>")
    return "".join(marks)


def gantt(nodes: Mapping[str, tuple[int, Sequence[Bar]]], series: Iterable[str], length: float) -> str:
    """Return a Gantt chart of pods on nodes, with one lane per GPU and a legend.

    Args:
        nodes: number of GPUs and pods by node; pods in order of their begin.
        series: names in the order of their colours.
        length: length of the time axis (seconds).
    """
    names = list(series)
    colours = {name: _colour(number) for number, name in enumerate(names)}
    bottom = _TOP + sum(max(gpus, 1) * _LANE + 24 for gpus, _ in nodes.values())
    parts = [_time_axis(length, bottom)]
    y = _TOP
    for name, (gpus, bars) in nodes.items():
        height = max(gpus, 1) * _LANE
        parts.append(f"<text x={_LEFT} y={y + 10}>{escape(name)}, {gpus} GPUs</text>")
        y += 14
        parts.append(f'<rect x={_LEFT} y={y} width={_RIGHT - _LEFT} height={height} fill="#f0f3f5" fill-opacity=.7 />')
        parts += _lanes(bars, gpus, colours, length, y)
        y += height + 10
    return f'<svg viewBox="0 0 960 {bottom + 24}" role=img aria-label="Pods on nodes">{"".join(parts)}</svg>{key(names)}'


def _lanes(bars: Sequence[Bar], gpus: int, colours: Mapping[str, str], length: float, y: int) -> Iterable[str]:
    """Yield the bars of a node, each in the first free lanes; bars that share a column of pixels are drawn once."""
    free = [0.0] * max(gpus, 1)
    drawn = [-1.0] * max(gpus, 1)
    for bar in bars:
        lanes = [lane for lane, until in enumerate(free) if until <= bar.begin][: bar.gpu]
        begin, end = _x(bar.begin, length), _x(bar.end, length)
        for lane in lanes:
            free[lane] = bar.end
        for first, count in _runs([lane for lane in lanes if end - drawn[lane] >= 1.0]):
            for lane in range(first, first + count):
                drawn[lane] = end
            yield (
                f"<rect x={begin:.1f} y={y + first * _LANE} width={max(end - begin, 0.7):.1f} height={count * _LANE - 0.6:.1f} "
                f'fill="{colours[bar.series]}"><title>{escape(bar.label)}</title></rect>'
            )


def _runs(lanes: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Yield first lane and length of each run of adjacent lanes."""
    first = None
    for place, lane in enumerate(lanes):
        first = lane if first is None else first
        if place + 1 == len(lanes) or lanes[place + 1] != lane + 1:
            yield first, lane - first + 1
            first = None
