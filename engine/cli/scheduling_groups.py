"""`lahar queue …`, `lahar node …`, `lahar tenant …`, `lahar podgroup …`: how they stand as scheduling sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Annotated, Any, Final, Literal, Protocol, TypeVar

import typer
from rich.text import Text

from engine.application.questions import Questions
from engine.application.queue_state import change_queue_state
from engine.application.scheduling import Scheduling
from engine.cli.app import JsonOption, LogOption, Panel, group, output_of, settings_of
from engine.cli.arguments import JobArgument, NoProcessOption, RecordedOption, moment
from engine.cli.input_outcomes import finish, new_feed
from engine.cli.output import Output
from engine.cli.render import whole_table
from engine.history.formatting import amount, plural
from engine.history.waiting import Waiting, waiting_of
from engine.log.port import SearchableLog
from engine.log.producer_time import wall_clock as now
from engine.runtime.engine import opened
from engine.runtime.stages import SCHEDULING_OFF
from engine.scheduling.standings import GroupStanding, NodeStanding, QueueStanding

__all__ = ["nodes", "pod_groups", "queues", "tenants"]

queues = group("queue", Panel.ASK, "Queues: shares, use, who waits and for what; open and close them.")
nodes = group("node", Panel.ASK, "Nodes: what they have, what is used, and by whom.")
tenants = group("tenant", Panel.ASK, "Tenants: namespaces, weights, quotas and use.")
pod_groups = group("podgroup", Panel.ASK, "Pod groups of jobs that Lahar schedules: phase, members, why they wait.")

ClusterOption = Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster.")]
ItsClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="Its cluster, where several have the name.")
]

_NONE: Final = "-"
_UNLISTED: Final = frozenset({"pods"})
"""Resources that lists leave out; `show` has all."""


class _Standing(Protocol):
    @property
    def cluster(self) -> str: ...

    def document(self) -> dict[str, Any]: ...


T = TypeVar("T")
NameOfQueue = Annotated[str, typer.Argument(metavar="NAME", help="The queue.")]


def _answer(
    context: typer.Context, log: str | None, as_json: bool, question: Callable[[Scheduling, SearchableLog], T]
) -> tuple[Output, T]:
    """Ask the scheduling shard of the log; returns the answer, and where it is to be shown."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    if not settings.scheduling:
        output.note(SCHEDULING_OFF)
    with opened(settings) as source, closing(Questions(settings, source)) as questions:
        with output.busy("reading the log"):
            asked = Scheduling(questions, source, settings)
        return output, question(asked, source)


def _is_shown(output: Output, found: _Standing) -> bool:
    """Show its JSON if that is wanted; returns whether it was."""
    if output.as_json:
        output.record(found.document())
    return output.as_json


def _listed(
    output: Output,
    found: Sequence[_Standing],
    headings: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    wide: set[str],
    right: set[str],
) -> None:
    """Show one row of each, with the cluster if there are several; or its JSON."""
    if output.as_json:
        for one in found:
            output.record(one.document())
        return
    first = 0 if len({one.cluster for one in found}) > 1 else 1
    shown = [(one.cluster, *row)[first:] for one, row in zip(found, rows, strict=True)]
    table = whole_table(output, ("CLUSTER", *headings)[first:], shown, {"CLUSTER", *wide}, right)
    output.console.print(table, soft_wrap=True)


def _title(output: Output, name: str, cluster: str, *facts: str) -> None:
    output.console.print(Text.assemble((name, "bold"), (f"  cluster {cluster}", "dim")), soft_wrap=True)
    output.console.print(", ".join(facts), soft_wrap=True)


def _resources(output: Output, **columns: Mapping[str, int]) -> None:
    """Show amounts, a row for each resource."""
    names = sorted({name for amounts in columns.values() for name in amounts})
    rows = [(name, *(_amount(name, amounts.get(name)) for amounts in columns.values())) for name in names]
    headings = tuple(heading.upper() for heading in columns)
    if rows:
        output.console.print("", whole_table(output, ("RESOURCE", *headings), rows, {"RESOURCE"}, set(headings)), soft_wrap=True)


