"""Builds the scheduler's model of a cluster from the content of a case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from engine.conformance.content import Content
from engine.conformance.pod_shapes import as_json, read_shape
from engine.events.scheduling import GroupPhase
from engine.events.times import parse_time
from engine.scheduling.cluster.amounts import Amounts, read_amounts
from engine.scheduling.cluster.budgets import Quota
from engine.scheduling.cluster.entities import Job, Node, Status, Taint, Task
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.queues import Queue, QueueState
from engine.scheduling.cluster.sub_groups import SubGroupPolicy, SubGroups
from engine.scheduling.configuration import Arguments, Configuration, PluginOption
from engine.scheduling.errors import ConfigurationError

NOW: Final = parse_time("2026-01-01T00:00:00Z")
"""Time of a session that states none. Nothing in a case is created later; creation times left out are long before."""

_TASK_PRIORITY: Final = "volcano.sh/task-priority"
_QUOTA_NAMES: Final = ("requests.", "limits.", "count/")


class VolcanoArguments(Arguments):
    """Arguments as Volcano takes them: a malformed one counts as absent, where Lahar refuses the configuration."""

    def number(self, name: str, default: float) -> float:
        """Return a number."""
        with suppress(ConfigurationError):
            return super().number(name, default)
        return default

    def truth(self, name: str, *, default: bool) -> bool:
        """Return a truth value."""
        with suppress(ConfigurationError):
            return super().truth(name, default=default)
        return default

    def duration(self, name: str, default: int | None) -> int | None:
        """Return a duration in microseconds."""
        with suppress(ConfigurationError):
            return super().duration(name, default)
        return default


def read_time(content: Content) -> int:
    """Return the time of the session."""
    return parse_time(content["now"]) if content.get("now") else NOW


def read_cluster(content: Content) -> Cluster:
    """Build a cluster: nodes, queues, quotas, groups and their pods; a pod without a group is a job of its own without a queue."""
    cluster = Cluster()
    for node in content.get("nodes") or ():
        cluster.set_node(_node(node))
    cluster.settle()
    for queue in content.get("queues") or ():
        cluster.set_queue(_queue(queue))
    cluster.quotas = [_quota(quota) for quota in content.get("resource_quotas") or ()]
    classes = {one["name"]: one for one in content.get("priority_classes") or ()}
    for group in content.get("podgroups") or ():
        cluster.add_job(_group(group, classes))
    for pod in content.get("pods") or ():
        _add_pod(cluster, pod, classes)
    for pod in content.get("pipelined_pods") or ():
        _add_pod(cluster, pod, classes, "Pipelined")
    return cluster


def read_tiers(content: Content) -> Configuration:
    """Read tiers, actions and their arguments; a plugin that the case declares unregistered is left out."""
    absent = set(content.get("ignored_unregistered_plugins") or ())
    return Configuration(
        tuple(content.get("actions") or ()),
        tuple(tuple(_option(plugin) for plugin in tier if plugin["name"] not in absent) for tier in content.get("tiers") or ()),
        {one["name"]: VolcanoArguments(one.get("arguments") or {}) for one in content.get("configurations") or ()},
    )


def _option(plugin: Content) -> PluginOption:
    enabled = frozenset(plugin.get("enabled") or ()) - frozenset(plugin.get("disabled") or ())
    return PluginOption(plugin["name"], enabled, VolcanoArguments(plugin.get("arguments") or {}))


def _node(node: Content) -> Node:
    return Node(
        node["name"],
        read_amounts(node.get("allocatable") or {}),
        dict(node.get("labels") or {}),
        tuple(
            Taint(taint.get("key") or "", taint.get("value") or "", taint.get("effect") or "")
            for taint in as_json(node.get("taints")) or ()
        ),
        unschedulable=bool(node.get("unschedulable")),
    )


def _queue(queue: Content) -> Queue:
    guarantee = queue.get("guarantee") or {}
    reclaimable = queue.get("reclaimable")
    return Queue(
        queue["name"],
        weight=queue.get("weight") or 0,
        state=cast("QueueState", queue.get("state") or ""),
        capability=read_amounts(queue.get("capability") or {}),
        guarantee=read_amounts(guarantee.get("resource") or guarantee),
        deserved=read_amounts(queue.get("deserved") or {}),
        priority=queue.get("priority") or 0,
        reclaimable=reclaimable is not False,
        parent=queue.get("parent") or "",
        created=_created(queue),
        annotations=dict(queue.get("annotations") or {}),
    )


def _quota(quota: Content) -> Quota:
    return Quota(
        quota.get("namespace") or "",
        read_amounts(quota.get("hard") or {}),
        read_amounts(quota.get("used") or {}),
        scoped=bool(quota.get("scopes") or quota.get("scope_selector")),
    )


def _created(content: Content) -> int:
    text = content.get("creation_timestamp") or content.get("created")
    return parse_time(text) if text else 0


def _group(group: Content, classes: Mapping[str, Content]) -> Job:
    minimum = group.get("min_resources")
    return Job(
        f"{group.get('namespace') or 'default'}/{group['name']}",
        group.get("namespace") or "default",
        group.get("queue") or "",
        min_member=group.get("min_member") or 0,
        role_minimum=dict(group.get("min_task_member") or {}),
        min_resources=None if minimum is None else _minimum(minimum),
        phase=cast("GroupPhase", group.get("phase") or ""),
        priority=(classes.get(group.get("priority_class") or "") or {}).get("value") or 0,
        created=_created(group),
        annotations=dict(group.get("annotations") or {}),
        labels=dict(group.get("labels") or {}),
        sub_groups=_sub_groups(group.get("sub_group_policy") or ()),
    )


def _sub_groups(policies: Sequence[Content]) -> SubGroups | None:
    found = [
        SubGroupPolicy(
            policy.get("name") or "",
            policy.get("sub_group_size") or 0,
            policy.get("min_sub_groups") or 0,
            tuple(policy.get("match_label_keys") or ()),
        )
        for policy in policies
    ]
    return SubGroups(found) if found else None


def _minimum(resources: Content) -> Amounts:
    """Return minimum resources without what they repeat under the names of quotas."""
    return {name: amount for name, amount in read_amounts(resources).items() if not name.startswith(_QUOTA_NAMES)}


def _add_pod(cluster: Cluster, pod: Content, classes: Mapping[str, Content], status: Status | None = None) -> None:
    namespace = pod.get("namespace") or "default"
    key = f"{namespace}/{pod['name']}"
    group = f"{namespace}/{pod['group']}" if pod.get("group") else ""
    job = cluster.jobs.get(group)
    if job is None:
        job = Job(f"pod {key}", namespace, "", phase="Running")
        cluster.add_job(job)
    pod_class = cluster.class_of(read_shape(pod, classes))
    stated = pod_class.annotations.get(_TASK_PRIORITY)
    priority = pod_class.shape.priority if stated is None else int(stated)
    task = Task(
        key,
        job,
        pod_class,
        role=pod_class.shape.role,
        index=_index(pod["name"]),
        created=_created(pod),
        priority=1 if priority is None else priority,
    )
    cluster.add_task(task, status or _status(pod), pod.get("node") or "")


def _index(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else 0


def _status(pod: Content) -> Status:
    """Return the state of a pod's task (Volcano `getTaskStatus`)."""
    phase = pod.get("phase") or ""
    if phase in {"Running", "Pending"} and pod.get("deleting"):
        return "Releasing"
    if phase == "Pending":
        return "Bound" if pod.get("node") else "Pending"
    return cast("Status", phase if phase in {"Running", "Succeeded", "Failed"} else "Unknown")


def read_job(tasks: Sequence[Content], min_member: int, phase: str = "") -> Job:
    """Build one job of tasks `{name, status, node}` alone."""
    cluster = Cluster()
    job = Job("default/job", "default", "", min_member=min_member, phase=cast("GroupPhase", phase))
    cluster.add_job(job)
    pod_class = cluster.class_of(read_shape({"req": {"cpu": "1"}}, {}))
    for content in tasks:
        node: Any = content.get("node") or ""
        if node:
            cluster.set_node(Node(node))
        cluster.add_task(Task(content["name"], job, pod_class), content["status"], node)
    return job
