"""What a plugin is, and the extension points where sessions ask plugins (Volcano `framework.Plugin`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from engine.scheduling.configuration import PluginOption

if TYPE_CHECKING:  # a session asks plugins, and a plugin the session
    from engine.scheduling.session import Session

__all__ = ["POINTS", "Plugin", "functions_by_tier"]

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
    "overused": "overused",
    "allocatable": "allocatable",
    "preemptive": "preemptive",
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
- `overused(queue)`, `allocatable(queue, task)`, `preemptive(queue, task)` → `bool`; `lacking(queue, task)` → the plugin's
  name and `Amounts` by which the queue's limit is too small for the task: so much the queue must give up before it is allocatable;
  `share_of(queue)` → `QueueShare | None`, asked by operators only.
- `job_enqueueable(job)` → `Vote`; `job_enqueued(job)` → nothing, it accounts for the job.
"""


class Plugin:
    """Base of plugins."""

    NAME: ClassVar[str]
    COUNTS_VICTIMS_BY: ClassVar[Literal["", "job", "queue"]] = ""
    """Where it is not empty, the plugin is asked about one pod of each job (or queue) and class before nodes are looked at.

    `job`: it names victims by their job and class alone, counting down what each job can spare; `queue`: by their queue and
    class, counting down what each queue can spare. Whom it does not name alone, or for one task of a job, it does not name among
    others or for the job's later tasks. Empty: it may name anybody.
    """
    session: Session

    def __init__(self, option: PluginOption) -> None:
        """Read the arguments.

        Raises:
            ConfigurationError: an argument cannot be used.
        """
        self.option = option
        self.memory: dict[str, int] = {}
        """What it remembers from session to session: whole numbers, by names of its own. All else is made anew."""

    def open(self, session: Session) -> None:
        """Prepare for a session. Called in the order of the tiers, before any other method."""
        self.session = session

    def next_change(self, now: int) -> int | None:
        """Return when an answer may change by time alone (microseconds); `None`: never."""
        del now
        return None


def functions_by_tier(tiers: Sequence[Sequence[Plugin]]) -> dict[str, list[list[Callable[..., Any]]]]:
    """Return for each extension point the methods of the plugins that take part in it, by tier; tiers without any are left out."""
    points: dict[str, list[list[Callable[..., Any]]]] = {}
    for point, switch in POINTS.items():
        by_tier = [
            [
                getattr(plugin, point)
                for plugin in tier
                if hasattr(plugin, point) and (not switch or switch in plugin.option.enabled)
            ]
            for tier in tiers
        ]
        points[point] = [functions for functions in by_tier if functions]
    return points
