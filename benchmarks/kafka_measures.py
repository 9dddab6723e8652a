"""What is measured on Kafka: each function takes one measure and returns its figures; budgets stand in `kafka`."""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_latency import Latencies, percentile
from kafka_place import Place, Worker, place
from workload import OBSERVATIONS, lives

from engine.events import Message

_BEGIN: Final = 1_700_000_000_000_000
_REPLICAS: Final = 4
_TAKERS: Final = ("stage", "aiokafka", "aiokafka-tuned", "confluent")
"""Who takes the same inputs from the same topic."""
_WARM_UP: Final = 2
"""The broker's warm-up has so many times fewer inputs than a round."""
_WARM: Final = 0.1
"""Part of the inputs after which the clock starts: processes have started and their first transactions are done."""
_NEW_JOBS: Final = 100
"""Are appended before a restart, so that every shard has something to commit."""
_FRESH: Final = 10_000_000
"""Numbers of jobs from which on no burst uses them."""
_POLL_SECONDS: Final = 0.05
_LONGEST_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Load:
    """How much is done."""

    rounds: int = 3
    """Of the comparison; so many windows of steady load and so many restarts as well."""
    observations: int = 200_000
    """Of one round of the comparison."""
    rate: int = 4_000
    """Observations a second, sustained."""
    settle_seconds: float = 10.0
    """Before the first window begins."""
    window_seconds: float = 30.0
    burst_rate: int = 10_000
    burst_seconds: float = 120.0
    faust_share: int = 8
    """Faust is given so many times less to do: it would take minutes, and its rate does not depend on it."""


@dataclass(slots=True)
class Rates:
    """What each taker reached, by its name; one figure of each round."""

    inputs: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Inputs a second."""
    cpu: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Processor time for an input (microseconds)."""
    per_input: float = 0.0
    """Records that the stage writes for an input."""
    size: int = 0
    """Bytes of each: key, headers and value."""

    def ratio(self, other: str) -> float:
        """Return the median over the rounds of the stage's rate against another's of the same round."""
        pairs = zip(self.inputs["stage"], self.inputs[other], strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)


class Window(NamedTuple):
    """What was seen of a worker under steady load from one moment to another."""

    rate: float
    """Observations that it took, a second."""
    cpu: float
    """Cores that it used."""
    events: float
    """Job-events of which a latency is known, for each observation taken."""
    commit_interval_ms: float
    p50_ms: float
    p99_ms: float


class Burst(NamedTuple):
    """What came of a burst, and of the restarts after it."""

    rate: float
    """Observations appended a second."""
    lag: int
    """Observations that waited when it ended."""
    absorbed_seconds: float
    """From its end until nothing waited."""
    jobs: int
    first_commits: list[float]
    """Of each restart: seconds until a shard had committed."""
    all_commits: list[float]
    """Of each restart: seconds until every shard had committed."""


def _drain(where: Place, groups: Sequence[str], workers: Sequence[Worker], total: int) -> tuple[float, float]:
    """Return the rate at which what waits is taken, and the processor time for an input (microseconds), both without the start."""
    began = at = time.monotonic()
    cpu = sum(worker.cpu() for worker in workers)
    first = done = 0
    deadline = began + _LONGEST_SECONDS
    while done < total:
        time.sleep(_POLL_SECONDS)
        done, at = where.taken(groups), time.monotonic()
        if done < total:
            for worker in workers:
                worker.must_live()
        if at > deadline:
            raise TimeoutError(f"{done:,} of {total:,} inputs taken after {_LONGEST_SECONDS:g} s")
        if not first and _WARM * total <= done < total:
            began, first, cpu = at, done, sum(worker.cpu() for worker in workers)
    taken = done - first
    return taken / (at - began), (sum(worker.cpu() for worker in workers) - cpu) / taken * 1e6