def _amount(name: str, value: int | None) -> str:
    return _NONE if value is None else amount(name, value)


def _amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{amount(name, value)}{_unit(name)}" for name, value in amounts.items() if name not in _UNLISTED) or _NONE


def _unit(resource: str) -> str:
    return "" if resource == "memory" else f" {resource}"


def _counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or _NONE


# --- queues ---------------------------------------------------------------------------------------------------------------------


@queues.command("list", examples=["lahar queue list", "lahar queue list --cluster prod-1 --json"])
def list_queues(context: typer.Context, cluster: ClusterOption = None, log: LogOption = None, as_json: JsonOption = False) -> None:
    """List queues with what they hold, what they deserve, and how many of their jobs wait."""
    output, found = _answer(context, log, as_json, lambda asked, _: asked.queues(cluster))
    headings = ("QUEUE", "STATE", "WEIGHT", "HOLDS/DESERVES", "SHARE", "JOBS", "WAITING")
    rows = (
        (
            queue.name,
            queue.state,
            str(queue.weight),
            _held(queue.allocated, queue.deserved),
            _share(queue),
            _counts(queue.jobs),
            str(len(queue.waiting)),
        )
        for queue in found
    )
    _listed(output, found, headings, rows, {"QUEUE", "HOLDS/DESERVES"}, {"WEIGHT", "SHARE", "WAITING"})


def _held(allocated: Mapping[str, int], deserved: Mapping[str, int]) -> str:
    """Return what is held of what is deserved: `16/32 cpu, 128/256 GiB`."""
    names = sorted((allocated.keys() | deserved.keys()) - _UNLISTED)
    return (
        ", ".join(f"{_number(name, allocated.get(name, 0))}/{_amount(name, deserved.get(name))}{_unit(name)}" for name in names)
        or _NONE
    )


def _number(name: str, value: int) -> str:
    return amount(name, value).partition(" ")[0]


def _share(queue: QueueStanding) -> str:
    return _NONE if queue.share is None else f"{queue.share:.0%}"


