"""Dispatcher: delivers notices of committed events to receivers, in log order, at least once.

Each receiver has a cursor per partition of `job-events`, and of `budgets` for notices of budgets, which moves past a notice when it
is delivered. Similar notices are not merged. A failing receiver keeps its cursor and is retried with back-off; the others continue.
After 24 hours, or at its own request, an event disables it; `resume` continues it at its cursor.

`step` reads no clock; the time is an argument. An executor runs the receivers (`engine.effects.executor`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, Literal, cast

from engine.effects.errors import NotDisabledError, ReplayError
from engine.effects.executor import Executor, ThreadExecutor
from engine.effects.feed import Feed
from engine.effects.lane import Lane
from engine.effects.metrics import CallbackStatus
from engine.effects.notice import LEVELS, Notice, NoticeMode, Told, make_budget_notice, make_notice
from engine.effects.receiver import Outcome, Receiver
from engine.effects.registry import Registry
from engine.effects.reports import Stop, report
from engine.events import Event, Message
from engine.events.actions import EffectSettled
from engine.events.budgets import BudgetCrossed
from engine.events.transitions import transition_of
from engine.log.port import Log, Partition, Record
from statemachines.callbacks import BudgetSelector, Selector, selects

Mode = Literal["live", "replay"]
"""`live`: notices are delivered, older ones flagged `catchup`. `replay`: nothing leaves the process."""

_BATCH: Final = 500
"""Maximum number of notices in delivery to one receiver."""

_PASSED: Final = 20_000
"""Number of unwanted records after which a cursor is saved: reading them again costs less than saving it for every chunk."""

_logger: Final = logging.getLogger(__name__)


def cursor_name(receiver: str) -> str:
    """Return the name of a receiver's cursor in the log."""
    return f"callback/{receiver}"


def partitions_of(log: Log, selector: Selector | BudgetSelector) -> list[Partition]:
    """Return the partitions of a receiver; those of job events have its disabling and resuming too."""
    partitions = [Partition("job-events", number) for number in range(log.partitions("job-events"))]
    return [*partitions, Partition("budgets", 0)] if isinstance(selector, BudgetSelector) else partitions


@dataclass(slots=True)
class _Line:
    """A receiver and the state of its deliveries."""

    receiver: Receiver
    lanes: list[Lane]
    unlabelled: Selector
    """Selector without the condition on labels, which are checked last."""
    wanted: frozenset[str]
    """Event types that it may select."""
    stops: dict[str, Stop] = field(default_factory=dict)
    """Deliveries for which it is disabled, by id; empty: it is enabled."""
    delivered: int = 0
    failed: int = 0
    withheld: int = 0