def rates(bootstrap: str, load: Load, say: Callable[[str], object]) -> Rates:
    """Let the stage and those it is compared with take the same inputs from the same topics, one after the other, in rounds.

    A short round that does not count goes before: the broker is slow until its JVM has compiled what it runs often. The order is
    turned about from round to round.
    """
    jobs = load.observations // OBSERVATIONS // _REPLICAS
    say("warm-up of the broker")
    warm = Rates()
    _round(bootstrap, _lives(jobs // _WARM_UP), _TAKERS, warm)
    found = Rates(per_input=warm.per_input, size=warm.size)
    messages = _lives(jobs)
    for turn in range(1, load.rounds + 1):
        say(f"round {turn} of {load.rounds}")
        _round(bootstrap, messages, _TAKERS if turn % 2 else reversed(_TAKERS), found)
        _faust(bootstrap, messages[: len(messages) // load.faust_share], found)
        _two_workers(bootstrap, messages, found)
    return found


def _lives(jobs: int) -> list[Message]:
    return list(lives(range(jobs), _REPLICAS, _BEGIN))


def _round(bootstrap: str, messages: Sequence[Message], takers: Iterable[str], found: Rates) -> None:
    with place(bootstrap) as where:
        where.append(messages)
        for name in takers:
            if name == "stage":
                with where.lahar() as worker:
                    _note(name, _drain(where, where.stage_groups(), [worker], len(messages)), found)
                    worker.stop()
                found.per_input, found.size = where.outputs()
            else:
                with where.forwarder(name, found.per_input, found.size) as worker:
                    _note(name, _drain(where, where.forwarder_groups(name), [worker], len(messages)), found)


def _faust(bootstrap: str, messages: Sequence[Message], found: Rates) -> None:
    with place(bootstrap) as where:
        where.append(messages)
        with where.faust() as worker:
            _note("faust", _drain(where, [where.settings.group("faust")], [worker], len(messages)), found)


def _two_workers(bootstrap: str, messages: Sequence[Message], found: Rates) -> None:
    with place(bootstrap) as where:
        where.append(messages)
        with where.lahar(0, 2) as one, where.lahar(1, 2) as other:
            _note("two-workers", _drain(where, where.stage_groups(), [one, other], len(messages)), found)


def _note(name: str, figures: tuple[float, float], found: Rates) -> None:
    rate, cpu = figures
    found.inputs[name].append(rate)
    found.cpu[name].append(cpu)


def sustained(bootstrap: str, load: Load, say: Callable[[str], object]) -> list[Window]:
    """Feed one worker at a steady rate and return what was seen in windows that follow one another.

    Raises:
        RuntimeError: the worker or the producer has ended before the last window has, or no event came in one.
    """
    with (
        place(bootstrap) as where,
        where.lahar() as worker,
        Latencies(where) as latencies,
        # Longer than all of it; it is killed at the end.
        where.feeder(load.rate, _LONGEST_SECONDS + load.rounds * load.window_seconds) as feeder,
    ):
        where.wait_until(where.stage_groups(), 1, [worker], 60)
        time.sleep(load.settle_seconds)
        found = []
        for turn in range(1, load.rounds + 1):
            say(f"window {turn} of {load.rounds}")
            found.append(window(where, worker, feeder, latencies, load.window_seconds))
        return found


def window(where: Place, worker: Worker, feeder: Worker, latencies: Latencies, seconds: float) -> Window:
    """Look at a worker that is fed.

    Args:
        where: where it works.
        worker: it.
        feeder: who feeds it.
        latencies: sees what it writes.
        seconds: for how long.

    Raises:
        RuntimeError: the worker has ended, it was not fed until the end, or no event came.
    """
    groups = where.stage_groups()
    latencies.begin()
    taken, cpu, began = where.taken(groups), worker.cpu(), time.monotonic()
    time.sleep(seconds)
    for process in (worker, feeder):
        process.must_live()
    taken, cpu, lasted = where.taken(groups) - taken, worker.cpu() - cpu, time.monotonic() - began
    seen, interval = latencies.end()
    if not seen:
        raise RuntimeError(f"no event came within {lasted:.0f} s; {taken:,} inputs were taken")
    return Window(
        rate=taken / lasted,
        cpu=cpu / lasted,
        events=len(seen) / max(taken, 1),
        commit_interval_ms=interval,
        p50_ms=percentile(seen, 0.50),
        p99_ms=percentile(seen, 0.99),
    )


def burst_and_restarts(bootstrap: str, load: Load, say: Callable[[str], object]) -> Burst:
    """Feed a burst and wait until nothing waits; then kill the worker and start another on its jobs, several times."""
    with place(bootstrap) as where:
        groups = where.stage_groups()
        with where.lahar() as worker:
            # One pod a job: so many jobs make the restart slow, if anything does.
            with where.feeder(load.burst_rate, load.burst_seconds, replicas=1) as feeder:
                fed: dict[str, float] = json.loads(feeder.result())
            ended = time.monotonic()
            total = where.appended()
            lag = total - where.taken(groups)
            absorbed = where.wait_until(groups, total, [worker], _LONGEST_SECONDS) - ended
        found = Burst(fed["rate"], lag, max(absorbed, 0.0), int(fed["jobs"]), [], [])
        for turn in range(1, load.rounds + 1):
            say(f"restart {turn} of {load.rounds}")
            first, last = _restart(where, _FRESH + turn * _NEW_JOBS)
            found.first_commits.append(first)
            found.all_commits.append(last)
        return found


def _restart(where: Place, job: int) -> tuple[float, float]:
    """Append something for every shard, start a worker, and kill it when nothing waits.

    Args:
        where: where the worker before was killed.
        job: number of the first of the new jobs.

    Returns:
        When a shard had committed, and when every shard had: seconds since the process began.
    """
    groups = where.stage_groups()
    before = [where.taken([group]) for group in groups]
    where.append(list(lives(range(job, job + _NEW_JOBS), 1, time.time_ns() // 1000)))
    began = time.monotonic()
    with where.lahar() as worker:
        first = where.wait_until(groups, sum(before) + 1, [worker], _LONGEST_SECONDS)
        each = [
            where.wait_until([group], count + 1, [worker], _LONGEST_SECONDS) for group, count in zip(groups, before, strict=True)
        ]
        where.wait_until(groups, where.appended(), [worker], _LONGEST_SECONDS)
    return first - began, max(each) - began
