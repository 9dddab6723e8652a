"""All stages in one process: what it leaves behind when another process has taken its place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from engine.cli.output import Output
from engine.effects.dispatcher import cursor_name
from engine.effects.notice import Notice
from engine.effects.registry import Registry, callback
from engine.events import Event, encode
from engine.events.jobs import JobOpened
from engine.log.errors import FencedError, LogDamagedError, LogError
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.runtime.run import run
from engine.runtime.settings import Settings
from statemachines.spec import JobSpec


@pytest.mark.parametrize(
    ("error", "cursor"),
    [
        (FencedError("lifecycle/0", 1, 2), {}),
        (LogDamagedError("a snapshot does not match its checksum"), {Partition("job-events", 0): 1}),
    ],
)
def test_who_was_fenced_leaves_alone_how_far_callbacks_have_come(
    error: LogError, cursor: dict[Partition, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, told, returns = MemoryLog(), list[str](), threading.Event()
    opened = JobOpened("VCJob", "train", managed=True, spec=JobSpec())
    log.append("job-events", [encode(Event("1", "lahar", opened.TYPE, "job", 0, 0, 1, "job", "", "prod", opened))])

    def ring(notice: Notice) -> None:
        assert returns.wait(60)
        told.append(notice.id)

    def run_until_it_fails(*given: Callable[[], object]) -> None:
        step = given[-1]
        step()
        # The call ends, and nobody looks what became of it.
        returns.set()
        for thread in threading.enumerate():
            if thread.name == "callback bell":
                thread.join(60)
        raise error

    monkeypatch.setattr("engine.runtime.run.opened_at_start", lambda *_, **__: nullcontext(log))
    monkeypatch.setattr("engine.runtime.run.run_shares", run_until_it_fails)
    monkeypatch.setattr("engine.runtime.callbacks.registered", lambda *_: Registry([callback(name="bell")(ring)]))
    with pytest.raises(type(error)):
        run(Settings(log="memory:"), Output(), None)
    assert told == ["1"]
    assert log.cursor(cursor_name("bell")) == cursor
