"""Scheduling by the library: shares as plugins have them, names as the projection has them, queues that open and close."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lahar
from engine.log.errors import LogError

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "20"}, "conditions": [{"type": "Ready", "status": "True"}]},
}
CAPACITY = """\
tiers:
  - plugins: [{name: priority}, {name: gang}]
  - plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]
"""


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def job(name: str, of: str, cpu: int, **labels: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu), "memory": "1Gi"}}}
    task = {"name": "w", "replicas": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {"schedulerName": "lahar", "queue": of, "tasks": [task]},
    }


def test_what_a_queue_deserves_is_what_the_configured_plugin_says(tmp_path: Path) -> None:
    (tmp_path / "scheduler.yaml").write_text(CAPACITY)
    with lahar.open("memory:", scheduler_config=tmp_path / "scheduler.yaml") as log:
        log.apply(NODE, queue("q", deserved={"cpu": "4"}, capability={"cpu": "6"}))
        log.submit(job("first", "q", 2))
        found = log.scheduling.queue("q")
        assert (found.plugin, found.deserved, found.limit["cpu"], found.share) == ("capacity", {"cpu": 4000}, 6000, 0.5)
        assert (found.allocated["cpu"], found.overused, found.waiting) == (2000, False, ())
        log.submit(job("second", "q", 4))
        log.submit(job("third", "q", 1))
        found = log.scheduling.queue("q")
        assert (found.share, found.jobs) == (1.5, {"Pending": 1, "Inqueue": 2})
        waiting = [(one.name, one.reason.reason, one.reason.missing) for one in found.waiting if one.reason is not None]
        assert waiting == [("third", "QueueLimit", {"cpu": 1000})]


def test_a_tenant_has_the_jobs_that_say_so_by_label_and_by_namespace() -> None:
    with lahar.open("memory:") as log:
        log.apply(NODE)
        log.submit(job("one", "default", 1, **{"lahar/tenant": "nlp"}))
        log.submit(job("two", "default", 1))
        tenants = {one.name: (one.namespaces, one.jobs, one.allocated["cpu"]) for one in log.scheduling.tenants()}
        assert tenants == {"nlp": (("default", "nlp"), 1, 1000), "default": (("default",), 1, 1000)}
        assert [(group.name, group.phase, group.members) for group in log.scheduling.pod_groups()] == [
            (name, "Inqueue", {"Binding": 1}) for name in ("one", "two")
        ]
        (node,) = log.scheduling.nodes()
        assert (node.used["cpu"], node.idle["cpu"], len(node.pods)) == (2000, 6000, 2)


def test_queues_open_and_close(tmp_path: Path) -> None:
    with lahar.open(f"sqlite:{tmp_path}/log.db") as log:
        log.apply(queue("q"))
        assert [one.outcome for one in log.close_queue("q")] == ["changed"]
        assert log.scheduling.queue("q").state == "Closed"
        assert log.submit(job("late", "q", 1)).outcome == "rejected"
        assert [one.outcome for one in log.close_queue("q")] == ["unchanged"]
        assert [one.outcome for one in log.open_queue("q")] == ["changed"]
        assert log.scheduling.queue("q").state == "Open"
        with pytest.raises(lahar.NotFoundError, match="lahar queue list"):
            log.open_queue("nope")
    with pytest.raises(LogError):
        _ = log.scheduling


def test_without_the_stage_there_is_nothing() -> None:
    with lahar.open("memory:", scheduling=False) as log:
        log.apply(NODE, queue("q"))
        assert (log.scheduling.queues(), log.scheduling.nodes(), log.scheduling.pod_groups()) == ([], [], [])
