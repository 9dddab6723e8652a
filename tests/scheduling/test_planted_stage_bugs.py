"""The checks of the stage see a bug that is planted in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from itertools import count

import pytest
from deployment import Deployment, task, vcjob
from log_checker import faults_of
from stage_stories import told
from test_stage_laws import finished, make

from engine.events.decisions import DecidedEnqueued, DecisionRefused
from engine.lifecycle.stage import LifecycleStage
from engine.processor.processor import Processor
from engine.scheduling import absorb, evolve, snapshot_codec
from engine.scheduling.cluster.job_records import Attempt, JobRecord
from engine.scheduling.cluster.objects import node_of
from engine.scheduling.pending import pending_reasons
from engine.scheduling.state import model_sync

LIFECYCLE = import_module("engine.lifecycle.decisions")
SEEDS = range(40)
NUMBERS = count()


def breaks_rules(seed: int) -> bool:
    return faults_of(told(seed, make).log) != []


def waits_for_ever(seed: int) -> bool:
    return finished(told(seed, make)) != []


def differs_after_restarts(seed: int) -> bool:
    topics = "scheduling", "decisions", "preemptions"
    return told(seed, make, restarts=True).messages(*topics) != told(seed, make).messages(*topics)


def without_claims(state, pod) -> None:
    """A decision holds no node until it is accepted."""
    pod.attempt.claim = None
    model_sync.sync_pod(state, pod)


def without_taints(seen):
    return node_of(replace(seen, taints=[], unschedulable=False))


def place_without_node(state, pod) -> None:
    """A pod takes nothing of its node."""
    pod.attempt.node = pod.attempt.decided = ""
    model_sync.sync_pod(state, pod)


def forgotten(decode: Callable[[bytes], JobRecord], field: str) -> Callable[[bytes], JobRecord]:
    def read(content: bytes) -> JobRecord:
        head = decode(content)
        setattr(head, field, type(getattr(head, field))())
        return head

    return read


def pages_without_claims(decode: Callable[[bytes], list[Attempt]]) -> Callable[[bytes], Iterable[Attempt]]:
    def read(content: bytes) -> list[Attempt]:
        attempts = decode(content)
        for attempt in attempts:
            attempt.claim = None
        return attempts

    return read


@pytest.mark.parametrize(
    ("owner", "name", "bug", "seen"),
    [
        (evolve, "touch_pod", without_claims, breaks_rules),
        (model_sync, "node_of", without_taints, breaks_rules),
        (absorb, "touch_pod", place_without_node, breaks_rules),
        (model_sync, "note_waiting", lambda cluster, job: None, waits_for_ever),
        (pending_reasons, "due_at", lambda said, place, head: 0 if next(NUMBERS) % 3 == 0 else None, differs_after_restarts),
        (snapshot_codec, "_read_head", forgotten(snapshot_codec._read_head, "written"), differs_after_restarts),
        (snapshot_codec, "_read_head", forgotten(snapshot_codec._read_head, "open"), differs_after_restarts),
        (snapshot_codec, "_read_page", pages_without_claims(snapshot_codec._read_page), differs_after_restarts),
    ],
    ids=["claims", "taints", "capacity", "waiting", "reasons", "sequences", "unanswered", "claims in snapshots"],
)
def test_a_planted_bug_is_seen(plant, owner, name, bug, seen):
    plant(owner, name, bug)
    assert any(seen(seed) for seed in SEEDS)


def asked_about_two_groups() -> Deployment:
    """A job is restarted before lifecycle hears that it is let in; its next group is let in before lifecycle answers at all."""
    deployment = Deployment(partitions=1)
    deployment.node("n1")
    deployment.submit("j", vcjob("j", task()))
    deployment.settle()
    deployment.command("j", "RestartJob")  # recorded before the decision, so it is taken first
    deployment.deaf = True
    deployment.wait()
    lifecycle = Processor(deployment.log, LifecycleStage(), 0, batch=1)
    lifecycle.open()
    lifecycle.step()
    deployment.wait(2)
    assert len(deployment.events(DecidedEnqueued)) == 2
    deployment.lifecycle, deployment.deaf = [lifecycle], False
    deployment.wait(3)
    return deployment


def test_a_group_is_let_in_while_its_predecessor_waits_for_its_answer():
    deployment = asked_about_two_groups()
    assert [event.data.reason for event in deployment.events(DecisionRefused)] == ["Stale"]
    assert (faults_of(deployment.log), deployment.running()) == ([], ["j-w-0-1"])


def test_a_decision_about_a_group_that_has_gone_is_not_to_be_accepted(plant):
    plant(LIFECYCLE, "_objection", lambda *_: None)
    assert "j: a decision is accepted for which nothing is held any more" in faults_of(asked_about_two_groups().log)