@queues.command("show", examples=["lahar queue show research"])
def show_queue(
    context: typer.Context,
    name: NameOfQueue,
    cluster: ItsClusterOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a queue: its share of each resource, its jobs, and who waits for what, in order."""
    output, queue = _answer(context, log, as_json, lambda asked, _: asked.queue(name, cluster))
    if _is_shown(output, queue):
        return
    facts = [queue.state, f"weight {queue.weight}", f"priority {queue.priority}"]
    facts += [f"below {queue.parent}"] if queue.parent else []
    facts += [] if queue.reclaimable else ["not reclaimable"]
    facts += [] if queue.share is None else [f"holds {_share(queue)} of what it deserves ({queue.plugin})"]
    facts += ["overused"] if queue.overused and queue.allocated else []
    _title(output, queue.name, queue.cluster, *facts)
    _resources(
        output,
        guarantee=queue.guarantee,
        deserved=queue.deserved,
        capability=queue.capability,
        limit=queue.limit,
        allocated=queue.allocated,
        requested=queue.requested,
    )
    output.console.print()
    output.console.print(f"jobs: {_counts(queue.jobs)}", soft_wrap=True)
    if queue.waiting:
        headings = ("WAITING", "JOB", "PHASE", "MINIMUM", "PODS", "REASON")
        rows = [(str(place), *_group(waiting)) for place, waiting in enumerate(queue.waiting, start=1)]
        output.console.print("", whole_table(output, headings, rows, {"JOB", "REASON"}, {"WAITING", "MINIMUM"}), soft_wrap=True)


def _group(group: GroupStanding) -> tuple[str, ...]:
    return (
        f"{group.namespace}/{group.name}",
        group.phase,
        str(group.min_available),
        _counts(group.members),
        _reason(group),
    )


def _reason(group: GroupStanding) -> str:
    """Return why a group waits, in a few words."""
    said = group.reason
    if said is None:
        return f"promised {', '.join(group.promised)}" if group.promised else "held" if group.held else _NONE
    lacking = ", ".join(f"{amount(name, value)} {name}" for name, value in said.missing.items())
    return f"{said.reason}: {lacking} missing" if lacking else said.reason


@queues.command("open", examples=["lahar queue open research"])
def open_queue(
    context: typer.Context,
    name: NameOfQueue,
    cluster: ItsClusterOption = None,
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open a queue, and those below it that were closed with it."""
    _change(context, name, "Open", cluster, at, log, as_json=as_json, process=not no_process)


@queues.command("close", examples=["lahar queue close research"])
def close_queue(
    context: typer.Context,
    name: NameOfQueue,
    cluster: ItsClusterOption = None,
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close a queue and those below it: they take no jobs and start none; pods that run, run on.

    It is Closing until its jobs are over, then Closed.
    """
    _change(context, name, "Closed", cluster, at, log, as_json=as_json, process=not no_process)


def _change(
    context: typer.Context,
    name: str,
    state: Literal["Open", "Closed"],
    cluster: str | None,
    at: str | None,
    log: str | None,
    *,
    as_json: bool,
    process: bool,
) -> None:
    output, settings = output_of(context, as_json), settings_of(context, log)
    recorded = now() if at is None else moment(at)
    with opened(settings, readonly=False) as target:
        feed = new_feed(target, settings, output, process=process)
        changed = change_queue_state(feed, target, name, state, recorded, cluster=cluster, warn=output.warn)
        for one in changed:
            if output.as_json:
                output.record({"kind": one.kind, "name": one.name, "state": state, "outcome": one.outcome})
            else:
                output.line(f"Queue {one.name}: {'was' if one.outcome == 'unchanged' else 'is now'} {state}")
        finish(feed, output)


# --- nodes ----------------------------------------------------------------------------------------------------------------------


@nodes.command("list", examples=["lahar node list", "lahar node list --json | jq 'select(.cordoned).name'"])
def list_nodes(context: typer.Context, cluster: ClusterOption = None, log: LogOption = None, as_json: JsonOption = False) -> None:
    """List nodes with what is used and idle."""
    output, found = _answer(context, log, as_json, lambda asked, _: asked.nodes(cluster))
    rows = (
        (node.name, _state(node), ", ".join(node.taints) or _NONE, str(len(node.pods)), _amounts(node.used), _amounts(node.idle))
        for node in found
    )
    headings = ("NODE", "STATE", "TAINTS", "PODS", "USED", "IDLE")
    _listed(output, found, headings, rows, {"NODE", "TAINTS", "USED", "IDLE"}, {"PODS"})


def _state(node: NodeStanding) -> str:
    ready = {"True": "Ready", "False": "NotReady"}.get(node.ready, "Unknown")
    return f"{ready}, cordoned" if node.cordoned else ready


@nodes.command("show", examples=["lahar node show gpu-1"])
def show_node(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node.")],
    cluster: ItsClusterOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a node: what it has of each resource, what is used, and the pods that are on it or are to be."""
    output, node = _answer(context, log, as_json, lambda asked, _: asked.node(name, cluster))
    if _is_shown(output, node):
        return
    taints = f"taints {', '.join(node.taints)}" if node.taints else "no taints"
    _title(output, node.name, node.cluster, _state(node), taints, plural(len(node.pods), "pod"))
    _resources(output, allocatable=node.allocatable, used=node.used, releasing=node.releasing, idle=node.idle)
    if node.pods:
        rows = [
            (
                f"{pod.namespace}/{pod.name}",
                f"{pod.task}[{pod.index}]",
                str(pod.attempt),
                pod.status,
                "Lahar" if pod.ours else "others",
            )
            for pod in node.pods
        ]
        headings = ("JOB", "REPLICA", "ATTEMPT", "STATE", "PLACED BY")
        output.console.print("", whole_table(output, headings, rows, {"JOB"}, {"ATTEMPT"}), soft_wrap=True)


# --- tenants --------------------------------------------------------------------------------------------------------------------


@tenants.command("list", examples=["lahar tenant list"])
def list_tenants(context: typer.Context, cluster: ClusterOption = None, log: LogOption = None, as_json: JsonOption = False) -> None:
    """List tenants with their jobs and what these hold. What they spend: `lahar billing budgets`."""
    output, found = _answer(context, log, as_json, lambda asked, _: asked.tenants(cluster))
    rows = (
        (
            tenant.name,
            str(tenant.weight),
            ", ".join(tenant.namespaces),
            str(tenant.jobs),
            str(tenant.waiting),
            _amounts(tenant.allocated),
            str(len(tenant.quotas)),
        )
        for tenant in found
    )
    headings = ("TENANT", "WEIGHT", "NAMESPACES", "JOBS", "WAITING", "ALLOCATED", "QUOTAS")
    _listed(output, found, headings, rows, {"TENANT", "NAMESPACES", "ALLOCATED"}, {"WEIGHT", "JOBS", "WAITING", "QUOTAS"})


@tenants.command("show", examples=["lahar tenant show research"])
def show_tenant(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tenant.")],
    cluster: ItsClusterOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a tenant: its namespaces, its weight, what its jobs hold, and its quotas."""
    output, tenant = _answer(context, log, as_json, lambda asked, _: asked.tenant(name, cluster))
    if _is_shown(output, tenant):
        return
    jobs = f"{plural(tenant.jobs, 'job')}, {tenant.waiting} waiting"
    _title(output, tenant.name, tenant.cluster, f"weight {tenant.weight}", f"namespaces {', '.join(tenant.namespaces)}", jobs)
    _resources(output, allocated=tenant.allocated)
    for quota in tenant.quotas:
        output.console.print()
        output.console.print(f"quota of namespace {quota.namespace}", soft_wrap=True)
        _resources(output, hard=quota.hard, used=quota.used)


# --- pod groups -----------------------------------------------------------------------------------------------------------------


@pod_groups.command("list", examples=["lahar podgroup list", "lahar podgroup list --waiting --json"])
def list_pod_groups(
    context: typer.Context,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only of jobs of this queue.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only those that wait.")] = False,
    cluster: ClusterOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the pod groups of jobs that Lahar schedules and that are not over, the oldest first."""
    output, every = _answer(context, log, as_json, lambda asked, _: asked.pod_groups(cluster))
    found = [one for one in every if queue in {None, one.queue} and (one.waits or not waiting)]
    rows = ((one.queue, *_group(one)) for one in found)
    headings = ("QUEUE", "JOB", "PHASE", "MINIMUM", "PODS", "REASON")
    _listed(output, found, headings, rows, {"QUEUE", "JOB", "REASON"}, {"MINIMUM"})


@pod_groups.command("show", examples=["lahar podgroup show default/train"])
def show_pod_group(context: typer.Context, job: JobArgument, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Show a job's pod group: its phase, its members by state, and why it waits."""

    def question(asked: Scheduling, source: SearchableLog) -> tuple[GroupStanding, Waiting | None]:
        group = asked.pod_group(job)
        return group, waiting_of(source, group.job)

    output, (found, why) = _answer(context, log, as_json, question)
    if _is_shown(output, found):
        return
    facts = [found.phase or "Pending", f"queue {found.queue}", f"priority {found.priority}", f"needs {found.min_available}"]
    facts += [f"{minimum} of {task}" for task, minimum in found.tasks.items()]
    facts += ["held: nothing is decided about it now"] if found.held else []
    _title(output, f"{found.namespace}/{found.name}", found.cluster, *facts)
    output.console.print(f"pods: {_counts(found.members)}", soft_wrap=True)
    if why is not None:
        for text in (*why.sentences(), why.advice()):
            output.console.print(text, soft_wrap=True)
