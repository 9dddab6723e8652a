"""Bounds of one input. An input beyond a bound is refused with the bound's name, at the edge and again where it is decided.

They are far above what people and clusters write, and small enough that the most expensive input within them delays nobody else.
docs/reliability.md lists each with what happens beyond it.
"""

from __future__ import annotations

from typing import Final

from statemachines.spec import RESOURCE

__all__ = [
    "CHECK_NESTING",
    "CHECK_STEPS",
    "CUSTOM_EVENTS",
    "DECISION_BYTES",
    "EVENT_DATA_BYTES",
    "EVENT_DATA_NESTING",
    "EXPORT_LINE_BYTES",
    "FACT_BYTES",
    "FAULTS",
    "FAULT_CHARACTERS",
    "FILE_BYTES",
    "HOST_PORTS",
    "INPUT_BYTES",
    "INT32",
    "LABELS",
    "LAHAR_SPEC_BYTES",
    "LIST_BYTES",
    "MANIFEST_VALUES",
    "MESSAGE_BYTES",
    "MOMENT_BYTES",
    "MOMENT_INPUTS",
    "NAME_CHARACTERS",
    "NESTING",
    "NUMBER_CHARACTERS",
    "OBJECT_BYTES",
    "POLICIES",
    "QUEUE_DEPTH",
    "RAISE_RULES",
    "REPLICAS",
    "RESOURCE",
    "RESOURCES",
    "SCHEMA_NESTING",
    "SCHEMA_PATTERNS",
    "SCHEMA_PATTERN_CHARACTERS",
    "SCHEMA_PATTERN_INSTRUCTIONS",
    "SCHEMA_VALUES",
    "TAINTS",
    "TASKS",
    "TEXT_CHARACTERS",
    "TRACE_LINES",
    "TRACE_LINE_BYTES",
    "TRACE_PODS",
    "TRACE_ROWS",
    "UNREADABLE",
    "VALUES",
    "YAML_TAG_DIRECTIVES",
]

# --- every text and every input ---------------------------------------------------------------------------------------------

NESTING: Final = 100
"""Levels of lists and mappings within each other, in every text that is parsed, bracketed or indented."""

NUMBER_CHARACTERS: Final = 100
"""Characters of one number in a text; arithmetic on longer ones is slow."""

OBJECT_BYTES: Final = 64 << 20
"""One object of a file or a stream, and a List in YAML. One in JSON has no bound: its items are read one by one."""

LIST_BYTES: Final = 1 << 20
"""A larger List or array in JSON is split while it is read."""

MOMENT_INPUTS: Final = 10_000
"""Inputs of one List that are held back until its last item is read; a longer List is read as several moments."""

MOMENT_BYTES: Final = 16 << 20
"""Data of these inputs, and of one append by `ingest`: ten times the data of as many ordinary pods."""

UNREADABLE: Final = 100
"""Entries of one List or array that are no objects and become dead letters of their own. `[1,1,1…` has one per two bytes."""

FILE_BYTES: Final = 64 << 20
"""A file of manifests, which is read whole: it is applied only if all of it can be read."""

VALUES: Final = 3_000_000
"""Values of one object or YAML stream, each repetition by an alias counted: more than `OBJECT_BYTES` of ordinary objects have.
Three bytes of JSON can be a list of 60 bytes in memory."""

EXPORT_LINE_BYTES: Final = 32 << 20
"""A line of an export: one record of a log."""

TRACE_LINE_BYTES: Final = 64 << 10
"""A row of a trace, unpacked."""

TRACE_LINES: Final = 4_000_000
"""Lines of a trace, also blank ones and comments: a thousand of them are a byte of gzip."""

TRACE_ROWS: Final = 2_000_000
"""Rows of a trace, which are sorted in memory."""

TRACE_PODS: Final = 10_000_000
"""Pods of all rows of a trace together."""

