"""`lahar node …`, `lahar tenant …`, `lahar podgroup …`: how they stand as scheduling sees them."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from engine.cli.app import JsonOption, LogOption, Panel, group
from engine.cli.arguments import JobArgument
from engine.cli.columns import Column
from engine.cli.render import whole_table
from engine.cli.standings import (
    GROUPS,
    NONE,
    AtOption,
    ClusterOption,
    ItsClusterOption,
    amounts_text,
    answer,
    counts_text,
    print_list,
    print_resources,
    print_title,
    shown_as_json,
)
from engine.formatting import plural
from lahar import NodeStatus, TenantStatus

nodes = group("node", Panel.ASK, "Nodes: what they have, what is used, and by whom.")
tenants = group("tenant", Panel.ASK, "Tenants: namespaces, weights, quotas and use.")
pod_groups = group("podgroup", Panel.ASK, "Pod groups of jobs that Lahar schedules: phase, members, why they wait.")

# --- nodes ----------------------------------------------------------------------------------------------------------------------


@nodes.command("list", examples=["lahar node list", "lahar node list --json | jq 'select(.cordoned).name'"])
def list_nodes(
    context: typer.Context,
    cluster: ClusterOption = None,
    at: AtOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List nodes with what is used and idle."""
    output, found = answer(context, log, as_json, lambda asked: asked.nodes(cluster), at)
    print_list(output, found, _NODES)


def _state(node: NodeStatus) -> str:
    ready = {"True": "Ready", "False": "NotReady"}.get(node.ready, "Unknown")
    return f"{ready}, cordoned" if node.cordoned else ready


_NODES: Final[tuple[Column[NodeStatus], ...]] = (
    Column("NODE", lambda node: node.name, "name"),
    Column("STATE", _state),
    Column("TAINTS", lambda node: ", ".join(node.taints) or NONE, "name"),
    Column("PODS", lambda node: str(len(node.pods)), "number"),
    Column("USED", lambda node: amounts_text(node.used), "name"),
    Column("IDLE", lambda node: amounts_text(node.idle), "name"),
)


@nodes.command("show", examples=["lahar node show gpu-1"])
def show_node(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node.")],
    cluster: ItsClusterOption = None,
    at: AtOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a node: what it has of each resource, what is used, and the pods that are on it or are to be."""
    output, node = answer(context, log, as_json, lambda asked: asked.node(name, cluster), at)
    if shown_as_json(output, node):
        return
    taints = f"taints {', '.join(node.taints)}" if node.taints else "no taints"
    print_title(output, node.name, node.cluster, _state(node), taints, plural(len(node.pods), "pod"))
    print_resources(output, allocatable=node.allocatable, used=node.used, releasing=node.releasing, idle=node.idle)
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
def list_tenants(
    context: typer.Context,
    cluster: ClusterOption = None,
    at: AtOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List tenants with their jobs and what these hold. What they spend: `lahar billing budgets`."""
    output, found = answer(context, log, as_json, lambda asked: asked.tenants(cluster), at)
    print_list(output, found, _TENANTS)


_TENANTS: Final[tuple[Column[TenantStatus], ...]] = (
    Column("TENANT", lambda tenant: tenant.name, "name"),
    Column("WEIGHT", lambda tenant: str(tenant.weight), "number"),
    Column("NAMESPACES", lambda tenant: ", ".join(tenant.namespaces), "name"),
    Column("JOBS", lambda tenant: str(tenant.jobs), "number"),
    Column("WAITING", lambda tenant: str(tenant.waiting), "number"),
    Column("ALLOCATED", lambda tenant: amounts_text(tenant.allocated), "name"),
    Column("QUOTAS", lambda tenant: str(len(tenant.quotas)), "number"),
)


@tenants.command("show", examples=["lahar tenant show research"])
def show_tenant(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tenant.")],
    cluster: ItsClusterOption = None,
    at: AtOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a tenant: its namespaces, its weight, what its jobs hold, and its quotas."""
    output, tenant = answer(context, log, as_json, lambda asked: asked.tenant(name, cluster), at)
    if shown_as_json(output, tenant):
        return
    jobs = f"{plural(tenant.jobs, 'job')}, {tenant.waiting} waiting"
    print_title(output, tenant.name, tenant.cluster, f"weight {tenant.weight}", f"namespaces {', '.join(tenant.namespaces)}", jobs)
    print_resources(output, allocated=tenant.allocated)
    for quota in tenant.quotas:
        output.console.print()
        output.console.print(f"quota of namespace {quota.namespace}", soft_wrap=True)
        print_resources(output, hard=quota.hard, used=quota.used)


# --- pod groups -----------------------------------------------------------------------------------------------------------------


@pod_groups.command("list", examples=["lahar podgroup list", "lahar podgroup list --waiting --json"])
def list_pod_groups(
    context: typer.Context,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only of jobs of this queue.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only those that wait.")] = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the pod groups of jobs that Lahar schedules and that are not over, the oldest first."""
    output, every = answer(context, log, as_json, lambda asked: asked.pod_groups(cluster), at)
    found = [one for one in every if queue in {None, one.queue} and (one.waits or not waiting)]
    print_list(output, found, (Column("QUEUE", lambda group: group.queue, "name"), *GROUPS))


@pod_groups.command("show", examples=["lahar podgroup show default/train"])
def show_pod_group(
    context: typer.Context, job: JobArgument, at: AtOption = None, log: LogOption = None, as_json: JsonOption = False
) -> None:
    """Show a job's pod group: its phase, its members by state, and why it waits."""
    output, (found, why) = answer(context, log, as_json, lambda asked: (asked.pod_group(job), asked.waiting(job)), at)
    if shown_as_json(output, found):
        return
    facts = [found.phase or "Pending", f"queue {found.queue}", f"priority {found.priority}", f"needs {found.min_available}"]
    facts += [f"{minimum} of {task}" for task, minimum in found.tasks.items()]
    facts += ["held: nothing is decided about it now"] if found.held else []
    print_title(output, f"{found.namespace}/{found.name}", found.cluster, *facts)
    output.console.print(f"pods: {counts_text(found.members)}", soft_wrap=True)
    if why is not None:
        for text in (*why.sentences(), why.advice()):
            output.console.print(text, soft_wrap=True)
