"""Which steps there are in the small world of notices, and the state in which it begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from deployment import task, vcjob
from notice_steps import Live, Step
from notice_world import PREEMPTOR, PREEMPTORS, World

from engine.events.decisions import DecidedNoticed, DecidedNoticeEnded
from engine.events.inputs import CommandIssued, JobSubmitted, JobUpdated, NodeDeleted, ObjectApplied

DELAY: Final = 2
"""Seconds from a notice to its execution."""
JOBS: Final = {"low1": 1, "low2": 2, "other": 1}
"""Job → pods of 1 CPU; a gang each. The first two are the victims: the nodes have 4 CPUs."""
ALONE: Final = {PREEMPTOR: 3}
"""A privileged job that needs the places of both victims."""
COMPETING: Final = {PREEMPTOR: 1, "rush": 2}
"""Two of which each needs the place of one."""


def manifest(job: str, pods: int) -> dict[str, Any]:
    more: dict[str, Any] = {"priorityClassName": "high"} if job in PREEMPTORS else {}
    made = vcjob(job, task("w", pods), minAvailable=pods, queue="p" if job == "other" else "q", **more)
    return {**made, "lahar": {"preempt": True}} if job in PREEMPTORS else made


def _commands() -> dict[str, tuple[str, Any]]:
    return {
        "abort low1": ("low1", CommandIssued("AbortJob", "ann")),
        "abort urgent": (PREEMPTOR, CommandIssued("AbortJob", "ann")),
        "abort rush": ("rush", CommandIssued("AbortJob", "ann")),
        "restart low2": ("low2", CommandIssued("RestartJob", "ann")),
        "ack low1": ("low1", CommandIssued("AcknowledgeNotice", "ann")),
        "ack low2": ("low2", CommandIssued("AcknowledgeNotice", "ann")),
        "withdraw": (PREEMPTOR, CommandIssued("WithdrawNotice", "ann")),
        "withdraw rush": ("rush", CommandIssued("WithdrawNotice", "ann")),
        "scale urgent": (PREEMPTOR, JobUpdated(manifest(PREEMPTOR, 1))),
        "scale low2": ("low2", JobUpdated(manifest("low2", 1))),
        "scale low1": ("low1", JobUpdated(manifest("low1", 6))),
    }


def _outside(world: World) -> Iterator[str]:
    """Yield what can happen outside."""
    running = {pod.job for pod in world.pods if pod.phase == "Running" and pod.uid not in world.going}
    yield from (name for name, (job, _) in _commands().items() if job in world.lifecycle.phases)
    if world.decisions and not isinstance(world.decisions[0].data, DecidedNoticeEnded):  # that lifecycle refuses only to other jobs
        yield "refuse a decision"
    yield from (f"finish {job}" for job in sorted(running))
    if "n1" in world.nodes:
        yield "lose n1"
    yield "gain n3"
    yield "bindings fail"


def actions(world: World, most: int, late: int) -> list[str]:
    """Return the steps that can be taken.

    Args:
        world: the state.
        most: things that happen outside, on the way from the beginning.
        late: how often time passes while messages are under way, on that way.
    """
    found = []
    if world.decisions:
        found.append("lifecycle takes a decision")
    # Scheduling takes events before time passes or not at all: in between nobody would see a difference.
    if (world.scheduling.due is not None or world.events) and (world.late < late or not world.decisions):
        found.append("time passes")
    if world.scheduling.due is not None and world.events and world.late < late:
        found.append("time passes for a deaf scheduling")
    if world.going:
        found.append("pods go")
    if len(world.happened) < most:
        found += [name for name in _outside(world) if name not in world.happened]
    return found


def take(world: World, action: str, live: Live | None = None) -> tuple[World, list[str]]:
    """Take a step; return the state that it leads to, and what was wrong on the way.

    Args:
        world: the state.
        action: the step.
        live: the processes; `None`: both are restarted before it.
    """
    step = Step(world, live)
    outside = frozenset[str]()
    match action.split():
        case ["lifecycle", *_]:
            step.take(step.decisions.pop(0))
        case ["time", *_]:
            deaf = action != "time passes"
            step.tick(deaf=deaf)
            return replace(step.done(), late=world.late + (deaf or bool(world.decisions))), step.faults
        case ["refuse", *_]:
            outside = frozenset({action})
            event = step.decisions.pop(0)
            step.take(replace(event, data=replace(event.data, seen=-1)))  # as if the job had changed since
        case ["pods", *_]:
            for uid in sorted(step.going):
                step.gone(uid)
        case ["finish", job]:
            outside = frozenset({action})
            for pod in [pod for pod in world.pods if pod.job == job and pod.phase == "Running" and pod.uid not in world.going]:
                step.end(pod.uid)
        case ["bindings", _]:
            outside = frozenset({action})
            step.failing = 4  # all of the gang, and one of them again: only then others are before it
        case ["gain", node]:
            outside = frozenset({action})
            step.node(node)
        case ["lose", node]:
            outside = frozenset({action})
            step.nodes.remove(node)
            step.give(NodeDeleted(node), node)
            for pod in [pod for pod in world.pods if pod.node == node]:
                step.gone(pod.uid)
        case _:
            outside = frozenset({action})
            job, data = _commands()[action]
            step.give(data, job)
    return step.done(outside), step.faults


def first(privileged: Mapping[str, int] = ALONE) -> World:
    """Return the state in which a notice was just opened: the low jobs run, and privileged ones wait for their places.

    Args:
        privileged: the privileged jobs, and how many pods each has.
    """
    step = Step(World())
    for name in ("n1", "n2"):
        step.node(name)
    step.give(ObjectApplied("Queue", "q", {"preemption": "notice", "preemptionDelaySeconds": DELAY, "reservationSeconds": 5}), "q")
    step.give(ObjectApplied("Queue", "p", {"preemption": "immediate"}), "p")
    step.give(ObjectApplied("Tenant", "default", {"mayPreempt": True}), "default")
    step.give(ObjectApplied("PriorityClass", "high", {"value": 1000}), "high")
    for job, pods in JOBS.items():
        step.give(JobSubmitted(manifest(job, pods)), job)
    world = _quiet(step.done())
    step = Step(world)
    for job, pods in privileged.items():
        step.give(JobSubmitted(manifest(job, pods)), job)
    world = step.done()
    while not any(event.subject == PREEMPTOR and event.type == DecidedNoticed.TYPE for event in world.decisions):
        world = _next(world)
    return world


def _next(world: World) -> World:
    return take(world, next(iter(actions(world, 0, 0))))[0]


def _quiet(world: World) -> World:
    for _ in range(200):
        if not actions(world, 0, 0):
            return world
        world = _next(world)
    return world
