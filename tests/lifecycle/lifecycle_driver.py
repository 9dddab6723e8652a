"""Runs a lifecycle stage in memory as the processor would, and checks after every input what must always hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from engine.events import Data, Event, decode, encode
from engine.events.actions import ActionTaken, EffectRequested, EffectSettled, TimerSet
from engine.events.attempts import AttemptBound, AttemptEnded, AttemptRunning, AttemptStarted, AttemptTerminating
from engine.events.decisions import DecisionAccepted, DecisionEvent
from engine.events.ids import observation_id
from engine.events.inputs import (
    CommandIssued,
    CustomEventRaised,
    EffectReported,
    JobDeleted,
    JobObserved,
    JobSubmitted,
    JobUpdated,
    NodeDeleted,
    NodeObserved,
    PodDeleted,
    PodObserved,
)
from engine.events.jobs import JobOpened, JobPhaseChanged, TaskPhaseChanged
from engine.lifecycle import codec
from engine.lifecycle.evolve import peek
from engine.lifecycle.indexes import pods_on
from engine.lifecycle.job import Attempt, Job, category
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.state import ShardState
from statemachines.counters import Counters
from statemachines.replica import next_attempt_phase
from statemachines.spec import Requests
from statemachines.vocabulary import FINISHED_JOB_PHASES, TERMINAL_ATTEMPT_PHASES

SECOND = 1_000_000
START = 1_000_000 * SECOND
CLUSTER = "c1"
ELSEWHERE = "c2"
"""Another cluster."""
REQUESTS = Requests(cpu_milli=1000, memory_bytes=1 << 30)
SILENT = {"duplicate", "unchanged", "late"}


def vcjob(*tasks: dict[str, Any], name: str = "train", lahar: Any = None, **spec: Any) -> dict[str, Any]:
    """A vcjob whose tasks are given by what matters: name, replicas, …; the template is filled in."""
    container = {"name": "c", "image": "busybox:1.36", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    filled = [
        {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}, "replicas": 1, **task} for task in tasks
    ]
    manifest: dict[str, Any] = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": filled, **spec},
    }
    return manifest if lahar is None else {**manifest, "lahar": lahar}


def pod(uid: str, job: str, version: int | None, phase: str, **fields: Any) -> PodObserved:
    """An observation of a pod, times in seconds after START."""
    for name in ("created", "bound", "running", "terminating", "ended", "proof", "restarted", "written"):
        if fields.get(name) is not None:
            fields[name] = START + round(fields[name] * SECOND)
    fields.setdefault("created", START)
    fields.setdefault("requests", REQUESTS)
    fields.setdefault("name", f"pod-{uid}")
    return PodObserved(uid=uid, job=job, version=None if version is None else str(version), phase=phase, **fields)


def records(state: ShardState) -> dict[str, bytes]:
    """The snapshot records of a state, taken without changing it."""
    stage = LifecycleStage()
    found = {}
    for subject in stage.records(state):
        kind, _, name = subject.partition("/")
        if kind == "job" and name in state.jobs:
            found[subject] = codec.encode_job(state.jobs[name])  # a finished one would be closed by being dumped
        else:
            record = stage.dump(state, subject)
            assert record is not None
            found[subject] = record
    return found


def spoil(state: ShardState) -> None:
    """Let nothing of the records of closed jobs be readable but their heads."""
    for ident, record in state.closed.items():
        state.closed[ident] = record[: record.index(b"\n") + 1] + b"?"
        state.closed_pages[ident] = dict.fromkeys(state.closed_pages.get(ident, ()), b"?")
    state.warm.clear()
    state.warm_attempts = 0


def derived(state: ShardState) -> dict[str, Any]:
    """Everything that a state keeps beside what it writes down."""
    jobs = {}
    for job in state.jobs.values():
        tasks = {
            name: (
                {index: attempt.number for index, attempt in sorted(task.slots.items())},
                list(task.open),
                task.counts,
                task.ready,
                task.restart_sum,
                task.left,
                task.numbers,
                task.next_index,
                task.latest,
            )
            for name, task in job.tasks.items()
        }
        under_way = (
            sorted(job.by_effect),
            sorted(job.earlier),
            {node: sorted(timers) for node, timers in job.lost.items()},
            job.steps,
            sorted(job.kills),
            job.matches,
            job.retries,
            (job.held_bytes, job.waiting_bytes, job.waiters, job.claims),
        )
        jobs[job.id] = (tasks, job.counts, job.live, sorted(job.by_uid), job.rules, under_way)
    due = sorted((timer.due, timer.id, job.id) for job in state.jobs.values() for timer in job.timers.values())
    return {
        "jobs": jobs,
        "on_node": {
            node: {(job, uid) for job in there for uid in pods_on(state, state.jobs[job], node[1])}
            for node, there in state.on_node.items()
        },
        "pod_jobs": {where: pods for where, pods in state.pod_jobs.items() if pods},
        "further_jobs": state.further_jobs,
        "awaited_on": {node: set(there) for node, there in state.awaited_on.items()},
        "timers": due,
    }


class Driver:
    """One shard, its clock and everything it has said."""

    def __init__(self, stage: LifecycleStage | None = None, *, checked: bool = True, quiet: bool = True) -> None:
        """Begin; if `quiet`, what an input leads to is carried out to its last step before the next one is taken."""
        self.stage = stage or LifecycleStage()
        self.state = self.stage.initial()
        self.shadow = self.stage.initial()
        self.checked = checked
        self.quiet = quiet
        self.now = START
        self.events: list[Event[Any]] = []
        self.outcomes: Counter[str] = Counter()
        self.received = 0
        self.outcome = ""
        self.clusters: set[str] = set()
        self.ids: set[str] = set()
        self.sequences: dict[str, int] = {}
        self.attempts: dict[tuple[str, str, int, int], str] = {}
        self.phases: dict[tuple[str, ...], str] = {}
        self.ours: set[str] = set()
        """Jobs that we schedule."""
        self.enqueued: set[str] = set()
        """Those whose group may have pods."""
        self.decided: dict[tuple[str, str, int, int], str] = {}
        """Attempts for which a node was decided on, and not given up."""
        self.bindings: dict[str, tuple[str, str, int, int]] = {}
        """What was asked for to bind them."""
        self.versions: Counter[str] = Counter()
        self.commands = 0

    # --- running ----------------------------------------------------------------------------------------------------------

    def take(self, event: Event[Any]) -> list[Event[Any]]:
        """Take one input at its recorded time; timers due by then fire first. Returns what follows from the input itself."""
        self.until(max(self.now, event.recordedtime))
        event = decode(encode(event))
        if self.stage.absorbs(event.data.TOPIC):
            self.stage.absorb(self.state, event)
            self.stage.absorb(self.shadow, event)
        self.received += 1
        self.clusters.add(event.clusterid)
        made, outcome = self.drain(self.stage.decide(self.state, event, self.now))
        expected = self.stage.outcome(made[0]) if made else outcome
        assert outcome == expected, (outcome, expected, [one.data for one in made])
        assert made or outcome in SILENT, outcome
        self.outcome = outcome
        self.outcomes[outcome] += 1
        self.check()
        while self.quiet and (due := self.stage.unfinished(self.state)) is not None:
            made += self.until(due)
        return made

    def until(self, time: int) -> list[Event[Any]]:
        """Fire what is due by a time (microseconds), and go there."""
        made: list[Event[Any]] = []
        while (due := self.stage.due(self.state)) is not None and due <= time:
            self.now = max(self.now, due)
            named = self.stage.timer(self.state)
            fired, _ = self.drain(self.stage.fire(self.state, self.now))
            assert fired, f"a timer due at {due} fires nothing"
            assert fired[0].causationid == named
            made += fired
            self.check()
        self.now = max(self.now, time)
        return made

    def wait(self, seconds: float) -> list[Event[Any]]:
        """Let time pass."""
        return self.until(self.now + round(seconds * SECOND))

    def crash(self) -> None:
        """Go on from the snapshot records alone."""
        written = [(subject, self.stage.dump(self.state, subject)) for subject in list(self.stage.records(self.state))]
        self.state = self.stage.initial()
        self.stage.load(self.state, [(subject, record) for subject, record in written if record is not None])

    def drain(self, decision: Any) -> tuple[list[Event[Any]], Any]:
        made: list[Event[Any]] = []
        while True:
            try:
                event = next(decision)
            except StopIteration as stop:
                return made, stop.value
            self._follow(event)
            self.stage.evolve(self.state, event)
            if isinstance(event.data, EffectRequested):
                assert self.job(event.subject).managed, "somebody else controls the job"
            self.stage.evolve(self.shadow, decode(encode(event)))
            made.append(event)
            self.events.append(event)

    # --- inputs -----------------------------------------------------------------------------------------------------------

    def event(
        self, data: Data, subject: str, key: str | None = None, *, at: float | None = None, cluster: str = CLUSTER
    ) -> Event[Any]:
        """Wrap data as an input, recorded now or `at` seconds after START."""
        self.commands += 1
        recorded = self.now if at is None else START + round(at * SECOND)
        return Event(
            key or f"input-{self.commands:04d}", "test", data.TYPE, subject, recorded, recorded, 0, subject, "", cluster, data
        )

    def see(
        self, seen: PodObserved, *, at: float | None = None, key: str | None = None, cluster: str = CLUSTER
    ) -> list[Event[Any]]:
        """Take an observation of a pod."""
        known = key or (observation_id(seen.uid, seen.version, deleted=False) if seen.version else None)
        return self.take(self.event(seen, seen.job, known, at=at, cluster=cluster))

    def gone(
        self, last: PodObserved, *, inferred: bool = False, at: float | None = None, cluster: str = CLUSTER
    ) -> list[Event[Any]]:
        """Take the deletion of a pod."""
        known = observation_id(last.uid, last.version, deleted=True) if last.version else None
        return self.take(self.event(PodDeleted(last, inferred), last.job, known, at=at, cluster=cluster))

    def submit(
        self, manifest: dict[str, Any], job: str = "j1", *, strict: bool = False, key: str | None = None
    ) -> list[Event[Any]]:
        return self.take(self.event(JobSubmitted(manifest, strict), job, key))

    def update(self, manifest: dict[str, Any], job: str = "j1", key: str | None = None) -> list[Event[Any]]:
        return self.take(self.event(JobUpdated(manifest), job, key))

    def delete(self, job: str = "j1", version: str | None = None, *, part: bool = False) -> list[Event[Any]]:
        return self.take(self.event(JobDeleted(version, part=part), job))

    def command(self, action: str, job: str = "j1", *, key: str | None = None, **fields: Any) -> list[Event[Any]]:
        fields.setdefault("by", "ann")
        return self.take(self.event(CommandIssued(action, **fields), job, key))

    def custom(self, event: str, job: str = "j1", *, key: str | None = None, **fields: Any) -> list[Event[Any]]:
        return self.take(self.event(CustomEventRaised(event, **fields), job, key))

    def decide(self, decision: DecisionEvent, job: str = "j1", *, key: str | None = None) -> list[Event[Any]]:
        """Take a decision of the scheduling stage."""
        return self.take(self.event(decision, job, key))

    def owner(self, seen: JobObserved, job: str = "j1", *, at: float | None = None) -> list[Event[Any]]:
        return self.take(self.event(seen, job, at=at))

    def report(self, effect: str, outcome: Any, *, job: str = "j1", **fields: Any) -> list[Event[Any]]:
        return self.take(self.event(EffectReported(effect, outcome, **fields), job))

    def node(self, name: str, *, gone: bool = False, **fields: Any) -> list[Event[Any]]:
        data = NodeDeleted(name) if gone else NodeObserved(name, **fields)
        return self.take(self.event(data, name))

    # --- a simple cluster: what happens to the pods that a managed job wants -------------------------------------------------

    def replica(self, task: str, index: int = 0, job: str = "j1", **fields: Any) -> PodObserved:
        """An observation of the pod that the current attempt of a replica wants; each call is a newer version of it."""
        attempt = self.job(job).tasks[task].slots[index]
        uid = attempt.uid or f"{job}-{task}-{index}-{attempt.number}"
        fields.setdefault("created", (attempt.created - START) / SECOND)
        return self._made(uid, job, task, index, attempt.number, attempt.pod, fields)

    def _made(self, uid: str, job: str, task: str, index: int, number: int, name: str, fields: dict[str, Any]) -> PodObserved:
        self.versions[uid] += 1
        version = 100 + self.versions[uid]
        phase = fields.pop("phase")
        return pod(
            uid, job, version, phase, name=name, task=task, index=index, attempt=number, managed=True, kind="VCJob", **fields
        )

    def run(self, task: str, *indexes: int, job: str = "j1", **fields: Any) -> list[Event[Any]]:
        """Show replicas running, one after another (all current ones unless named)."""
        made: list[Event[Any]] = []
        at = (self.now - START) / SECOND
        for index in indexes or tuple(self.job(job).tasks[task].slots):
            seen = self.replica(task, index, job, phase="Running", node=f"n{index}", bound=at, running=at, **fields)
            made += self.see(seen)
        return made

    def end(self, task: str, *indexes: int, job: str = "j1", code: int = 0, reason: str = "AppFailed", **fields: Any) -> list[Any]:
        """Show replicas ended, well with code 0."""
        made: list[Event[Any]] = []
        at = (self.now - START) / SECOND
        fields = {"ended": at, **fields}
        for index in indexes or tuple(self.job(job).tasks[task].slots):
            attempt = self.job(job).tasks[task].slots[index]
            lived = {"running": (attempt.running - START) / SECOND} if attempt.running is not None else {}
            seen = self.replica(
                task,
                index,
                job,
                phase="Failed" if code else "Succeeded",
                reason=reason if code else None,
                exit_code=code,
                first_exit_code=code,
                node=f"n{index}",
                **lived,
                **fields,
            )
            made += self.see(seen)
        return made

    def reap(self, job: str = "j1") -> list[Event[Any]]:
        """Let every pod whose deletion was requested end, and its object go; of one that never came into view there is none."""
        made: list[Event[Any]] = []
        for attempt in list(self.job(job).attempts):
            if attempt.uid is None and attempt.live and attempt.kill is not None:
                for _ in range(2):
                    made += self.report(attempt.effect, "failed", reason="NotFound", job=job)
            elif attempt.object == "deleting":
                made += self.gone(self._last(job, attempt))
        return made

    def kill(self, job: str = "j1") -> list[Event[Any]]:
        """Let every pod whose deletion was requested end; their objects stay."""
        made: list[Event[Any]] = []
        for attempt in list(self.job(job).attempts):
            if attempt.live and attempt.kill is not None and attempt.uid is not None:
                made += self.see(self._last(job, attempt))
        return made

    def _last(self, job: str, attempt: Attempt) -> PodObserved:
        at = (self.now - START) / SECOND
        fields: dict[str, Any] = {"phase": "Failed", "reason": "KilledBySignal", "exit_code": 143, "terminating": at, "ended": at}
        if not attempt.live:
            assert attempt.ended is not None
            ended = (attempt.ended - START) / SECOND
            fields = {"phase": attempt.phase, "reason": attempt.reason, "exit_code": attempt.exit_code, "ended": ended}
        fields |= {"node": attempt.node, "deleting": True}
        assert attempt.uid is not None
        return self._made(attempt.uid, job, attempt.task, attempt.index, attempt.number, attempt.pod, fields)

    # --- asking -----------------------------------------------------------------------------------------------------------

    def job(self, job: str = "j1") -> Job:
        return peek(self.state, job)

    def phase(self, job: str = "j1") -> str:
        return self.job(job).phase

    def task(self, name: str, job: str = "j1") -> str:
        return self.job(job).tasks[name].phase

    def of(self, kind: type[Data], events: Iterable[Event[Any]] | None = None) -> list[Any]:
        """Data of the events of one type."""
        return [event.data for event in (self.events if events is None else events) if isinstance(event.data, kind)]

    def path(self, job: str = "j1") -> list[str]:
        """Phases that a job has entered."""
        return [event.data.phase for event in self.events if event.subject == job and isinstance(event.data, JobPhaseChanged)]

    def asked(self, effect: str, events: Iterable[Event[Any]] | None = None) -> list[tuple[str, int, int]]:
        """Which effects were requested: (task, index, attempt)."""
        return [(one.task, one.index, one.attempt) for one in self.of(EffectRequested, events) if one.effect == effect]

    # --- what must always hold --------------------------------------------------------------------------------------------

    def _follow(self, event: Event[Any]) -> None:
        """Laws over the events alone."""
        assert event.id not in self.ids, f"id {event.id} twice"
        self.ids.add(event.id)
        subject = event.subject
        assert event.sequence == self.sequences.get(subject, 0) + 1, (subject, event.sequence, event.data)
        self.sequences[subject] = event.sequence
        assert event.recordedtime == self.now
        assert event.causationid
        assert event.clusterid in self.clusters
        assert event.correlationid == subject
        data = event.data
        self._follow_decisions(event)
        if isinstance(data, AttemptStarted):
            key = (subject, data.task, data.index, data.attempt)
            assert key not in self.attempts, key
            self.attempts[key] = "Pending"
        elif isinstance(data, AttemptBound | AttemptRunning | AttemptTerminating | AttemptEnded):
            key = (subject, data.task, data.index, data.attempt)
            shown = {AttemptBound: "Bound", AttemptRunning: "Running", AttemptTerminating: "Terminating"}.get(type(data))
            phase = shown or data.phase
            assert data.previous == self.attempts[key]
            assert next_attempt_phase(self.attempts[key], phase) == phase != self.attempts[key], (key, self.attempts[key], phase)
            self.attempts[key] = phase
        elif isinstance(data, JobPhaseChanged):
            assert data.previous == self.phases.get((subject,), "Pending") != data.phase or data.inferred is False
            self.phases[(subject,)] = data.phase
        elif isinstance(data, TaskPhaseChanged):
            before = self.phases.get((subject, data.task))
            assert before in {None, data.previous}
            assert data.phase != data.previous
            self.phases[(subject, data.task)] = data.phase
        elif isinstance(data, TimerSet):
            assert data.due >= START

    def _follow_decisions(self, event: Event[Any]) -> None:
        """Laws of decisions: no pods before an enqueue, one node for an attempt, no retry used up by an eviction."""
        subject, data = event.subject, event.data
        if isinstance(data, JobOpened) and data.managed and data.spec.scheduler_name == "lahar":
            self.ours.add(subject)
        elif isinstance(data, ActionTaken) and data.action not in {"RestartTask", "RestartPod", "RestartPartition"}:
            self.enqueued.discard(subject)
        elif isinstance(data, AttemptStarted) and data.uid is None:
            assert subject in self.enqueued or subject not in self.ours, "a pod before its group is enqueued"
        elif isinstance(data, JobPhaseChanged) and data.reason == "RequeueJob":
            assert data.retry_count == self.job(subject).retry_count
        elif isinstance(data, DecisionAccepted):
            assert subject in self.ours
            if data.kind == "enqueued":
                assert subject not in self.enqueued
                self.enqueued.add(subject)
            for placed in data.placements if data.kind == "bound" else ():
                key = (subject, placed.task, placed.index, placed.attempt)
                assert self.attempts[key] == "Pending"
                assert key not in self.decided, "an attempt is bound twice"
                self.decided[key] = placed.node
        elif isinstance(data, EffectRequested) and data.effect == "bind_pod":
            key = (subject, str(data.task), data.index or 0, data.attempt or 0)
            assert self.decided[key] == data.node
            assert data.uid is not None
            assert key not in self.bindings.values(), "a binding is asked for twice"
            self.bindings[event.id] = key
        elif isinstance(data, EffectSettled) and data.effect in self.bindings:
            key = self.bindings.pop(data.effect)
            if data.outcome == "failed" and self.attempts[key] == "Pending":
                del self.decided[key]

    def check(self) -> None:
        """Laws over the state."""
        if not self.checked:
            return
        assert self.received == sum(self.outcomes.values())
        for job in self.state.jobs.values():
            check_job(job)
        written = records(self.state)
        assert written == records(self.shadow), "the state is not the fold of the events"
        ours, folded = derived(self.state), derived(self.shadow)
        for job_id in set(self.state.jobs) & set(self.shadow.jobs):
            assert ours["jobs"][job_id] == folded["jobs"][job_id]
        for index in ("on_node", "awaited_on", "timers"):
            assert ours[index] == folded[index]
        loaded = self.stage.initial()
        self.stage.load(loaded, written.items())
        assert records(loaded) == written
        active = self.stage.initial()
        self.stage.load(active, [(subject, record) for subject, record in written.items()])
        for job_id in self.state.jobs:
            if job_id in active.closed:
                active.jobs[job_id] = peek(active, job_id)
        assert derived(active) == derived(self.state), "what is derived differs after a load"
        assert self.stage.due(active) == self.stage.due(self.state)


def shown_by_pods(job: Job) -> str | None:
    """The phase that the pods of an observed job amount to, written anew and slowly; `None`: somebody else tells it."""
    if not job.opened or job.managed or job.owner_known or (job.finished is not None and not job.inferred):
        return None
    newest = {(attempt.task, attempt.index): attempt for attempt in job.attempts if not attempt.past}
    phases = [attempt.phase for attempt in newest.values()]
    if all(phase in TERMINAL_ATTEMPT_PHASES for phase in phases):
        return "Completed" if set(phases) == {"Succeeded"} else "Failed"
    return "Running" if "Running" in phases else None


def check_job(job: Job) -> None:
    """Laws over one job."""
    total = Counters()
    live = 0
    current = {}
    for attempt in job.attempts:
        if not attempt.past:
            current[attempt.task, attempt.index] = attempt
        live += attempt.live
    for name, task in job.tasks.items():
        counted = Counters()
        slots = {index: attempt for (of, index), attempt in current.items() if of == name}
        assert slots == task.slots
        for attempt in slots.values():
            counter = category(attempt)
            if counter is not None:
                setattr(counted, counter, getattr(counted, counter) + 1)
                setattr(total, counter, getattr(total, counter) + 1)
        assert counted == task.counts, (name, counted, task.counts)
        if job.managed:
            assert set(task.open) <= set(range(task.spec.replicas))
        assert task.open == sorted(set(task.open))
        taken = {index for index, attempt in task.slots.items() if attempt.live or (job.managed and attempt.object != "gone")}
        assert taken.isdisjoint(task.open), "a replica is open while its pod's object stands"
    assert total == job.counts
    assert live == job.live
    assert (job.finished is not None) == (job.phase in FINISHED_JOB_PHASES)
    if job.phase in FINISHED_JOB_PHASES:
        assert all(timer.kind in {"ttl", "effect", "lost", "step"} for timer in job.timers.values()), "timers outlive their job"
    if job.timers and not job.opened:
        assert all(timer.kind in {"orphan_wait", "step"} for timer in job.timers.values())
        assert job.waiting, "a wait without anything that waits"
