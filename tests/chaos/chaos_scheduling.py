"""A scheduling worker as the victim: jobs that ask to be scheduled, a lifecycle worker that answers, a cluster that obeys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from broker import Cluster
from chaos_stages import PatientLog, StagesWorld, holds
from chaos_table import Row
from chaos_world import SHARDS
from scheduled_jobs import ScheduledJobs

from engine.log.port import Partition


class ScheduledWorld(StagesWorld):
    """A lifecycle worker, two scheduling workers of which one stands by, and jobs."""

    def __init__(self, cluster: Cluster, schedule: str, folder: Path, most: int) -> None:
        """Start the workers.

        Args:
            cluster: three brokers.
            schedule: its name; begins with its letter.
            folder: for what workers say.
            most: jobs that there may be.
        """
        super().__init__(cluster, schedule, folder)
        self._jobs = ScheduledJobs(PatientLog(self.log), SHARDS, most)
        self._submitted = 0
        self.start("answers")
        self.victim, self._heir = self.scheduling.workers

    def act(self) -> None:
        """Let the cluster obey."""
        self._jobs.bound()

    # --- faults -------------------------------------------------------------------------------------------------------------

    def kill(self, jobs: int) -> None:
        """Kill the worker when some of so many new jobs are bound; it is started anew."""
        self._bind_some(jobs)
        self.victim.kill()
        self.victim.start()
        self._run_all()

    def freeze(self, jobs: int) -> None:
        """Freeze the worker when some of so many new jobs are bound, until its heir has bound as many more; then let it run on."""
        self._bind_some(jobs)
        self.victim.freeze()
        self._submit(jobs)
        self._run_all()
        assert holds(self._heir)
        self.thaw(self.victim, lambda: self._submit(jobs))
        self._run_all()

    def lose_leader(self, place: Partition, jobs: int) -> None:
        """Kill the broker that leads a partition when some of so many new jobs are bound; it comes back when all run."""

        def meanwhile() -> None:
            self._submit(jobs)
            self._run_all()

        self._bind_some(jobs)
        self.without_leader(place, meanwhile)

    def _submit(self, jobs: int) -> None:
        self._jobs.submit(jobs)
        self._submitted += jobs

    def _bind_some(self, jobs: int) -> None:
        self.until(lambda: holds(self.victim), "the shard is the victim's")
        before = self._jobs.bound()
        self._submit(jobs)
        self.until(lambda: self._jobs.bound() > before, "a job is bound")

    def _run_all(self) -> None:
        self.until(self._jobs.all_run, "all jobs run")

    # --- the end ------------------------------------------------------------------------------------------------------------

    def finish(self, note: Callable[[Row], None], faults: str) -> None:
        """Let workers end, note the row, and check that it is clean."""
        seconds = self.seconds
        self.end()
        found = self._jobs.found()
        figures = (found.outputs, found.lost, found.doubled, len(found.faults), self.came_back)
        note(Row(self.schedule, self._submitted, faults, seconds, *figures, seed=0, remarks="events are jobs of three pods"))
        self._jobs.must_be_sound()
