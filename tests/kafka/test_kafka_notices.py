"""Notices of preemption on Kafka: workers are killed between announcement and deadline, and somebody answers while none runs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lahar_command import Command
from log_checker import faults_of
from notice_story import FAR, NEAR, PODS, SCHEDULER, NoticeStory
from scheduled_jobs import written
from worker_process import Lahar

from streams.log import KafkaLog
from streams.settings import KafkaSettings

Make = Callable[[int], KafkaLog]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Workers give notice, and are not billed for."""
    (tmp_path / "scheduler.yaml").write_text(SCHEDULER)
    return {"LAHAR_SCHEDULER_CONFIG": str(tmp_path / "scheduler.yaml"), "LAHAR_BILLING": "0"}


@contextmanager
def workers(settings: KafkaSettings, environment: dict[str, str], end: signal.Signals) -> Iterator[Lahar]:
    """One worker of either stage; in the end both get a signal. Yields that of scheduling."""

    def worker(stage: str) -> Lahar:
        return Lahar(settings, "worker", "--stage", stage, "--instance", "a", **environment)

    with worker("lifecycle") as lifecycle, worker("scheduling") as scheduling:
        yield scheduling
        for process in (scheduling, lifecycle):
            process.send(end)
        assert {process.wait() for process in (scheduling, lifecycle)} == {-end if end == signal.SIGKILL else 0}


def test_notices_outlive_the_workers(make_log: Make, settings: KafkaSettings, environment: dict[str, str]) -> None:
    log, lahar = make_log(3), Command.of(settings, **environment)
    story = NoticeStory(log, 3)
    with workers(settings, environment, signal.SIGKILL) as scheduling:
        scheduling.until(lambda: story.run(f"low-{NEAR}", f"low-{FAR}"))
        for delay in (NEAR, FAR):
            story.submit_urgent(delay)
        scheduling.until(lambda: story.phase(f"low-{NEAR}") == story.phase(f"low-{FAR}") == "WillEvicted")
    assert [len(records) for records in story.notices().values()] == [1, 1]
    lahar("preemptions", "ack", f"low-{FAR}", "--by", "ann", "--no-process")
    with workers(settings, environment, signal.SIGTERM) as scheduling:
        scheduling.until(lambda: story.run(f"urgent-{NEAR}", f"urgent-{FAR}"))
        scheduling.until(lambda: all(records[-1].type == "lahar.reservation.ended.v1" for records in story.notices().values()))
    told = {delay: [record.type.split(".")[2] for record in records] for delay, records in story.notices().items()}
    assert told == {NEAR: ["opened", "executed", "ended"], FAR: ["opened", "acknowledged", "executed", "ended"]}
    for delay, records in story.notices().items():
        executed = records[-2]
        assert (executed.data.change, executed.data.victims) == (
            "DeadlinePassed" if delay == NEAR else "Acknowledged",
            [f"low-{delay}"],
        )
        assert (executed.recordedtime >= records[0].data.deadline) is (delay == NEAR)
        assert records[-1].data.outcome == "bound"
        assert story.reasons(f"low-{delay}") == ["PreemptedByNotice"] * PODS
        assert (story.phase(f"urgent-{delay}"), story.phase(f"low-{delay}")) == ("Running", "Pending")
    assert (written(log).lost, written(log).doubled, faults_of(log)) == (0, 0, [])
    assert all(record["ok"] for record in lahar.records("verify"))
