"""Bill as a self-contained HTML page: cost and waste by tenant, queue, job and day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from html import escape
from typing import Final

from engine.billing.invoice import Unpriced, note_unpriced, rounded, unpriced, used, without_price
from engine.billing.records import clipped
from engine.events import Event
from engine.events.billing import UsageRecorded
from engine.events.decimals import EXACT, total
from engine.events.prices import PriceVersion
from engine.events.times import SECOND, Micros, format_time

_DAY: Final = 86_400 * SECOND
_ZERO: Final = Decimal(0)
_SHOWN: Final = 20
"""Maximum number of tenants, queues or jobs in a chart; the others are one bar."""
_BROADEST: Final = Decimal(48)
"""Maximum width of a bar in the chart of days, which has 960 units."""
_DAYS: Final = 400
"""Maximum number of days in the chart of days; the last ones are shown."""

_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c2733; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; } p { margin: .3rem 0; color: #52606d; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .25rem .5rem; text-align: right; white-space: nowrap; }
th { color: #52606d; font-weight: 600; border-bottom: 1px solid #cbd2d9; } td:first-child, th:first-child { text-align: left;
white-space: normal; overflow-wrap: anywhere; } td.bar { width: 45%; min-width: 12rem; } .bar div { display: flex; height: .9rem; }
.useful { background: #2f7d5b; } .wasted { background: #d9822b; } svg { display: block; width: 100%; height: 8.5rem; }
p.axis { display: flex; justify-content: space-between; font-size: .75rem; }
.key span { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 1rem; vertical-align: -1px; }
.key span:first-child { margin-left: 0; }
p.unpriced { color: #a61b1b; } @media print { body { margin: 0; } }
.useful, .wasted { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
@media (max-width: 40rem) { td, th { padding: .25rem; } td:not(:first-child) { white-space: normal; }
td:first-child { min-width: 7rem; } th:first-child { overflow-wrap: normal; } td.bar { width: 20%; min-width: 3rem; } }
@media (max-width: 26rem) { th:last-child, td.bar { display: none; } td:first-child { min-width: 5rem; } }
"""


@dataclass(slots=True)
class _Cost:
    useful: Decimal = _ZERO
    wasted: Decimal = _ZERO

    def take(self, amount: Decimal, *, is_useful: bool) -> None:
        if is_useful:
            self.useful = EXACT.add(self.useful, amount)
        else:
            self.wasted = EXACT.add(self.wasted, amount)

    @property
    def total(self) -> Decimal:
        return EXACT.add(self.useful, self.wasted)

    @property
    def bars(self) -> tuple[Decimal, Decimal]:
        """Lengths of the useful and the wasted bar; 0 where reversals exceed the cost."""
        return max(self.useful, _ZERO), max(self.wasted, _ZERO)


@dataclass(slots=True)
class Costs:
    """Cost of valid runs by tenant, queue, job and day (UTC); GPU seconds if nothing has a price."""

    currency: str | None = None
    amounts: dict[str, dict[str, _Cost]] = field(default_factory=lambda: {"tenant": {}, "queue": {}, "job": {}})
    days: dict[Micros, _Cost] = field(default_factory=dict)
    gpu: _Cost = field(default_factory=_Cost)
    """GPU seconds."""
    unpriced: Unpriced = field(default_factory=dict)

    def take(self, event: Event[UsageRecorded], rules: PriceVersion | None) -> None:
        """Add a run; `rules`: its price version."""
        data = event.data
        for meter, taken in unpriced(data, rules):
            note_unpriced(self.unpriced, data, meter, taken)
        is_useful = data.worth == "useful"
        self.currency = self.currency or data.currency
        names = {"tenant": data.tenant, "queue": data.queue, "job": f"{data.namespace}/{data.job_name}"}
        for start, end in _days(data):
            charges = list(used(data if data.record == "excess" else clipped(data, start, end)))
            amount = total(amount for _, _, amount in charges)
            for kind, name in names.items():
                self.amounts[kind].setdefault(name, _Cost()).take(amount, is_useful=is_useful)
            self.days.setdefault(start - start % _DAY, _Cost()).take(amount, is_useful=is_useful)
            gpu = total(taken for charge, taken, _ in charges if charge.meter == "gpu_seconds")
            self.gpu.take(gpu, is_useful=is_useful)


def _days(data: UsageRecorded) -> Iterator[tuple[Micros, Micros]]:
    """Yield the days of a run with their charged parts; an excess is one part."""
    start = data.start
    while start < data.end:
        end = data.end if data.record == "excess" else min(start - start % _DAY + _DAY, data.end)
        yield start, end
        start = end


