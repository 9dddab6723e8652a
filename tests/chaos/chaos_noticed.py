"""Workers of both stages as victims, in turn, while notices of preemption are given, answered, withdrawn and executed."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final, Literal

from broker import Cluster
from chaos_feed import Subscriber, dice
from chaos_notices import Notices, unanswered, wrongly_ended
from chaos_schedules import until_in_sync
from chaos_stages import PatientLog, StagesWorld, holds
from chaos_table import Row
from chaos_workers import Worker
from chaos_world import SESSION_SECONDS, SHARDS, TRANSACTION_SECONDS, judged
from deployment import FakeCluster
from lahar_command import Command
from log_checker import faults_of
from notice_story import SCHEDULER
from notice_world import CONFIGURATION
from oracle import Verdict, compare
from scheduled_jobs import written

from engine.lifecycle.stage import LifecycleStage
from engine.log.port import Partition
from engine.scheduling.stage import SchedulingStage

Stage = Literal["lifecycle", "scheduling"]

_RATE: Final = 3
"""Seconds of the workers' clocks in one: rounds are a second apart, and each opens a notice at most."""
_BEHIND: Final = 6 * 3_600_000_000
"""By how much their clocks are behind in the beginning (microseconds): the log knows no time that is yet to come."""
_LANES: Final = 20
_MOMENTS: Final = ("opened", "given", "acknowledged", "withdrawn", "executed", "ended")
_QUIET_SECONDS: Final = 2.0
_STEPPED: Final = str(Path(__file__).with_name("stepped_worker.py"))