class Dispatcher:
    """Delivers notices to all receivers of a process. Not thread-safe: one thread steps it."""

    def __init__(
        self,
        log: Log,
        registry: Registry,
        *,
        started: int,
        mode: Mode = "live",
        executor: Executor | None = None,
        our_turn: Callable[[], bool] = lambda: True,
    ) -> None:
        """Start at each receiver's cursor; a new receiver starts at the beginning of the log.

        Args:
            log: log with job events and cursors; receives reports.
            registry: registered receivers.
            started: start of this process (microseconds); events recorded before are delivered as `catchup`.
            mode: `replay`: start at the beginning, deliver nothing, only count; writes no cursor and no report.
            executor: runs the receivers; `None`: threads.
            our_turn: returns true if this process is the one that delivers; called from any thread before each delivery and each
                write, because another process that delivers has newer cursors.

        Raises:
            LogDamagedError: a cursor does not match its checksum.
        """
        self._log = log
        self._started = self._now = started
        self._replay = mode == "replay"
        self._executor: Executor = ThreadExecutor() if executor is None else executor
        self._our_turn = our_turn
        self.principal = ""
        """Principal in reports on deliveries."""
        self._lines = {receiver.name: self._line(receiver) for receiver in registry}
        starts: dict[Partition, int] = {}
        for lane in (lane for line in self._lines.values() for lane in line.lanes):
            starts[lane.partition] = min(lane.position, starts.get(lane.partition, lane.position))
        self._feed = Feed(log, starts)
        self._registry = registry
        self._reports: list[Message] = []
        self._reported: set[str] = set()
        """Ids of reports written by this process, whose settled events are ignored here."""

    # --- calls of the process ---------------------------------------------------------------------------------------------

    def step(self, now: int) -> int:
        """Collect finished calls, read new events, start due deliveries.

        Args:
            now: current time (microseconds).

        Returns:
            Number of records read and calls finished; 0: nothing to do until the log grows, a call ends, or `now` reaches the time
            of a
                retry.

        Raises:
            LogError: the log cannot be read or written. Nothing is lost: call again.
            EventError: a job event in the log violates its schema.
        """
        if not self._lines:
            return 0
        self._now = now
        self._take_settled()
        done = 0
        for line in self._lines.values():
            for lane in line.lanes:
                done += self._collect(line, lane, now)
                if line.stops:
                    continue
                done += self._fill(line, lane)
                if lane.delivery is None and lane.waiting and lane.retry_at <= now and self._our_turn():
                    batch = [notice for _, notice in islice(lane.waiting, _BATCH)]
                    lane.delivery = self._executor.start(line.receiver, batch, self._our_turn)
                    done += self._collect(line, lane, now)
        self._send_reports()
        self._save(least=_PASSED)
        return done

    def run_until_quiet(self, now: int) -> int:
        """Step until every delivery due by now was attempted and no call is running; then save all cursors.

        Failed deliveries wait for a later `now`.

        Returns:
            Number of notices delivered.

        Raises:
            LogError: as in `step`.
            EventError: as in `step`.
        """
        before = sum(line.delivered for line in self._lines.values())
        while True:
            if self.step(now):
                continue
            if not self.busy:
                break
            self._executor.wait()
        self._save(least=1)
        return sum(line.delivered for line in self._lines.values()) - before

    def resume(self, name: str, now: int) -> None:
        """Resume a disabled receiver at its cursor, with an event.

        Raises:
            UnknownCallbackError: no receiver has this name.
            NotDisabledError: it is not disabled.
            ReplayError: this is a replay.
            LogError: the log cannot be read or written.
        """
        self._registry.get(name)
        if self._replay:
            raise ReplayError(f"a replay resumes no callback; resume {name!r} on the live log")
        self._take_settled()
        line = self._lines[name]
        if not line.stops:
            raise NotDisabledError(name)
        for stop in line.stops.values():
            self._report(report(name, stop, "resumed", now, principal=self.principal))
        _resume(line, *line.stops)
        self._send_reports()

    def close(self) -> None:
        """Start no more calls, collect the finished ones and save all cursors; events of running calls are delivered again.

        Raises:
            LogError: a cursor or a report cannot be written.
        """
        for line in self._lines.values():
            for lane in line.lanes:
                if lane.delivery is not None:
                    lane.delivery.stop()
                    self._collect(line, lane, self._now)
        self._send_reports()
        self._save(least=1)

    # --- status -----------------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """True while calls are running."""
        return any(lane.delivery is not None for line in self._lines.values() for lane in line.lanes)

    @property
    def withheld(self) -> Mapping[str, int]:
        """Number of notices that a replay has not delivered, by receiver."""
        return {name: line.withheld for name, line in self._lines.items()}

    def status(self) -> list[CallbackStatus]:
        """Return each receiver's status as of the last step. Callable from any thread."""
        return [
            CallbackStatus(
                name,
                sum(max(self._feed.end(lane.partition) - lane.position, 0) for lane in line.lanes),
                line.delivered,
                line.failed,
                line.withheld,
                next((stop.message for stop in list(line.stops.values())), None),
                next((lane.failure for lane in line.lanes if lane.failure is not None), None),
                min((lane.retry_at for lane in line.lanes if lane.failures), default=None),
            )
            for name, line in self._lines.items()
        ]

    # --- reading ----------------------------------------------------------------------------------------------------------

    def _line(self, receiver: Receiver) -> _Line:
        cursor = {} if self._replay else self._log.cursor(cursor_name(receiver.name))
        # A cursor beyond the end is from a newer copy of the log: all events from there on are new.
        selector = receiver.selector
        starts = [(place, min(cursor.get(place, 0), self._log.end(place))) for place in partitions_of(self._log, selector)]
        lanes = [Lane(partition, start, start, start) for partition, start in starts]
        if isinstance(selector, BudgetSelector):
            return _Line(receiver, lanes, Selector(), frozenset({BudgetCrossed.TYPE}))
        levels: frozenset[str] = selector.levels
        wanted = frozenset(name for name, level in LEVELS.items() if not levels or level in levels)
        return _Line(receiver, lanes, replace(selector, labels={}), wanted)

    def _fill(self, line: _Line, lane: Lane) -> int:
        """Read the next records for a lane that has room."""
        if len(lane.waiting) >= _BATCH:
            return 0
        looked = 0
        for record in self._feed.records(lane.partition, lane.read):
            if len(lane.waiting) >= _BATCH:
                break
            looked += 1
            lane.read = record.offset + 1
            if record.message.type not in line.wanted:
                continue
            notice = self._notice(line, record)
            if notice is None:
                continue
            if self._replay:
                line.withheld += 1
            else:
                lane.waiting.append((record.offset, notice))
        lane.passed()
        return looked

    def _notice(self, line: _Line, record: Record) -> Told | None:
        event, selector = self._feed.event(record), line.receiver.selector
        mode: NoticeMode = "catchup" if event.recordedtime < self._started else "live"
        if isinstance(selector, BudgetSelector):
            crossed = cast("Event[BudgetCrossed]", event)
            if selector.tenants and crossed.data.tenant not in selector.tenants:
                return None
            return make_budget_notice(record.message, crossed, mode)
        transition = transition_of(event.data)
        # Labels are checked last, because the job's facts may have to be read from the log.
        if transition is None or not selects(line.unlabelled, transition, {}):
            return None
        facts = self._feed.facts(record)
        if not selects(selector, transition, facts.labels):
            return None
        return make_notice(record.message, event, transition, facts, mode)

    # --- outcomes of calls ------------------------------------------------------------------------------------------------

    def _collect(self, line: _Line, lane: Lane, now: int) -> int:
        """Apply the outcomes of a lane's calls."""
        if lane.delivery is None:
            return 0
        outcomes, over = lane.delivery.collect()
        if over:
            lane.delivery = None
        for outcome in outcomes:
            if outcome.kind == "done":
                lane.delivered()
                line.delivered += 1
            else:
                self._failed(line, lane, outcome, now)
        if over and line.stops:
            lane.rewind()
        return len(outcomes) + over

    def _failed(self, line: _Line, lane: Lane, outcome: Outcome, now: int) -> None:
        name, notice = line.receiver.name, lane.waiting[0][1]
        line.failed += 1
        given_up = lane.failed(outcome, now)
        if lane.failures == 1:
            _logger.warning("callback %s failed on %s: %s", name, notice, outcome.message, extra=_fields(name, notice, outcome))
        if line.stops or not (given_up or outcome.kind == "disable"):
            return
        stop = Stop.at(name, notice, outcome.message)
        self._reports.append(report(name, stop, "failed", now, notice.id, self.principal))
        self._report(report(name, stop, "disabled", now, notice.id, self.principal))
        _logger.error(
            "callback %s is disabled until it is resumed: %s", name, outcome.message, extra=_fields(name, notice, outcome)
        )
        _disable(line, stop)

    def _take_settled(self) -> None:
        """Read new reports, and apply those of other processes (or of this one before a restart)."""
        for event in self._feed.advance():
            line = self._lines.get(event.data.name)
            if line is None or self._replay:
                continue
            if event.causationid in self._reported:
                self._reported.remove(event.causationid)
            elif event.data.outcome == "disabled":
                _disable(line, _stop_of(event))
            elif event.data.outcome == "resumed":
                _resume(line, event.data.effect)

    # --- writes -----------------------------------------------------------------------------------------------------------

    def _report(self, message: Message) -> None:
        self._reports.append(message)
        self._reported.add(message.id)

    def _send_reports(self) -> None:
        if self._reports and self._our_turn():
            self._log.append("jobs", self._reports)
            self._reports = []

    def _save(self, least: int) -> None:
        """Save the cursors of delivered notices, and those that skipped at least `least` offsets."""
        if self._replay:
            return
        for name, line in self._lines.items():
            moved = [lane for lane in line.lanes if lane.unsaved or lane.position - lane.saved >= least]
            if not moved:
                continue
            if not self._our_turn():
                return
            self._log.move_cursor(cursor_name(name), {lane.partition: lane.position for lane in moved})
            for lane in moved:
                lane.saved, lane.unsaved = lane.position, False


def _fields(name: str, notice: Told, outcome: Outcome) -> dict[str, str]:
    about = {"job": notice.job} if isinstance(notice, Notice) else {"tenant": notice.tenant}
    return {"callback": name, **about, "event_id": notice.id, "reason": outcome.message}


def _disable(line: _Line, stop: Stop) -> None:
    line.stops[stop.effect] = stop
    for lane in line.lanes:
        if lane.delivery is None:
            lane.rewind()
        else:
            lane.delivery.stop()


def _resume(line: _Line, *effects: str) -> None:
    for effect in effects:
        line.stops.pop(effect, None)
    for lane in line.lanes:
        lane.calm()


def _stop_of(event: Event[EffectSettled]) -> Stop:
    return Stop("", event.clusterid, event.data.effect, event.data.message)
