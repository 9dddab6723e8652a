"""The module of each command, imported when the command is called, so that none waits for the imports of others."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.cli.help import Panel


class Place(NamedTuple):
    """A command's module and its line in `lahar --help`."""

    module: str
    """In `engine.cli`."""
    panel: Panel
    about: str
    more: str = ""
    """The module with a group's other commands, imported when one of them or their list is wanted; empty: all are in `module`."""

    @property
    def modules(self) -> tuple[str, ...]:
        """All modules of the command."""
        return (self.module, self.more) if self.more else (self.module,)


COMMANDS: Final[dict[str, Place]] = {
    "run": Place("run", Panel.RUN, "Process inputs, fire timers and call callbacks until interrupted."),
    "worker": Place("worker", Panel.RUN, "Run one stage of a log on Kafka until interrupted; any number of workers share it."),
    "agents": Place("agents", Panel.RUN, "Run agents: functions and counters that consume job events, on Kafka."),
    "apply": Place("apply", Panel.PUT, "Apply jobs to manage, and queues, nodes, tenants, priorities, grants and price books."),
    "ingest": Place("feed", Panel.PUT, "Read Kubernetes objects from files or standard input."),
    "import-trace": Place("feed", Panel.PUT, "Import the trace of a real cluster: its jobs and pods become history."),
    "summary": Place("ask", Panel.ASK, "Sum up the log: jobs, attempts, phases, reasons, GPU time, waits and runs."),
    "why": Place("ask", Panel.ASK, "Explain why a job, a replica, a node or an event is as it is."),
    "timeline": Place("ask", Panel.ASK, "Draw a job's three levels with their attempts over time."),
    "history": Place("ask", Panel.ASK, "Show everything that happened to a job, in order."),
    "as-of": Place("ask", Panel.ASK, "Show a job, a queue or the cluster as it was at a moment."),
    "diff": Place("ask", Panel.ASK, "Show what changed between two moments, field by field, at all levels."),
    "whatif": Place("whatif", Panel.ASK, "Simulate a recorded history with another scheduler, other queues or nodes."),
    "events": Place("events", Panel.ASK, "Show job events as they were committed, and follow them."),
    "job": Place("jobs", Panel.ASK, "List and show jobs; submit, command and release them.", "job_commands"),
    "queue": Place("queue_group", Panel.ASK, "Queues: shares, use, who waits and for what; open and close them."),
    "node": Place("scheduling_groups", Panel.ASK, "Nodes: what they have, what is used, and by whom."),
    "tenant": Place("scheduling_groups", Panel.ASK, "Tenants: namespaces, weights, quotas and use."),
    "podgroup": Place("scheduling_groups", Panel.ASK, "Pod groups of jobs that Lahar schedules: phase, members, why they wait."),
    "preemptions": Place(
        "preemptions_group", Panel.ASK, "Notices of preemption: who is to be stopped for whom and when; answer them."
    ),
    "billing": Place("billing_group", Panel.ASK, "What was used, what it costs, and which events say so."),
    "prices": Place("prices_group", Panel.ASK, "The price book: check, show and compare."),
    "verify": Place("operate", Panel.OPERATE, "Check that snapshots equal the history, and that each input taken has one outcome."),
    "export": Place("operate", Panel.OPERATE, "Write the log to standard output: all of it, one job or a range."),
    "import": Place("operate", Panel.OPERATE, "Restore an export into an empty log: all of it, or nothing."),
    "status": Place("run", Panel.OPERATE, "Show the engine's position and lag, shard by shard."),
    "callbacks": Place("callback_group", Panel.OPERATE, "List the registered callbacks; resume a disabled one."),
    "dead-letters": Place("letters", Panel.OPERATE, "Inputs that could not be read: list them, put them in again, discard them."),
    "log": Place("operate", Panel.OPERATE, "Look after the log's file: backup, compact."),
    "topics": Place("topics", Panel.OPERATE, "Kafka's topics and their settings: compare, create."),
    "simulate": Place("simulate", Panel.TOOLS, "Simulate the jobs of a trace on a cluster in memory, by the same stages."),
    "experiment": Place("experiment", Panel.TOOLS, "Reproduce published experiments on a simulated cluster."),
    "bench": Place("bench", Panel.TOOLS, "Measure speed, memory and pauses beside their budgets; exit code 1 if one is not met."),
    "diagram": Place("machines", Panel.TOOLS, "Draw the state machines of job, task, replica and notice as Mermaid."),
    "conform": Place("tools", Panel.TOOLS, "Run conformance cases by the engine's own rules."),
    "schema": Place("vocabulary", Panel.TOOLS, "Show the event types, or the JSON Schema of one."),
    "inspect": Place("tools", Panel.TOOLS, "Show what Lahar reads in Kubernetes objects."),
}
"""In the order of the help. A test compares it with the commands themselves."""
