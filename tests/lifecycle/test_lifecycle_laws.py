"""Laws of the lifecycle stage, over random programs of everything that may happen to a shard."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from lifecycle_driver import SECOND, START, Driver, derived, records, shown_by_pods, spoil, vcjob
from pod_cluster import Cluster

from engine.events import Event, encode
from engine.events.actions import EffectRequested
from engine.events.decisions import (
    AttemptKey,
    DecidedBound,
    DecidedEnqueued,
    DecidedEvicted,
    DecidedPipelined,
    DecidedUnschedulable,
    Placement,
)
from engine.events.inputs import JobObserved, PodObserved
from engine.events.jobs import JobPhaseChanged
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.tables import EMPTY
from statemachines.vocabulary import TERMINAL_ATTEMPT_PHASES

MANAGED, OBSERVED = ("m0", "m1"), ("o0", "o1")
ACTIONS = ("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob", "ResumeJob")
EVENTS = ("PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed", "Unknown", "Mine", "*")

policies = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"event": st.sampled_from(EVENTS), "action": st.sampled_from(ACTIONS)},
            optional={"timeout": st.sampled_from(["5s", "40s"])},
        ),
        st.fixed_dictionaries({"exitCode": st.integers(1, 3), "action": st.sampled_from(ACTIONS)}),
    ),
    max_size=2,
    unique_by=lambda policy: policy.get("event", policy.get("exitCode")),
).filter(lambda found: len(found) < 2 or all(policy.get("event") != "*" for policy in found))

tasks = st.fixed_dictionaries(
    {"replicas": st.integers(1, 3), "policies": policies},
    optional={"minAvailable": st.just(1), "maxRetry": st.sampled_from([-1, 1, 2])},
)

own = st.fixed_dictionaries(
    {"customEvents": st.just({"Mine": None})},
    optional={
        "raise": st.lists(
            st.fixed_dictionaries(
                {
                    "raise": st.just("Mine"),
                    "when": st.one_of(
                        st.fixed_dictionaries(
                            {"level": st.just("job"), "phase": st.sampled_from(["Pending", "Running", "Aborted"])}
                        ),
                        st.fixed_dictionaries({"level": st.just("task"), "phase": st.sampled_from(["Running", "Restarting"])}),
                        st.fixed_dictionaries(
                            {"level": st.just("replica"), "phase": st.sampled_from(["Failed", "Running"])},
                            optional={"count": st.integers(1, 3)},
                        ),
                    ),
                }
            ),
            max_size=2,
        ),
        "tasks": st.sampled_from([{"t0": {"main": True}}, {"t0": {"minSucceeded": 1}}, {"t0": {"maxFailed": 0}}]),
        "permanentExitCodes": st.just([3]),
        "activeDeadlineSeconds": st.sampled_from([60, 300]),
    },
)


@st.composite
def manifests(draw):
    found = draw(st.lists(tasks, min_size=1, max_size=2))
    named = [{"name": f"t{number}", **task} for number, task in enumerate(found)]
    if len(named) == 2 and draw(st.booleans()):
        named[1]["dependsOn"] = {"name": ["t0"]}
    if draw(st.booleans()):
        parted = draw(st.sampled_from(named))
        replicas = 2 * parted["replicas"]
        parted |= {"replicas": replicas, "partitionPolicy": {"totalPartitions": replicas // 2, "partitionSize": 2}}
        parted.pop("minAvailable", None)
    spec = draw(
        st.fixed_dictionaries(
            {"policies": policies, "maxRetry": st.integers(1, 4)},
            optional={
                "minAvailable": st.integers(1, 2),
                "minSuccess": st.integers(1, 2),
                "schedulerName": st.just("lahar"),
                "ttlSecondsAfterFinished": st.sampled_from([0, 20]),
            },
        )
    )
    return vcjob(*named, lahar=draw(own), **spec)


FORGET_AFTER = 600 * SECOND


class Programs(RuleBasedStateMachine):
    """Submissions, commands, pods, decisions, nodes, time and crashes in any order."""

    def __init__(self):
        super().__init__()
        self.driver = Driver(LifecycleStage(forget_after=FORGET_AFTER))
        self.cluster = Cluster(self.driver)
        self.inputs: list[Event[Any]] = []
        self.first: dict[str, int] = {}
        """When an input was given first; older ones than a finished job is kept are not given again, as no log keeps them."""
        self.manifests = {}
        self.nodes = 0
        original = self.driver.take

        def take(event):
            self.inputs.append(event)
            self.first.setdefault(event.id, event.recordedtime)
            return original(event)

        self.driver.take = take

    @initialize(manifest=manifests())
    def begin(self, manifest):
        self.manifests["m0"] = manifest
        self.driver.submit(manifest, "m0")
        self.cluster.obey()

    # --- jobs ---------------------------------------------------------------------------------------------------------------

    @rule(job=st.sampled_from(MANAGED), manifest=manifests())
    def submit(self, job, manifest):
        if job not in self.manifests:
            self.manifests[job] = manifest
        self.driver.submit(manifest, job)
        self.cluster.obey()

    @rule(job=st.sampled_from(MANAGED), replicas=st.integers(0, 4), least=st.integers(0, 2))
    def scale(self, job, replicas, least):
        manifest = self.manifests.get(job)
        if manifest is None:
            return
        spec = manifest["spec"]
        first = {**spec["tasks"][0], "replicas": replicas}
        scaled = {**manifest, "spec": {**spec, "tasks": [first, *spec["tasks"][1:]], "minAvailable": least}}
        self.driver.update(scaled, job)
        self.cluster.obey()

    @rule(
        job=st.sampled_from(MANAGED + OBSERVED),
        action=st.sampled_from(ACTIONS),
        task=st.sampled_from(["t0", "t1"]),
        at=st.integers(0, 2),
    )
    def command(self, job, action, task, at):
        self.driver.command(action, job, task=task, index=at, partition=at)
        self.cluster.obey()

    @rule(job=st.sampled_from(MANAGED), task=st.sampled_from([None, "t0"]))
    def custom(self, job, task):
        self.driver.custom("Mine", job, task=task)
        self.cluster.obey()

    @rule(job=st.sampled_from(MANAGED + OBSERVED), luck=st.integers(0, 5))
    def delete(self, job, luck):
        if luck == 5:
            self.driver.delete(job)
            self.cluster.obey()

    @rule(
        job=st.sampled_from(OBSERVED),
        phase=st.sampled_from([None, "Pending", "Running", "Completed", "Failed", "Aborting"]),
        replicas=st.integers(0, 3),
    )
    def owner(self, job, phase, replicas):
        self.cluster.version += 1
        shown = {"main": replicas} if replicas else {}
        self.driver.owner(JobObserved(job, "Job", version=str(self.cluster.version), phase=phase, tasks=shown), job)

    # --- pods ---------------------------------------------------------------------------------------------------------------

    @rule(job=st.sampled_from(OBSERVED), index=st.sampled_from([None, None, 0, 3]))
    def appear(self, job, index):
        self.cluster.appear(job, index=index)

    @rule(job=st.sampled_from(MANAGED), index=st.integers(0, 4), attempt=st.sampled_from([None, 1, 2]))
    def stray(self, job, index, attempt):
        self.cluster.appear(job, task="t0", index=index, attempt=attempt, managed=True)

    @precondition(lambda self: self.cluster.wanted)
    @rule(which=st.integers(0, 99))
    def create(self, which):
        self.cluster.create(which % len(self.cluster.wanted))

    @precondition(lambda self: self.cluster.wanted)
    @rule()
    def start_all(self):
        """A whole gang comes up, so that programs get somewhere."""
        while self.cluster.wanted:
            self.cluster.create(0)
            pod = self.cluster.pods[-1]
            for _ in range(2):
                self.cluster.progress(pod, "go", 0)
            self.cluster.tell(pod, 9)

    @precondition(lambda self: self.cluster.pods)
    @rule(
        which=st.integers(0, 99),
        steps=st.lists(
            st.tuples(st.sampled_from(["go", "wait", "end", "delete", "vanish"]), st.integers(0, 41)), min_size=1, max_size=4
        ),
        skip=st.integers(0, 2),
    )
    def live(self, which, steps, skip):
        pod = self.cluster.pods[which % len(self.cluster.pods)]
        for step, detail in steps:
            if not pod.gone:
                self.cluster.progress(pod, step, detail)
        if pod.untold:
            self.cluster.tell(pod, skip)

    @rule()
    def reap(self):
        """What was to be deleted is gone."""
        for pod in list(self.cluster.pods):
            if pod.doomed and not pod.gone:
                self.cluster.progress(pod, "delete", 0)
                self.cluster.progress(pod, "end", 2)
                self.cluster.tell(pod, 9)

    @precondition(lambda self: self.cluster.pods)
    @rule(job=st.sampled_from(MANAGED + OBSERVED), order=st.randoms(use_true_random=False))
    def relist(self, job, order):
        """A List: the job ends by it once at most, and then no pod of it lives."""
        if not any(pod.now.job == job and not pod.gone for pod in self.cluster.pods):
            return
        made = self.cluster.list(job, order)
        if job in OBSERVED:
            ends = [event for event in made if isinstance(event.data, JobPhaseChanged) and event.data.inferred]
            assert len(ends) <= 1
            assert not ends or not self.driver.job(job).live
            assert shown_by_pods(self.driver.job(job)) in {None, self.driver.phase(job)}

    @precondition(lambda self: self.cluster.pods)
    @rule(job=st.sampled_from(MANAGED + OBSERVED), order=st.randoms(use_true_random=False), cut=st.integers(1, 3))
    def relist_cut(self, job, order, cut):
        """A List of which the end does not arrive, and that is read again."""
        self.cluster.list(job, order, cut=cut)
        self.relist(job, order)

    @precondition(lambda self: any(pod.untold for pod in self.cluster.pods))
    @rule(which=st.integers(0, 99), skip=st.integers(0, 3))
    def tell(self, which, skip):
        untold = [pod for pod in self.cluster.pods if pod.untold]
        self.cluster.tell(untold[which % len(untold)], skip)

    @precondition(lambda self: any(pod.told for pod in self.cluster.pods))
    @rule(which=st.integers(0, 99), position=st.integers(0, 99))
    def repeat(self, which, position):
        self.wait(0)
        told = [(pod, at) for pod in self.cluster.pods for at in pod.told if self.may_come_again(self.cluster.event(pod, at))]
        if not told:
            return
        before = records(self.driver.state)
        self.cluster.repeat(*told[(100 * which + position) % len(told)])
        assert records(self.driver.state) == before

    @precondition(lambda self: self.inputs)
    @rule(which=st.integers(0, 999))
    def repeat_any(self, which):
        """Any input again, as it was, in its turn: nothing follows, or what is silent."""
        event = self.inputs[which % len(self.inputs)]
        if event.data.TOPIC != "cluster" and event.data.TYPE != "lahar.job.updated.v1" and self.may_come_again(event):
            made = self.driver.take(replace(event, recordedtime=self.driver.now))
            assert made == [], [one.data for one in made]

    def may_come_again(self, event):
        """Tell whether an input is still known; a pod that lives claims the id of a job that is forgotten anew each time."""
        lives = isinstance(event.data, PodObserved) and event.data.phase not in TERMINAL_ATTEMPT_PHASES
        if lives and event.data.managed and event.data.owner is None and event.subject in self.driver.state.forgotten:
            return False
        return self.driver.now < self.first[event.id] + FORGET_AFTER

    # --- decisions ----------------------------------------------------------------------------------------------------------

    @rule(job=st.sampled_from(MANAGED), age=st.sampled_from([0, 0, 0, 2, 9]))
    def enqueue(self, job, age):
        self.driver.decide(DecidedEnqueued(max(self.driver.job(job).sequence - age, 0)), job)
        self.cluster.obey()

    @rule(
        job=st.sampled_from(MANAGED + OBSERVED),
        kind=st.sampled_from([DecidedBound, DecidedPipelined]),
        nodes=st.lists(st.integers(0, 3), min_size=1, max_size=3),
        age=st.sampled_from([0, 0, 0, 2, 9]),
        older=st.sampled_from([0, 0, 0, 1]),
    )
    def place(self, job, kind, nodes, age, older):
        """Some replicas, of one or the other task, from any that it has on."""
        seen = self.driver.job(job)
        slots = [one for task in seen.tasks.values() for one in task.slots.values()][-len(nodes) :]
        places = [Placement(one.task, one.index, one.number - older, f"n{node}") for one, node in zip(slots, nodes, strict=False)]
        self.driver.decide(kind(max(seen.sequence - age, 0), places), job)
        self.cluster.obey()

    @rule(
        job=st.sampled_from(MANAGED),
        which=st.lists(st.integers(0, 5), max_size=2),
        age=st.sampled_from([0, 0, 0, 2, 9]),
        reason=st.sampled_from(["Preempted", "Reclaimed", "Shuffled"]),
    )
    def evict(self, job, which, age, reason):
        seen = self.driver.job(job)
        slots = [one for task in seen.tasks.values() for one in task.slots.values()]
        keys = [AttemptKey(one.task, one.index, one.number) for one in (slots[at % len(slots)] for at in which if slots)]
        self.driver.decide(DecidedEvicted(max(seen.sequence - age, 0), reason, keys), job)
        self.cluster.obey()

    @rule(job=st.sampled_from(MANAGED), reason=st.sampled_from(["NotEnoughResources", "NotEnoughTasks"]))
    def give_up(self, job, reason):
        self.driver.decide(DecidedUnschedulable(self.driver.job(job).sequence, reason), job)

    @precondition(lambda self: self.driver.asked("bind_pod"))
    @rule(which=st.integers(0, 99), outcome=st.sampled_from(["done", "failed"]))
    def report_binding(self, which, outcome):
        asked = [one for one in self.driver.events if isinstance(one.data, EffectRequested) and one.data.effect == "bind_pod"]
        event = asked[which % len(asked)]
        self.driver.report(event.id, outcome, job=event.subject, reason="Conflict" if outcome == "failed" else None)
        self.cluster.obey()

    # --- the rest -----------------------------------------------------------------------------------------------------------

    @rule(node=st.integers(0, 2), ready=st.sampled_from(["True", "Unknown", "False"]), unreachable=st.booleans())
    def node(self, node, ready, unreachable):
        self.nodes += 1
        self.driver.node(f"n{node}", ready=ready, unreachable=unreachable, version=str(self.nodes))

    @rule(seconds=st.sampled_from([0.5, 7, 7, 7, 20, 61, 700]))
    def wait(self, seconds):
        self.driver.wait(seconds)
        self.cluster.obey()

    @rule()
    def crash(self):
        self.driver.crash()

    # --- at the end -----------------------------------------------------------------------------------------------------------

    def teardown(self):
        if not self.inputs:
            return
        self.driver.until(self.driver.now)
        self._same_inputs_same_bytes()
        self._jobs_do_not_touch_each_other()
        self._closed_jobs_are_forgotten_unread()

    def _same_inputs_same_bytes(self):
        again = Driver(LifecycleStage(forget_after=FORGET_AFTER), checked=False)
        for event in self.inputs:
            again.take(event)
        again.until(self.driver.now)
        assert [encode(event) for event in again.events] == [encode(event) for event in self.driver.events]
        assert records(again.state) == records(self.driver.state)
        assert derived(again.state)["timers"] == derived(self.driver.state)["timers"]

    def _jobs_do_not_touch_each_other(self):
        """With time standing still, the events of a job are the same however the inputs of the jobs are interleaved."""
        inputs = [replace(event, recordedtime=START) for event in self.inputs if event.data.TOPIC != "cluster"]
        mixed, sorted_ = (Driver(checked=False) for _ in range(2))
        for event in inputs:
            mixed.take(event)
        for event in sorted(inputs, key=lambda event: event.subject):
            sorted_.take(event)
        for driver in (mixed, sorted_):
            driver.until(START)
        assert by_job(mixed) == by_job(sorted_)
        assert records(mixed.state) == records(sorted_.state)

    def _closed_jobs_are_forgotten_unread(self):
        read, unread = (deepcopy(self.driver, {id(EMPTY): EMPTY}) for _ in range(2))
        for driver in (read, unread):
            driver.checked = False
            driver.crash()
        spoil(unread.state)
        assert unread.wait(336 * 86_400) == read.wait(336 * 86_400)
        assert records(unread.state) == records(read.state)


def by_job(driver):
    found = defaultdict(list)
    for event in driver.events:
        found[event.subject].append(encode(event))
    return found


QUICK = settings(max_examples=60, stateful_step_count=30, suppress_health_check=list(HealthCheck))
DEEP = settings(max_examples=1500, stateful_step_count=60, suppress_health_check=list(HealthCheck), derandomize=False)


def test_no_program_breaks_an_invariant():
    run_state_machine_as_test(Programs, settings=QUICK)


@pytest.mark.slow
def test_no_long_program_breaks_an_invariant():
    run_state_machine_as_test(Programs, settings=DEEP)


# --- what a relist leaves out -----------------------------------------------------------------------------------------------

steps = st.lists(
    st.tuples(st.sampled_from(["go", "go", "wait", "end", "delete"]), st.integers(0, 41), st.integers(0, 20)), max_size=10
)


@given(steps, st.data())
def test_whatever_observations_are_left_out_the_last_one_tells_the_same(life, data):
    """Phases, reasons and times are derivable from one object (ends without evidence aside, which depend on what was seen)."""
    cluster = Cluster(Driver())
    cluster.appear("j")
    (pod,) = cluster.pods
    for step, detail, seconds in life:
        cluster.driver.wait(seconds)
        cluster.progress(pod, step, detail)
    history = list(enumerate(pod.history))
    some = [entry for entry in history[:-1] if data.draw(st.booleans())]
    attempts = []
    for told in (history, [*some, history[-1]], history[-1:]):
        driver = Driver()
        driver.wait(1000)
        for position, _ in told:
            driver.take(cluster.event(pod, position, driver))
        attempts.append(driver.job("j").attempts[0])
    full = attempts[0]
    for attempt in attempts[1:]:
        same = ("phase", "node", "bound", "running", "restarts", "exit_code", "requests")
        assert [getattr(attempt, name) for name in same] == [getattr(full, name) for name in same]
        if full.live or full.reason != "EndUnknown":
            assert attempt.reason == full.reason
        if pod.now.ended is not None:
            assert attempt.ended == full.ended
