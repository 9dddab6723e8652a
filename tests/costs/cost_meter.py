"""What one input costs on its way through the product: CPU time and memory, against budgets.

The budget of time is a multiple of what ordinary inputs take in the same process and minute, so that a slow or busy machine moves
both; a timer of CPU time ends what never would end by itself.
"""

from __future__ import annotations

import gc
import signal
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any

from hostile_inputs import ORDINARY
from pydantic_core import to_json

from engine.events import Message, decode
from engine.events.errors import EventError
from engine.kubernetes.edge import Ignored, Refused, Taken, to_inputs
from engine.kubernetes.list_moment import ListMoments
from engine.kubernetes.owner_chains import OwnerChains
from engine.kubernetes.reading.documents import read_documents
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.state import ShardState

NOW = 1_772_323_200_000_000

FIXED = 1200
"""Times an ordinary input that any input may take, whatever its size: three times what the dearest one within all bounds takes."""
PER_KILOBYTE = 25
"""Times an ordinary input that each kilobyte may take beside that."""
FIXED_BYTES = 48 << 20
PER_BYTE = 400


class TooDearError(BaseException):
    """Raised when an input exceeds its budget; no `except Exception` of the product stops it."""


def process(content: bytes) -> list[str]:
    """Take a file in as `lahar ingest` and a shard do, up to all that is decided; returns the outcomes."""
    stage, moments = LifecycleStage(), ListMoments(OwnerChains())
    state = stage.initial()
    outcomes: list[str] = []
    for item in read_documents(content):
        taken = to_inputs(item, "c1", NOW)
        inputs = [(taken.topic, message) for message in taken.messages] if isinstance(taken, Taken) else []
        outcomes += ["ignored"] * isinstance(taken, Ignored) + ["dead"] * isinstance(taken, Refused)
        outcomes += [_outcome(stage, state, message) for _, message in moments.take(item.of_list, inputs)]
    return [*outcomes, *(_outcome(stage, state, message) for _, message in moments.end())]


def _outcome(stage: LifecycleStage, state: ShardState, message: Message) -> str:
    try:
        event = decode(message)
    except EventError:
        return "dead"
    if stage.absorbs(event.data.TOPIC):
        stage.absorb(state, event)
    decision = stage.decide(state, event, NOW)
    while True:
        try:
            stage.evolve(state, next(decision))
        except StopIteration as stop:
            outcome: str = stop.value
            return outcome


class Meter:
    """Budgets of this process and minute."""

    def __init__(self, run: Callable[[bytes], Any] = process) -> None:
        self.run = run
        contents = [to_json(content) for content in ORDINARY]
        for content in contents:
            run(content)
        began = process_time()
        for content in contents * 3:
            run(content)
        self.ordinary = (process_time() - began) / len(contents) / 3
        """Seconds of CPU time of an ordinary input."""
        # So that the collection before each check visits what the last ones have left, and not the whole suite's objects.
        gc.collect()
        gc.freeze()

    def check(self, content: bytes) -> None:
        """Process an input within its budget of time, then once more within its budget of memory.

        Raises:
            TooDearError: it exceeds one of them.
        """
        with _cpu_time(self.ordinary * (FIXED + PER_KILOBYTE * len(content) / 1024)):
            self.run(content)
        tracemalloc.start()
        try:
            self.run(content)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        if peak > FIXED_BYTES + PER_BYTE * len(content):
            raise TooDearError(f"{peak:,} bytes of memory for {len(content):,} of input")


@contextmanager
def _cpu_time(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TooDearError(f"more than {seconds:.2f} s of CPU time")

    def pass_over(dropped: Any) -> None:
        if not isinstance(dropped.exc_value, TooDearError):
            unraisable(dropped)

    before, unraisable = signal.signal(signal.SIGPROF, ring), sys.unraisablehook
    # Python drops what is raised while it finalizes an object: it rings again then. What the tests before have left behind is to be
    # collected at nobody's cost.
    sys.unraisablehook = pass_over
    gc.collect()
    gc.disable()
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        gc.enable()
        sys.unraisablehook = unraisable
        signal.signal(signal.SIGPROF, before)
