"""Extension points, at which sessions ask plugins (Volcano `framework`)."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol

from engine.scheduling.cluster.entities import Job
from engine.scheduling.configuration import PluginOption

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
- `predicate(pod_class)` → `Iterable[Verdict]`, from nodes and classes; `pod_predicate(pod_class, namespace, without)`
  → the same, from the pods on nodes, as if the tasks `without` were gone.
- `node_order(pod_class, rows)` → `Scores | None` of those rows, from their free resources (`Plugin.SCORES_ONE_NODE`);
  `batch_node_order(pod_class, namespace)` → `Iterable[Preference]`, which are scaled over the feasible nodes;
  `task_node_order(task)` → `Scores | None` of all nodes, for one task among its job's.
- `preemptable(task, candidates)`, `reclaimable(task, candidates)` → the candidates that may be evicted for the task, or `None`: it
  abstains; `victims(running)` → tasks to evict without a claimant; `protected(victims)` → those of them
  that may be evicted.
- `least_run(task)` → least run time of a pod's job before a notice (microseconds); asked for one pod of each class of a
  job.
- `overused(queue)`, `allocatable(queue, task)`, `preemptive(queue, task)` → `bool`; `lacking(queue, task)` → the plugin's
  name and `Amounts` by which the task exceeds the queue's limit: so much the queue must free before it is allocatable;
  `share_of(queue)` → `QueueShare | None`, for status only; `excess(queue, other, names, change)` → largest relative excess of a
  queue over its deserved amount of the named resources after a change, compared where it and `other` differ.
- `job_enqueueable(job)` → `Vote`; `job_enqueued(job)` → nothing: it accounts for the job.
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
"""Points that receive a job or one of its pods, except those covered by `Plugin.alike`."""


class _Configured(Protocol):
    option: PluginOption
    COUNTS_VICTIMS_BY: ClassVar[Literal["", "job", "queue"]]

    def alike(self, job: Job) -> Hashable: ...


@dataclass(slots=True, frozen=True)
class Participants:
    """Methods of a configuration's plugins, by extension point."""

    points: Mapping[str, list[list[Callable[..., Any]]]]
    """Extension point → methods by tier; tiers without any are omitted."""
    counts_by: Mapping[Callable[..., Any], str]
    """Method that names victims → `Plugin.COUNTS_VICTIMS_BY`, where that is not empty."""
    alike: Sequence[Callable[[Job], Hashable]]
    """`Plugin.alike` of the plugins that order or admit jobs."""
    tell_apart: bool
    """Whether a third party's plugin may distinguish any two jobs in a search for nodes or victims."""

    @classmethod
    def of(cls, tiers: Sequence[Sequence[_Configured]], third_party: Container[str] = ()) -> Participants:
        """Collect the methods of all plugins, tier by tier; plugins of third parties are given by name."""
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
    """Return the class key of a job: equal for jobs of one queue that no plugin distinguishes while they await admission."""
    return (job.key if job.preemption.privileged else "", *[function(job) for function in alike])


def _by_tier(tiers: Sequence[Sequence[_Configured]], point: str, switch: str) -> list[list[Callable[..., Any]]]:
    by_tier = [
        [getattr(plugin, point) for plugin in tier if hasattr(plugin, point) and (not switch or switch in plugin.option.enabled)]
        for tier in tiers
    ]
    return [functions for functions in by_tier if functions]
