"""What operators read of callbacks in the logs."""

from __future__ import annotations

import logging

import pytest
from effects_world import Clock, Listener, World, listen, opened

from engine.effects.errors import Disable
from engine.events.jobs import JobPhaseChanged


def test_a_failure_is_told_once_and_the_end_of_patience_too(world: World, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    first, _ = world.commit("job", opened(), JobPhaseChanged("Running", "Pending"))
    listener = Listener(OSError("no route"), OSError("no route"), Disable("enough"))
    dispatcher = world.dispatcher(listen(listener))
    for _ in range(3):
        dispatcher.run_until_quiet(clock.advance(3_600))
    failed, disabled = caplog.records
    assert (failed.levelno, disabled.levelno) == (logging.WARNING, logging.ERROR)
    assert disabled.getMessage().startswith("callback listener is disabled until it is resumed: ")
    for record in (failed, disabled):
        assert [record.__dict__[name] for name in ("callback", "job", "event_id")] == ["listener", "job", first]
    assert "no route" in failed.__dict__["reason"]
    assert "enough" in disabled.__dict__["reason"]
