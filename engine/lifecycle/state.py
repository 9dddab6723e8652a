"""State of a lifecycle shard: every job (`job`), and the facts of clusters.

State is the fold of the shard's own events (`evolve`) and of the cluster facts (`absorb`), nothing else. Indexes make the cost of
an event independent of the number of jobs; `codec` does not encode them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from engine.events.bounds import REPLICAS
from engine.events.inputs import OTHER
from engine.kubernetes.observation.cluster_facts import ClusterFacts
from engine.kubernetes.observation.oldest_first import OldestFirst
from engine.kubernetes.reading.accelerators import BUILT_IN, Accelerators
from engine.lifecycle.forgotten_ids import Forgotten
from engine.lifecycle.job import Job, Page


@dataclass(slots=True)
class ShardState:
    """The state of one lifecycle shard."""

    forget_after: int
    """Time for which a finished job is kept (microseconds)."""
    orphan_wait: int
    """Time for which a pod waits for the managed job that it names (microseconds)."""
    max_replicas: int = REPLICAS
    """Maximum number of replicas of a job."""
    services: frozenset[str] = frozenset()
    """Kinds of owners whose observed pods are services."""
    accelerators: Accelerators = BUILT_IN
    """Table of the resources that are GPUs, for the pod templates of managed jobs."""
    jobs: dict[str, Job] = field(default_factory=dict)
    closed: dict[str, bytes] = field(default_factory=dict)
    """Encoded record by id of each idle job (`codec`)."""
    closed_pages: dict[str, dict[Page, bytes]] = field(default_factory=dict)
    """Their encoded later pages, if any."""
    forgotten: Forgotten = field(default_factory=Forgotten)
    """Ids of forgotten jobs."""
    facts: ClusterFacts = field(default_factory=ClusterFacts)
    """Nodes and objects of clusters."""
    timers: list[tuple[int, str, str]] = field(default_factory=list)
    """Heap of (due, timer id, job id); entries of cancelled timers are skipped. Derived."""
    finished: OldestFirst[str] = field(default_factory=OldestFirst)
    """Job ids by `Job.rest`. Derived."""
    unknown_ids: dict[str, int] = field(default_factory=dict)
    """Start of the idle time by id of each idle id that is no job. Derived."""
    oldest_unknown_ids: OldestFirst[str] = field(default_factory=OldestFirst)
    """The same ids in order. Derived."""
    on_node: dict[tuple[str, str], dict[str, str | dict[str, None]]] = field(default_factory=dict)
    """By (cluster, node) and job id, the job's pods on the node, live or with an object still to be deleted: the uid of one, or the
    uids of several (most jobs have one pod on a node, and a dict needs 184 bytes). Derived."""
    awaited_on: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    """By (cluster, deleted node), the jobs with a timer for the end of the wait for their pods on it. Derived."""
    submitted: dict[str, dict[str, None]] = field(default_factory=dict)
    """Ids of submitted jobs by the id in the submission, if another job already had that id. Derived."""
    pod_jobs: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """By (cluster, namespace) and uid of a pod, or of an object that controls pods below their job, the id of the job with the
    attempt, until that job is forgotten. Derived."""
    further_jobs: dict[tuple[str, str, str], set[str]] = field(default_factory=dict)
    """By (cluster, namespace, uid of a pod), further jobs with an attempt of it, in logs of earlier releases. Derived."""
    steps: dict[str, int] = field(default_factory=dict)
    """Due times of timers of kind `step`. Derived."""
    warm: OrderedDict[str, Job] = field(default_factory=OrderedDict)
    """Cache of jobs that were read and are not in `jobs` (closed or unknown ones), so that a decision and its events use the same
    object. Not part of the state."""
    warm_attempts: int = 0
    """Sum of the cached jobs' attempts. Not part of the state."""
    touched: dict[str, None] = field(default_factory=dict)
    """Records changed since the snapshot last requested them."""

    def listed_kind(self, kind: str) -> str:
        """Return the kind of an observed job; `Other`, which lists and bills leave out, for a kind configured as a service."""
        return OTHER if kind in self.services else kind
