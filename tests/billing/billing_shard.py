"""The billing stage on a log in memory, through the processor as it runs everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from job_programs import CLUSTER, HOUR, Input, Program

from engine.billing.stage import BillingStage
from engine.billing.state import State
from engine.events import Event, Message, Topic, encode
from engine.events.inputs import NodeObserved
from engine.events.outcomes import Accounted
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor


def opened(log: MemoryLog, *, batch: int = 500, every: int = 100_000, number: int = 0) -> Processor[State]:
    """Return an open shard of billing."""
    processor = Processor(log, BillingStage(), number, batch=batch, snapshot_every=every)
    processor.open()
    return processor


def append(log: MemoryLog, inputs: Iterable[Input]) -> None:
    """Append inputs in their order."""
    for topic, event in inputs:
        log.append(topic, [encode(event, CLUSTER if topic == "cluster" else None)])


def tick(now: int) -> Input:
    """Return a fact of the cluster that changes nothing but the time."""
    data = NodeObserved("clock")
    return "cluster", Event(f"tick-{now}", "test", data.TYPE, "clock", now, now, 0, "", "", CLUSTER, data)


def run(
    program: Program, first: Topic | None = None, after: Callable[[Processor[State]], object] = lambda _: None
) -> tuple[MemoryLog, Processor[State]]:
    """Let a shard take a program: input by input as it comes, or all of one topic before the other one.

    In the end it hears that six hours have passed, and another one: what was said of an hour to come has come by then.

    Args:
        program: what happens.
        first: a topic.
        after: called after each input.
    """
    log = MemoryLog(clock=lambda: 1 << 60)
    processor = opened(log)
    for given in program.inputs if first is None else sorted(program.inputs, key=lambda given: given[0] != first):
        append(log, [given])
        processor.step()
        after(processor)
    for hours in (6, 7):
        append(log, [tick(program.now + hours * HOUR)])
        processor.run_until_quiet()
    return log, processor


def messages(log: MemoryLog) -> list[Message]:
    """Return what a shard has written, without what depends on how inputs fall into commits."""
    return [record.message for record in log.scan(["billing", "dead-letters"]) if record.message.type != Accounted.TYPE]