class NoticedWorld(StagesWorld):
    """Two workers of either stage, and jobs that are given notice all the time."""

    def __init__(self, cluster: Cluster, schedule: str, seed: int, folder: Path) -> None:
        """Start the workers.

        Args:
            cluster: three brokers.
            schedule: its name; begins with its letter.
            seed: of its dice.
            folder: for what workers say, and what they read.
        """
        super().__init__(cluster, schedule, folder)
        self._step = -(_RATE - 1) * (time.time_ns() // 1_000) - _BEHIND
        (folder / "clock").write_text(f"{self._step} {_RATE}")
        (folder / "scheduler.yaml").write_text(SCHEDULER)
        self._environment = {"LAHAR_SCHEDULER_CONFIG": str(folder / "scheduler.yaml"), "LAHAR_BILLING": "0"}
        for fleet in (self.lifecycle, self.scheduling):
            fleet.run_by([_STEPPED], LAHAR_CHAOS_CLOCK=str(folder / "clock"), **self._environment)
        self.seed = seed
        self.dice = dice(seed)
        self._moments = cycle(_MOMENTS)
        self.subscriber = Subscriber(self.settings, "preemptions", SHARDS)
        self.nodes = FakeCluster(PatientLog(self.log), SHARDS, self.now())
        self.notices = Notices(self.nodes, seed, _LANES)
        self.start("l0", "l1")

    def now(self) -> int:
        """Return what the workers' clocks show (microseconds)."""
        return time.time_ns() // 1_000 * _RATE + self._step

    def act(self) -> None:
        """Let the cluster obey, and those who were given notice do as they like."""
        self.nodes.now = self.now()
        self.nodes.obey()
        self.notices.act()

    # --- faults -------------------------------------------------------------------------------------------------------------

    def until_opened(self, more: int) -> None:
        """Return when so many more notices have been opened."""
        aim = self.notices.seen["opened"] + more
        self.until(lambda: self.notices.seen["opened"] >= aim, f"{more} more notices")

    def kill(self, stage: Stage) -> None:
        """Kill a worker that has a shard, just after something happened to a notice; it is started anew."""
        victim = self._victim(stage)
        self._until_a_moment()
        victim.kill()
        victim.start()

    def freeze(self, stage: Stage, notices: int) -> None:
        """Freeze a worker that has a shard until another one has taken over and more notices are given; then let it run on."""
        victim = self._victim(stage)
        heir = next(worker for worker in self._workers(stage) if worker is not victim)
        self._until_a_moment()
        victim.freeze()
        over = time.monotonic() + max(SESSION_SECONDS, TRANSACTION_SECONDS) + 2
        self.until(lambda: time.monotonic() > over and _has_shards(heir, stage), "its session and its transaction are over")
        self.until_opened(notices)
        self.thaw(victim)

    def lose_leader(self, place: Partition, notices: int) -> None:
        """Kill the broker that leads a partition; it comes back when more notices are given."""
        self._until_a_moment()
        self.without_leader(place, lambda: self.until_opened(notices))
        until_in_sync(self)

    def _workers(self, stage: Stage) -> list[Worker]:
        return (self.lifecycle if stage == "lifecycle" else self.scheduling).workers

    def _victim(self, stage: Stage) -> Worker:
        found: list[Worker] = []

        def one_holds() -> bool:
            found[:] = [worker for worker in self._workers(stage) if _has_shards(worker, stage)]
            return bool(found)

        self.until(one_holds, f"{stage} has a shard")
        return self.dice.choice(found)

    def _until_a_moment(self) -> None:
        kind = next(self._moments)
        before = self.notices.seen[kind]
        self.until(lambda: self.notices.seen[kind] > before, f"one more is {kind}")
        time.sleep(self.dice.uniform(0, 0.25))

    # --- the end ------------------------------------------------------------------------------------------------------------

    def finish(self, note: Callable[[Row], None], faults: str) -> None:
        """Let all notices and workers end, judge both stages, note the row, and check that it is clean."""
        self.notices.more = False
        self.until(self.notices.at_rest, "all notices are over")
        rested = self.now()
        self._until_quiet()
        seconds = self.seconds
        self.end()
        found, (unfit, unseen), verdicts = written(self.log), self._seen(), self._verdicts(rested)
        wrong = wrongly_ended(self.log) + unanswered(self.log) + faults_of(self.log)
        wrong += [difference for verdict in verdicts for difference in verdict.differences]
        counts = self.notices.seen
        remarks = f"events are notices: {counts['executed']} executed, {counts['withdrawn']} withdrawn; {counts['given']} answers"
        if wrong:
            remarks += f"; {len(wrong)} faults, the first: {wrong[0][:600]}"
        row = Row(
            self.schedule,
            counts["opened"],
            faults,
            seconds,
            found.outputs,
            sum(verdict.lost for verdict in verdicts) + found.lost + unseen,
            sum(verdict.doubled for verdict in verdicts) + found.doubled + unfit,
            sum(verdict.differing for verdict in verdicts),
            self.came_back,
            self.seed,
            remarks,
        )
        note(row)
        assert not wrong, wrong[:3]
        assert (row.lost, row.doubled, row.differing) == (0, 0, 0)
        assert all(record["ok"] for record in Command.of(self.settings, **self._environment).records("verify"))

    def _until_quiet(self) -> None:
        """Return when nothing has been written for a while: what was due has fired."""
        places = [Partition("job-events", number) for number in range(SHARDS)] + [Partition("scheduling", 0)]
        last: object = None
        since = time.monotonic()

        def quiet() -> bool:
            nonlocal last, since
            if (found := self.log.stable_ends(places)) != last:
                last, since = found, time.monotonic()
            return time.monotonic() - since > _QUIET_SECONDS

        self.until(quiet, "nothing is written any more")

    def _verdicts(self, rested: int) -> list[Verdict]:
        """Decide again what both stages have decided."""
        scheduling = partial(judged, self.settings, partial(SchedulingStage, CONFIGURATION), True, rested, None)
        lifecycle = partial(judged, self.settings, LifecycleStage, True, rested, None)
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            found = [pool.submit(scheduling, 0), *(pool.submit(lifecycle, number) for number in range(SHARDS))]
            return [verdict.result() for verdict in found]

    def _seen(self) -> tuple[int, int]:
        """Return how many records of notices an outside consumer has seen that it should not have, and how many it has not seen."""
        self.subscriber.finish()
        wrong = missing = 0
        for number, seen in self.subscriber.seen.items():
            right = {record.offset: record.message.id for record in self.log.read(Partition("preemptions", number), 0, 100_000)}
            sight = compare(seen, right)
            wrong, missing = wrong + sight.wrong, missing + sight.missing
        return wrong, missing

    def close(self) -> None:
        """End all that runs on it, and delete its topics."""
        self.subscriber.leave()
        super().close()


def _has_shards(worker: Worker, stage: Stage) -> bool:
    """Tell whether shards are open in a worker: of scheduling there is one; of lifecycle each has some, once it has begun."""
    return worker.works if stage == "lifecycle" else holds(worker)