def report(runs: Iterable[Event[UsageRecorded]], title: str, versions: Mapping[str, PriceVersion]) -> str:
    """Return the page.

    Args:
        runs: valid runs.
        title: title of the page.
        versions: price versions by name, which define the meters that need a price.
    """
    costs = Costs()
    for event in runs:
        costs.take(event, versions.get(event.data.price_version or ""))
    unit = costs.currency or ""

    def money(amount: Decimal) -> str:
        return f"{rounded(amount, costs.currency):,f} {escape(unit)}".strip()

    whole = _Cost()
    for cost in costs.days.values():
        whole.take(cost.useful, is_useful=True)
        whole.take(cost.wasted, is_useful=False)
    hours, wasted_hours = costs.gpu.total / 3600, costs.gpu.wasted / 3600
    sums = f"{money(whole.total)} in all, {money(whole.wasted)} of it wasted; {hours:,.1f} GPU hours, {wasted_hours:,.1f} wasted."
    parts = [
        '<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}</h1>",
        f"<p>{sums}</p>",
        *_unpriced(costs.unpriced),
        "<p class=key><span class=useful></span>useful<span class=wasted></span>wasted: failed, preempted, restarted, reserved</p>",
        "<h2>Cost per day (UTC)</h2>",
        _chart(costs.days, money),
    ]
    for kind, heading in (("tenant", "Tenants"), ("queue", "Queues"), ("job", "Dearest jobs")):
        parts += [f"<h2>{heading}</h2>", _table(kind.capitalize(), costs.amounts[kind], money)]
    parts.append(
        "<p>Each amount here is rounded by itself, so rows may not add up to the total; invoices and exports are exact.</p></html>"
    )
    return "\n".join(parts)


def _unpriced(found: Unpriced) -> Iterator[str]:
    if told := [escape(one) for one in without_price(found)]:
        yield f"<p class=unpriced>Without a price, and in no amount here: {'; '.join(told)}.</p>"


def _table(heading: str, costs: Mapping[str, _Cost], money: Callable[[Decimal], str]) -> str:
    ordered = sorted(costs.items(), key=lambda item: (-item[1].total, item[0]))
    shown, rest = ordered[:_SHOWN], ordered[_SHOWN:]
    if rest:
        other = _Cost()
        for _, cost in rest:
            other.take(cost.useful, is_useful=True)
            other.take(cost.wasted, is_useful=False)
        shown.append((f"{len(rest):,} others", other))
    most = _most(cost for _, cost in shown) or Decimal(1)
    rows = [
        f"<tr><td>{escape(name or '-')}<td>{money(cost.total)}<td>{money(cost.wasted)}<td class=bar><div>"
        + "".join(
            f'<div class={part} style="width:{drawn * 100 / most:.2f}%"></div>'
            for part, drawn in zip(("useful", "wasted"), cost.bars, strict=True)
        )
        + "</div>"
        for name, cost in shown
    ]
    return f"<table><tr><th>{heading}<th>Cost<th>Wasted<th>{''.join(rows)}</table>"


def _most(costs: Iterable[_Cost]) -> Decimal:
    """Return the length of the longest bar; 0 if there is none."""
    return max((EXACT.add(*cost.bars) for cost in costs), default=_ZERO)


def _chart(days: Mapping[Micros, _Cost], money: Callable[[Decimal], str]) -> str:
    if not days:
        return "<p>Nothing is recorded.</p>"
    last = max(days)
    shown: Sequence[Micros] = range(max(min(days), last - (_DAYS - 1) * _DAY), last + 1, _DAY)
    most = _most(days[day] for day in shown if day in days)
    width = Decimal(960) / len(shown)
    broad = min(width * Decimal("0.8"), _BROADEST)
    bars = []
    for place, day in enumerate(shown):
        cost = days.get(day)
        if cost is None:
            continue
        useful, wasted = (drawn * 135 / (most or Decimal(1)) for drawn in cost.bars)
        x, bar = f"{place * width:.2f}", f"{broad:.2f}"
        told = f"{format_time(day)[:10]}: {money(cost.total)}, {money(cost.wasted)} wasted"
        wasted_bar = f'<rect x={x} width={bar} y={135 - useful - wasted:.2f} height={wasted:.2f} fill="#d9822b"/>'
        useful_bar = f'<rect x={x} width={bar} y={135 - useful:.2f} height={useful:.2f} fill="#2f7d5b"/>'
        bars.append(f"<g><title>{told}</title>{useful_bar}{wasted_bar}</g>")
    ends = "".join(f"<span>{format_time(day)[:10]}</span>" for day in sorted({shown[0], last}))
    chart = (
        f"<p class=axis>{money(most)}</p>"
        f'<svg viewBox="0 0 960 135" preserveAspectRatio=none role=img aria-label="Cost per day">{"".join(bars)}</svg>'
        f"<p class=axis>{ends}</p>"
    )
    if earlier := [cost.total for day, cost in days.items() if day < shown[0]]:
        chart += f"<p>The last {_DAYS} days; {money(total(earlier))} of earlier days are in the sums.</p>"
    return chart
