"""What is measured on Kafka: each function takes one measure and returns its figures; budgets stand in `kafka`."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka_latency import Latencies, percentile
from kafka_place import Place, Worker, place

from engine.events import Message
from engine.simulation.workload import OBSERVATIONS, lives

__all__ = ["Load", "Rates", "burst_and_restart", "rates", "sustained"]

_BEGIN: Final = 1_700_000_000_000_000
_REPLICAS: Final = 4
_WARM: Final = 0.1
"""Part of the inputs after which the clock starts: processes have started and their first transactions are done."""
_POLL_SECONDS: Final = 0.05
_LONGEST_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Load:
    """How much is done."""

    rounds: int = 3
    observations: int = 200_000
    """Of one round."""
    rate: int = 4_000
    """Observations a second, sustained."""
    settle_seconds: float = 10.0
    """Before a window begins."""
    window_seconds: float = 30.0
    burst_rate: int = 10_000
    burst_seconds: float = 120.0
    faust_share: int = 8
    """Faust is given so many times less to do: it would take minutes, and its rate does not depend on it."""


@dataclass(slots=True)
class Rates:
    """Inputs a second, one of each round."""

    stage: list[float] = field(default_factory=list)
    stage_cpu: list[float] = field(default_factory=list)
    """Processor time of the worker for an input (microseconds)."""
    two_workers: list[float] = field(default_factory=list)
    aiokafka: list[float] = field(default_factory=list)
    aiokafka_cpu: list[float] = field(default_factory=list)
    tuned: list[float] = field(default_factory=list)
    """aiokafka with Lahar's own settings."""
    tuned_cpu: list[float] = field(default_factory=list)
    confluent: list[float] = field(default_factory=list)
    faust: list[float] = field(default_factory=list)
    per_input: float = 0.0
    """Records that the stage writes for an input."""
    size: int = 0
    """Bytes of each: key, headers and value."""

    def ratio(self, other: Sequence[float]) -> float:
        """Return the median over the rounds of the stage's rate against another's of the same round."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.stage, other, strict=True))


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
    """Let the stage and those it is compared with take the same inputs from the same topics, one after the other, in rounds."""
    found = Rates()
    messages = list(lives(range(load.observations // OBSERVATIONS // _REPLICAS), _REPLICAS, _BEGIN))
    for turn in range(1, load.rounds + 1):
        say(f"round {turn} of {load.rounds}")
        with place(bootstrap) as where:
            where.append(messages)
            _round(where, len(messages), found)
        _faust(bootstrap, messages[: len(messages) // load.faust_share], found)
        with place(bootstrap) as where:
            where.append(messages)
            with where.lahar(0, 2) as one, where.lahar(1, 2) as other:
                found.two_workers.append(_drain(where, where.stage_groups(), [one, other], len(messages))[0])
    return found


def _round(where: Place, total: int, found: Rates) -> None:
    with where.lahar() as worker:
        rate, cpu = _drain(where, where.stage_groups(), [worker], total)
        worker.stop()
    found.stage.append(rate)
    found.stage_cpu.append(cpu)
    found.per_input, found.size = where.outputs()
    for name, rates, times in (
        ("aiokafka", found.aiokafka, found.aiokafka_cpu),
        ("aiokafka-tuned", found.tuned, found.tuned_cpu),
        ("confluent", found.confluent, []),
    ):
        with where.forwarder(name, found.per_input, found.size) as worker:
            rate, cpu = _drain(where, where.forwarder_groups(name), [worker], total)
        rates.append(rate)
        times.append(cpu)


def _faust(bootstrap: str, messages: Sequence[Message], found: Rates) -> None:
    with place(bootstrap) as where:
        where.append(messages)
        with where.faust() as worker:
            found.faust.append(_drain(where, [where.settings.group("faust")], [worker], len(messages))[0])


def sustained(bootstrap: str, load: Load) -> dict[str, float]:
    """Feed at a steady rate; return the worker's share of a core, latencies and commit interval (milliseconds) in a window."""
    with place(bootstrap) as where, where.lahar() as worker, Latencies(where) as latencies:
        seconds = load.settle_seconds + load.window_seconds
        with where.feeder(load.rate, seconds + 2) as feeder:
            where.wait_until(where.stage_groups(), 1, [worker], 60)
            time.sleep(load.settle_seconds)
            latencies.begin()
            before, began = worker.cpu(), time.monotonic()
            time.sleep(load.window_seconds)
            cpu = (worker.cpu() - before) / (time.monotonic() - began)
            found, interval = latencies.end()
            fed = _result(feeder)
        return {
            "rate": fed["rate"],
            "cpu": cpu,
            "commit_interval_ms": interval,
            "p50_ms": percentile(found, 0.50),
            "p99_ms": percentile(found, 0.99),
            "events": len(found),
        }


def burst_and_restart(bootstrap: str, load: Load) -> dict[str, float]:
    """Feed a burst and wait until nothing waits; then kill the worker and start another on the jobs that it leaves."""
    with place(bootstrap) as where:
        groups = where.stage_groups()
        with where.lahar() as worker:
            # One pod a job: so many jobs make the restart slow, if anything does.
            with where.feeder(load.burst_rate, load.burst_seconds, replicas=1) as feeder:
                fed = _result(feeder)
            ended = time.monotonic()
            total = where.appended()
            lag = total - where.taken(groups)
            absorbed = where.wait_until(groups, total, [worker], _LONGEST_SECONDS) - ended
            worker.kill()
        where.append(list(lives(range(int(fed["jobs"]) + 1_000, int(fed["jobs"]) + 1_100), 1, time.time_ns() // 1000)))
        began = time.monotonic()
        with where.lahar() as worker:
            restarted = where.wait_until(groups, total + 1, [worker], _LONGEST_SECONDS) - began
        return {"rate": fed["rate"], "lag": lag, "absorbed_s": max(absorbed, 0.0), "jobs": fed["jobs"], "restart_s": restarted}


def _result(feeder: Worker) -> dict[str, float]:
    found: dict[str, float] = json.loads(feeder.result())
    return found
