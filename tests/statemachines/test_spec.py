"""Defaults of a specification. Records leave them out, so another default would be another past."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from statemachines.spec import DependsOn, JobSpec, Partition, Policy, RaiseRule, Requests, TaskSpec

REQUESTS: dict[str, object] = {
    "cpu_milli": 0,
    "memory_bytes": 0,
    "gpu": 0,
    "gpu_share_milli": None,
    "gpu_nano": None,
    "unmetered": {},
}
TASK: dict[str, object] = {
    "replicas": 1,
    "min_available": None,
    "max_retry": 3,
    "policies": (),
    "depends_on": None,
    "partition": None,
    "requests": REQUESTS,
    "main": False,
    "min_succeeded": None,
    "max_failed": None,
    "template": None,
}
JOB: dict[str, object] = {
    "tasks": (),
    "min_available": 0,
    "min_success": None,
    "max_retry": 3,
    "queue": "default",
    "scheduler_name": "volcano",
    "priority_class": None,
    "policies": (),
    "plugins": (),
    "ttl_seconds_after_finished": None,
    "active_deadline_seconds": None,
    "preempt": False,
    "on_preempted": "Requeue",
    "min_run_seconds": None,
    "permanent_exit_codes": (),
    "custom_events": {},
    "raise_rules": (),
}
RULE = {"level": "task", "task": None, "phase": None, "reason": None, "exit_code": None, "count": 1}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (Requests(), REQUESTS),
        (Policy("AbortJob"), {"action": "AbortJob", "events": (), "exit_code": None, "timeout": None}),
        (DependsOn(("a",)), {"names": ("a",), "any": False}),
        (Partition(2, 3), {"total": 2, "size": 3, "min": 0}),
        (RaiseRule("E"), {"event": "E", **RULE}),
        (TaskSpec("t"), {"name": "t", **TASK}),
        (JobSpec(), JOB),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_record_leaves_out_keeps_its_meaning(written, read):
    assert {name: asdict(written)[name] for name in read} == read


def test_a_job_knows_its_tasks_by_name():
    worker = TaskSpec("w", 2)
    job = JobSpec(tasks=(TaskSpec("m"), worker))
    assert (job.task("w"), job.task("x")) == (worker, None)
