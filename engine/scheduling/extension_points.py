"""Extension points, at which sessions ask plugins (Volcano `framework`)."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol

from engine.scheduling.cluster.entities import Job
from engine.scheduling.configuration import PluginOption

__all__ = ["POINTS", "Participants", "equivalence_key"]

POINTS: Final[dict[str, str]] = {
    "job_order": "job_order",
    "queue_order": "queue_order",
    "task_order": "task_order",
    "sub_group_ready": "sub_job_ready",
    "job_valid": "",
    "job_ready": "job_ready",
    "job_pipelined": "job_pipelined",
    "job_starving": "job_starving",
    "predicate": "predicate",
    "pod_predicate": "predicate",
    "node_order": "node_order",
    "batch_node_order": "node_order",
    "task_node_order": "node_order",
    "preemptable": "preemptable",
    "reclaimable": "reclaimable",
    "least_run": "preemptable",
    "overused": "overused",
    "allocatable": "allocatable",
    "preemptive": "preemptive",
    "excess": "reclaimable",
    "lacking": "",
    "share_of": "",
    "job_enqueueable": "job_enqueued",
    "job_enqueued": "job_enqueued",
    "victims": "victim",
    "protected": "victim",
    "victim_queue_order": "",
}
"""Method of a plugin → the switch that turns it off; empty: none does.

- `job_order(job)`, `queue_order(queue)`, `task_order(task)` → `Key`; `victim_queue_order(queue, preemptor)` → `Key`, smaller is
  evicted from first.
- `job_valid(job)` → `Invalid | None`; `job_ready(job)`, `job_starving(job)` → `bool`; `job_pipelined(job)` → `Vote`;
  `sub_group_ready(job, key)` → `bool`.
- `predicate(pod_class)` → `Iterable[Verdict]`, from what nodes and classes are; `pod_predicate(pod_class, namespace, without)`
  → the same, from which pods are where, as if the tasks `without` were gone.
- `node_order(pod_class, rows)` → `Scores | None` of those rows, from what is left of them;
  `batch_node_order(pod_class, namespace)` → `Iterable[Preference]`, which are scaled over the nodes that come into question;
  `task_node_order(task)` → `Scores | None` of all nodes, for one task among its job's.
- `preemptable(task, candidates)`, `reclaimable(task, candidates)` → the candidates that may be evicted for the task, or `None`: it
  abstains; `victims(running)` → tasks to evict for no task at all; `protected(victims)` → those of them
  that may go.
- `least_run(task)` → how long the job of a pod runs at least before it is given notice (microseconds); asked for one pod of each
  class of a job.
- `overused(queue)`, `allocatable(queue, task)`, `preemptive(queue, task)` → `bool`; `lacking(queue, task)` → the plugin's
  name and `Amounts` by which the queue's limit is too small for the task: so much the queue must give up before it is allocatable;
  `share_of(queue)` → `QueueShare | None`, asked by operators only; `excess(queue, other, names, change)` → by which part of it a
  queue holds more than it deserves of any of the named resources after a change of what it holds, where it and `other` differ.
- `job_enqueueable(job)` → `Vote`; `job_enqueued(job)` → nothing, it accounts for the job.
"""

_TELL_JOBS_APART: Final = frozenset(
    {
        "task_order",
        "sub_group_ready",
        "job_valid",
        "job_ready",
        "job_pipelined",
        "job_starving",
        "task_node_order",
        "preemptable",
        "reclaimable",
        "allocatable",
        "preemptive",
        "excess",
        "lacking",
        "victim_queue_order",
    }
)
"""Points that are given a job or one of its pods, but for those that `Plugin.alike` speaks of."""


class _Configured(Protocol):
    option: PluginOption
    COUNTS_VICTIMS_BY: ClassVar[Literal["", "job", "queue"]]

    def alike(self, job: Job) -> Hashable: ...


@dataclass(slots=True, frozen=True)
class Participants:
    """Who takes part in what: the methods of the plugins of a configuration."""

    points: Mapping[str, list[list[Callable[..., Any]]]]
    """Extension point → methods by tier; tiers without any are left out."""
    counts_by: Mapping[Callable[..., Any], str]
    """Method that names victims → `Plugin.COUNTS_VICTIMS_BY`, where that is not empty."""
    alike: Sequence[Callable[[Job], Hashable]]
    """`Plugin.alike` of those that order jobs or let them in."""
    tell_apart: bool
    """Whether a plugin of a third party may tell any two jobs apart in a search for places or victims."""

    @classmethod
    def of(cls, tiers: Sequence[Sequence[_Configured]], third_party: Container[str] = ()) -> Participants:
        """Look at all plugins, tier by tier; those of third parties are given by name."""
        plugins = [plugin for tier in tiers for plugin in tier]
        return cls(
            {point: _by_tier(tiers, point, switch) for point, switch in POINTS.items()},
            {
                getattr(plugin, point): plugin.COUNTS_VICTIMS_BY
                for plugin in plugins
                for point in ("preemptable", "reclaimable")
                if plugin.COUNTS_VICTIMS_BY and hasattr(plugin, point)
            },
            [plugin.alike for plugin in plugins if hasattr(plugin, "job_order") or hasattr(plugin, "job_enqueueable")],
            any(hasattr(plugin, point) for plugin in plugins if plugin.option.name in third_party for point in _TELL_JOBS_APART),
        )


def equivalence_key(alike: Sequence[Callable[[Job], Hashable]], job: Job) -> Hashable:
    """Return the same of jobs of one queue that plugins do not tell apart while they wait to be let in."""
    return (job.key if job.preemption.privileged else "", *[function(job) for function in alike])


def _by_tier(tiers: Sequence[Sequence[_Configured]], point: str, switch: str) -> list[list[Callable[..., Any]]]:
    by_tier = [
        [getattr(plugin, point) for plugin in tier if hasattr(plugin, point) and (not switch or switch in plugin.option.enabled)]
        for tier in tiers
    ]
    return [functions for functions in by_tier if functions]
