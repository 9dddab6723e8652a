"""Random stories of a deployment: nodes, queues and jobs come, change and go, also after notices; decisions are refused or late."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from deployment import Deployment, task, vcjob

from engine.events.inputs import Taint
from engine.events.preemptions import NoticeOpened
from engine.scheduling.stage import SchedulingStage

STEPS = 14


class Story:
    """A deployment, and what happens to it."""

    def __init__(self, seed: int, make: Callable[[], SchedulingStage], every: int = 100_000) -> None:
        self.chance = Random(seed)  # noqa: S311 - a story, not a secret
        self.deployment = Deployment(stage=make, every=every)
        self.jobs: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.tight = self.chance.random() < 0.5
        """One queue, few nodes, and privileged jobs that find no place."""
        for _ in range(2 if self.tight else self.chance.randint(1, 3)):
            self._node()
        self._queue()
        self._tenant()
        self.deployment.apply("Tenant", "rich", priority=5, mayPreempt=True)
        self.deployment.apply("PriorityClass", "high", value=1000)
        self._job()
        self._job()
        self.deployment.settle()
        self.pause: Callable[[], object] = lambda: None
        """Called after each step, and while decisions have no answer."""

    def step(self) -> None:
        """Let something happen, and time pass."""
        deployment, chance = self.deployment, self.chance
        deployment.lazy = chance.random() < 0.2
        if chance.random() < 0.15:  # what was decided on is no more when lifecycle hears of it
            deployment.deaf = True
            deployment.wait(chance.choice((1, 2, 2, 70)))
            self._happen()
            deployment.settle()
            self.pause()
            deployment.wait(chance.choice((0, 1, 2, 70)))
            deployment.deaf = False
        self._happen()
        deployment.settle()
        deployment.wait(chance.randint(1, 3))

    def _happen(self) -> None:
        common = (self._job, self._job, self._node, self._lose, self._end, self._command, self._scale, self._queue, self._unbind)
        crowd = (self._job, self._urgent, self._urgent, self._urgent, self._urgent, self._answer, self._answer, self._tenant)
        others = (self._job, self._end, self._end, self._urgent, self._cordon)
        self.chance.choice((*common, *(crowd if self.tight else others)))()

    def _node(self) -> None:
        chance, name = self.chance, f"n{self.chance.randint(0, 5)}"
        if name in self.nodes:
            return
        taints = [Taint("special")] if not self.tight and chance.random() < 0.2 else []
        self.nodes[name] = {
            "cpu": chance.choice((2, 4, 8)),
            "gpu": chance.choice((0, 0, 2)),
            "pods": chance.choice((3, 20)),
            "labels": {"zone": chance.choice("ab")},
            "taints": taints,
        }
        self.deployment.node(name, **self.nodes[name])

    def _cordon(self) -> None:
        if self.nodes:
            name = self.chance.choice(sorted(self.nodes))
            self.deployment.node(name, **self.nodes[name], unschedulable=self.chance.random() < 0.7)

    def _lose(self) -> None:
        if len(self.nodes) > 1:
            name = self.chance.choice(sorted(self.nodes))
            del self.nodes[name]
            self.deployment.lose_node(name)

    def _job(self) -> None:
        chance, job = self.chance, f"j{len(self.jobs)}"
        size = chance.randint(1, 4)
        pod: dict[str, Any] = {"cpu": chance.choice((1, 1, 2)), "gpus": chance.choice((0, 0, 0, 1))}
        if chance.random() < 0.3:
            pod["nodeSelector"] = {"zone": chance.choice("ab")}
        if chance.random() < 0.3:
            pod["tolerations"] = [{"key": "special", "operator": "Exists"}]
        if chance.random() < 0.2:
            pod["labels"] = {"volcano.sh/preemptable": "false"}
        tasks = [task("w", size, **pod)]
        if chance.random() < 0.3:
            tasks.append(task("m", 1))
        minimum = chance.randint(1, size)
        spec: dict[str, Any] = {"minAvailable": minimum, "queue": "q" if self.tight else chance.choice(("default", "q"))}
        if chance.random() < (0.1 if self.tight else 0.3):
            spec["priorityClassName"] = "high"
        self._submit(job, vcjob(job, *tasks, **spec), onPreempted=chance.choice(("Requeue", "Requeue", "Abort", "Terminate")))

    def _urgent(self) -> None:
        """Submit a privileged job: a gang of pods that are alike."""
        chance, job, size = self.chance, f"j{len(self.jobs)}", self.chance.randint(1, 3)
        pods = task("w", size, cpu=chance.choice((1, 1, 2)))
        self._submit(job, vcjob(job, pods, minAvailable=size, queue="q", priorityClassName="high"), preempt=True)

    def _submit(self, job: str, manifest: dict[str, Any], **lahar: Any) -> None:
        if self.chance.random() < 0.1:
            manifest["metadata"]["labels"] = {"lahar/tenant": "rich"}
        self.jobs[job] = {**manifest, "lahar": lahar}
        self.deployment.submit(job, self.jobs[job])

    def _answer(self) -> None:
        """Answer the last notice, as its victims or as its preemptor."""
        opened = [event.data for event in self.deployment.events(NoticeOpened)]
        if opened and self.chance.random() < 0.3:
            self.deployment.command(opened[-1].preemptor, "WithdrawNotice")
        elif opened:
            for victim in opened[-1].victims:
                self.deployment.command(victim, "AcknowledgeNotice")

    def _tenant(self) -> None:
        self.deployment.apply("Tenant", "default", mayPreempt=self.chance.random() < 0.9)

    def _end(self) -> None:
        running = self.deployment.running()
        for uid in self.chance.sample(running, min(len(running), 2)):
            self.deployment.end(uid, self.chance.choice(("Succeeded", "Succeeded", "Failed")))

    def _command(self) -> None:
        action = self.chance.choice(("AbortJob", "ResumeJob", "RestartJob", "CompleteJob"))
        self.deployment.command(self.chance.choice(sorted(self.jobs)), action)

    def _scale(self) -> None:
        job = self.chance.choice(sorted(self.jobs))
        manifest = self.jobs[job]
        changed = {**manifest["spec"]["tasks"][0], "replicas": self.chance.randint(1, 5)}
        spec = {**manifest["spec"], "tasks": [changed, *manifest["spec"]["tasks"][1:]], "minAvailable": 1}
        self.jobs[job] = {**manifest, "spec": spec}
        self.deployment.update(job, self.jobs[job])

    def _queue(self) -> None:
        limits = {} if self.tight else {"capability": {"cpu": "6"}, "deserved": {"cpu": "4"}}
        self.deployment.apply(
            "Queue",
            "q",
            weight=2,
            state=self.chance.choice(("Open", "Open", "Open" if self.tight else "Closed")),
            preemption=self.chance.choice((*["notice"] * (9 if self.tight else 2), "immediate", "none")),
            preemptionDelaySeconds=self.chance.choice((3, 8)),
            reservationSeconds=self.chance.choice((3, 60)),
            minRunSeconds=self.chance.choice((0, 0, 3)),
            **limits,
        )

    def _unbind(self) -> None:
        """A node does not take a pod that was bound to it: the next binding is reported to have failed."""
        self.deployment.failing = True


def told(
    seed: int,
    make: Callable[[], SchedulingStage],
    *,
    restarts: bool = False,
    after: Callable[[Story], object] = lambda _: None,
) -> Deployment:
    """Tell a story; return where it has led.

    Args:
        seed: says which.
        make: makes the stage.
        restarts: let another process take the shard of scheduling over at each pause, from a snapshot that each commit writes.
        after: called at each pause: after each step, and while decisions have no answer.
    """
    story = Story(seed, make, every=1 if restarts else 100_000)

    def pause() -> None:
        after(story)
        if restarts:
            story.deployment.restart()

    story.pause = pause
    for _ in range(STEPS):
        story.step()
        pause()
    return story.deployment