YAML_TAG_DIRECTIVES: Final = 100
"""`%TAG` lines of a file in YAML."""

INPUT_BYTES: Final = 2 << 20
"""Data of an input with a manifest or a specification, as JSON. etcd accepts objects up to 1.5 MiB, and an event about an input
carries it whole."""

FACT_BYTES: Final = 512 << 10
"""Data of any other input, as JSON. The largest that Kubernetes allows is a node or a job with `LABELS` labels of the longest keys
(317) and values (63), 377 KiB, and `TASKS` tasks; a pod within the bounds of its fields has 90 KiB. Reading takes up to 65 ms if
all values are wrong, because each is an error of its own; 2 MiB would take 360 ms."""

NAME_CHARACTERS: Final = 512
"""A name, an id, a key, a reason in one word; the longest of Kubernetes has 317."""

TEXT_CHARACTERS: Final = 4096
"""A message for people."""

MESSAGE_BYTES: Final = 512
"""First and last bytes of a message of a pod or a job object that go into events."""

LABELS: Final = 1_000
"""Labels of one object; node feature discovery sets some hundreds."""

RESOURCES: Final = 100
"""Resources of one pod, or of one node beside cpu, memory and pods; each kind of device is one."""

HOST_PORTS: Final = 100
"""Host ports of one pod."""

TAINTS: Final = 100
"""Taints of one node."""

QUEUE_DEPTH: Final = 32
"""Queues from a leaf to the root."""

INT32: Final = 2**31 - 1
"""Kubernetes counts in 32 bits: indexes, attempts, restarts, exit codes."""

# --- a job ------------------------------------------------------------------------------------------------------------------

REPLICAS: Final = 20_000
"""Replicas of a job, all tasks together, unless configured with `max_replicas`; indexes are below it."""

TASKS: Final = 500
"""Tasks of a job."""

POLICIES: Final = 100
"""Policies of a job, and of each of its tasks."""

DECISION_BYTES: Final = 3 << 20
"""Places for pods in one decision about a job, as JSON: a topic takes records of 4 MiB. A gang is bound in one decision."""

RAISE_RULES: Final = 100
"""`raise` rules of a job."""

CUSTOM_EVENTS: Final = 100
"""Custom events that a job declares."""

MANIFEST_VALUES: Final = 50_000
"""Values of a manifest, down to the last argument of a container."""

LAHAR_SPEC_BYTES: Final = 64 << 10
"""The annotation `lahar/spec`."""

FAULTS: Final = 100
"""Faults, and warnings, reported for one manifest."""

FAULT_CHARACTERS: Final = 1000
"""Characters of one of them."""

# --- JSON Schemas of custom events, and their data --------------------------------------------------------------------------

SCHEMA_NESTING: Final = 32
"""Levels of a schema. Its validator recurses several times per level; its result must not depend on the stack in use."""

SCHEMA_PATTERNS: Final = 32
"""Patterns of one custom event's schema."""

SCHEMA_PATTERN_CHARACTERS: Final = 2_048
r"""Characters of all patterns in the schemas of a job. RE2 needs up to 50 µs to read one: `\PL` is a class of 600 ranges."""

SCHEMA_PATTERN_INSTRUCTIONS: Final = 50_000
r"""Size of all patterns in the schemas of a job, as RE2 compiles them: `[a-z]{1,63}` has 129 instructions, `\pL` 1,200. Each takes
up to 1 µs to compile."""

SCHEMA_VALUES: Final = 500
"""Values of all schemas of a job. Checking each takes up to 0.6 ms."""

EVENT_DATA_BYTES: Final = 64 << 10
"""The data of a custom event, as JSON."""

EVENT_DATA_NESTING: Final = 32
"""Levels of data checked against a schema."""

CHECK_STEPS: Final = 50_000
"""Steps of checking the data of one event against its schema; a step takes some 10 µs."""

CHECK_NESTING: Final = 100
"""Nested keywords of a schema; each is four calls deep."""
