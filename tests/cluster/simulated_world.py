"""The whole loop: a cluster, watches, the engine, its actuator, and people who delete pods and give commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

from api_server import Object, uid_of
from cluster_programs import Program
from control_plane import Cluster
from engine_shard import EngineShard, Taking
from pod_actuator import Actuator, Fault
from pod_lives import Life
from simulated_time import SECOND, Timeline
from simulated_watch import Watch

from engine.events import Event
from engine.events.actions import DelaysCancelled, EffectRequested, TimerCancelled, TimerFired, TimerSet
from engine.events.inputs import CommandIssued, EffectReported
from engine.events.outcomes import Accounted
from engine.lifecycle.stage import LifecycleStage

NAMESPACE = "research"
QUIET = 4 * 3600 * SECOND
"""Where timers alone led to timers alone for so long, the engine waits for something outside: a silent node (microseconds)."""
_TIMERS = (Accounted, DelaysCancelled, TimerCancelled, TimerFired, TimerSet)


def _stream(first: list[Any], then: Any) -> Callable[[], Any]:
    """Return what gives the entries of a list one by one, and then always the same."""
    values: Iterator[Any] = chain(first, repeat(then))
    return lambda: next(values)


class World:
    """One run of a program."""

    def __init__(self, program: Program, stage: LifecycleStage | None = None) -> None:
        """Build everything; nothing happens yet.

        Args:
            program: what is to happen.
            stage: what decides, if not the engine's stage as it is.
        """
        self.timeline = Timeline()
        self.engine = EngineShard(lambda: self.timeline.now, stage)
        self.cluster = Cluster(self.timeline, _stream(program.lives, Life(runs=5)))
        self.actuator = Actuator(self.cluster, self._reported, _stream(program.faults, Fault()), NAMESPACE)
        doubled = _stream(program.doubled, then=False)
        self.watches = {
            kind: Watch(self.cluster.api, kind, self.timeline, self.engine.see, lag=program.lags.get(kind, 0.0), doubled=doubled)
            for kind in ("Node", "Job", "Pod")
        }
        self.program = program
        self.job_ids: list[str] = []
        self.listeners: list[Callable[[Taking], None]] = []
        """Called with each input that the engine has taken."""
        self._reports = 0
        self._moved = self.timeline.now
        """When the engine last wrote something that is not about timers alone (microseconds)."""

    # --- running --------------------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Submit the jobs, carry out all steps, and let everything come to rest."""
        for manifest in self.program.jobs:
            self.job_ids.append(uid_of(self.cluster.api.create(manifest)))
        for step in self.program.steps:
            self.wait(step.wait)
            getattr(self, step.what)(*step.args)
            self._run_engine()
        self.come_to_rest()

    def wait(self, seconds: float) -> None:
        """Let time pass; engine timers and everything in the cluster happen in their order."""
        reached: list[bool] = []
        self.timeline.after(seconds, lambda: reached.append(True))
        while not reached:
            self._advance()

    def come_to_rest(self) -> None:
        """Mend all watches, and go on until nothing is scheduled and the engine's timers lead to nothing but timers."""
        while True:
            self._moved = self.timeline.now
            while self.timeline.due is not None or self._timer() is not None:
                self._advance()
            given = self.engine.given
            for watch in self.watches.values():
                watch.relist()
            self._run_engine()
            if self.timeline.due is None and given == self.engine.given:
                return

    def _timer(self) -> int | None:
        """When the engine's next timer fires (microseconds); `None`: at rest, none that leads to anything is left."""
        timer = self.engine.due
        return timer if timer is not None and timer < self._moved + QUIET else None

    def _advance(self) -> None:
        due, timer = self.timeline.due, self._timer()
        if timer is not None and (due is None or timer <= due):
            self.timeline.now = max(self.timeline.now, timer)
        else:
            self.timeline.step()
        self._run_engine()

    def _run_engine(self) -> None:
        for taking in self.engine.run():
            for event in taking.made:
                if not isinstance(event.data, _TIMERS):
                    self._moved = self.timeline.now
                if isinstance(event.data, EffectRequested):
                    self.actuator.perform(event)
            for listener in self.listeners:
                listener(taking)

    def _reported(self, request: Event[Any], report: EffectReported) -> None:
        self._reports += 1
        self.engine.give(report, request.subject, f"report-{self._reports}")

    # --- steps ----------------------------------------------------------------------------------------------------------------

    def command(self, job: int, action: str, task: str, index: int) -> None:
        """Give a command to a job or a part of it."""
        self.engine.give(CommandIssued(action, by="ann", task=task, index=index), self.job_ids[job])

    def scale(self, job: int, replicas: int) -> None:
        """Give the first task of a job another number of replicas."""
        found = self._job(job)
        if found is not None:

            def change(content: Object) -> None:
                content["spec"]["tasks"][0]["replicas"] = replicas

            self.cluster.api.update("Job", NAMESPACE, found["metadata"]["name"], change)

    def delete_job(self, job: int) -> None:
        """Delete a job's object."""
        found = self._job(job)
        if found is not None:
            self.cluster.api.delete("Job", NAMESPACE, found["metadata"]["name"])

    def _job(self, job: int) -> Object | None:
        return next((found for found in self.cluster.api.list("Job") if uid_of(found) == self.job_ids[job]), None)

    def _pod(self, which: int) -> Object | None:
        pods = self.cluster.pods()
        return pods[which % len(pods)] if pods else None

    def delete_pod(self, which: int, grace: int | None) -> None:
        """Delete one of the pods, as `kubectl delete pod` does; with grace 0, as `--force --grace-period=0`."""
        pod = self._pod(which)
        if pod is not None:
            self.cluster.api.delete("Pod", NAMESPACE, pod["metadata"]["name"], grace=grace)

    def evict_pod(self, which: int) -> None:
        """Evict one of the pods that has not ended, as a drain does."""
        pod = self._pod(which)
        if pod is not None and pod["status"]["phase"] in {"Pending", "Running"}:
            self.cluster.api.evict(NAMESPACE, pod["metadata"]["name"])

    def evict_by_kubelet(self, which: int) -> None:
        """Let the node of one of the pods run out of memory."""
        pod = self._pod(which)
        if pod is not None and "nodeName" in pod["spec"]:
            self.cluster.nodes[pod["spec"]["nodeName"]].evict(uid_of(pod))

    def silence(self, node: int) -> None:
        """Cut a node off."""
        self.cluster.silence(f"n{node}")

    def restore(self, node: int) -> None:
        """Let a node speak again."""
        self.cluster.restore(f"n{node}")

    def remove_node(self, node: int) -> None:
        """Lose a node for good; another one takes its place."""
        if not self.cluster.nodes[f"n{node}"].gone:
            self.cluster.remove_node(f"n{node}")
            self.cluster.add_node(f"spare{node}")

    def taint(self, node: int) -> None:
        """Put a node into repair for a while."""
        self.cluster.taint(f"n{node}")

    def sever(self, kind: str, seconds: float) -> None:
        """Lose the watch of a kind for a while; a relist follows."""
        watch = self.watches[kind]
        watch.sever()
        self.timeline.after(seconds, watch.relist)

    def restart(self) -> None:
        """Kill the engine's process and start it anew."""
        self.engine.restart()


def run(program: Program, stage: LifecycleStage | None = None) -> World:
    """Run a program to its rest."""
    world = World(program, stage)
    world.play()
    return world
