"""What one input may cost at most. Beyond a bound it is refused with the bound's name, at the edge and again where it is decided.

Sizes are far above what people and clusters write, and small enough that the dearest input within all of them holds up nobody
else: docs/reliability.md lists each with what happens beyond it.
"""

from __future__ import annotations

from typing import Final

from statemachines.spec import RESOURCE

__all__ = [
    "CHECK_NESTING",
    "CHECK_STEPS",
    "CUSTOM_EVENTS",
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
"""Characters of one number in a text; arithmetic on longer ones has its price."""

OBJECT_BYTES: Final = 64 << 20
"""One object of a file or a stream, and a List in YAML. One in JSON has no bound: its items are read one by one."""

LIST_BYTES: Final = 1 << 20
"""A List or an array in JSON that is larger is taken apart while it is read."""

MOMENT_INPUTS: Final = 10_000
"""Inputs of one List that are held back until its last item is known; a longer List is several moments."""

MOMENT_BYTES: Final = 16 << 20
"""The data of these, and of what `ingest` appends at once: ten times what so many ordinary pods have."""

UNREADABLE: Final = 100
"""Entries of one List or array that are kept each for itself though they are no objects. `[1,1,1…` has one in two bytes."""

FILE_BYTES: Final = 64 << 20
"""A file of manifests, which is held whole: nothing of it is applied unless all of it can be read."""

VALUES: Final = 3_000_000
"""Values of one object or YAML stream, what aliases repeat counted each time: more than `OBJECT_BYTES` of ordinary objects hold.
Three bytes of JSON can stand for a list of 60 bytes in memory."""

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
"""The data of an input that carries a manifest or a specification, as JSON. etcd takes no object of more than 1.5 MiB, and an
event about an input carries it whole."""

FACT_BYTES: Final = 512 << 10
"""The data of any other input, as JSON. The largest that Kubernetes lets be is a node or a job with `LABELS` labels of the longest
keys (317) and values (63), 377 KiB, and `TASKS` tasks; a pod within the bounds of its fields has 90 KiB. It takes up to 65 ms to be
read if all of its values are wrong, as each is an error of its own; 2 MiB would take 360 ms."""

NAME_CHARACTERS: Final = 512
"""A name, an id, a key, a reason in one word; Kubernetes' own end at 317."""

TEXT_CHARACTERS: Final = 4096
"""A message for people."""

MESSAGE_BYTES: Final = 512
"""Of the beginning, and of the end, of a message that a pod or a job object shows: so much of it goes into the events."""

LABELS: Final = 1_000
"""Labels of one object; feature discovery gives a node some hundreds."""

RESOURCES: Final = 100
"""Resources of one node beside cpu, memory and pods, and of one pod; each kind of device is one."""

HOST_PORTS: Final = 100
"""Ports of its node that one pod takes."""

TAINTS: Final = 100
"""Taints of one node."""

QUEUE_DEPTH: Final = 32
"""Queues from one without queues below it up to the root."""

INT32: Final = 2**31 - 1
"""Kubernetes counts in 32 bits: indexes, attempts, restarts, exit codes."""

# --- a job ------------------------------------------------------------------------------------------------------------------

REPLICAS: Final = 20_000
"""Replicas of a job, all tasks together, unless `max_replicas` in the configuration says otherwise; an index lies below it."""

TASKS: Final = 500
"""Tasks of a job."""

POLICIES: Final = 100
"""Policies of a job, and of each of its tasks."""

RAISE_RULES: Final = 100
"""`raise` rules of a job."""

CUSTOM_EVENTS: Final = 100
"""Custom events that a job declares."""

MANIFEST_VALUES: Final = 50_000
"""Values of a manifest, from its top to the last argument of a container."""

LAHAR_SPEC_BYTES: Final = 64 << 10
"""The annotation `lahar/spec`."""

FAULTS: Final = 100
"""Faults, and warnings, that are named of one manifest."""

FAULT_CHARACTERS: Final = 1000
"""Of one of them."""

# --- JSON Schemas of custom events, and their data --------------------------------------------------------------------------

SCHEMA_NESTING: Final = 32
"""Levels of a schema. Its validator recurses several times a level; the answer must not depend on how much stack is in use."""

SCHEMA_PATTERNS: Final = 32
"""Patterns of one custom event's schema."""

SCHEMA_PATTERN_CHARACTERS: Final = 2_048
r"""Characters of the patterns of all the schemas of a job together. To read one takes RE2 up to 50 µs: `\PL` is a class of 600
ranges."""

SCHEMA_PATTERN_INSTRUCTIONS: Final = 50_000
r"""Size of the patterns of all the schemas of a job together, as RE2 compiles them: `[a-z]{1,63}` has 129 instructions, `\pL`
1,200. Each takes up to 1 µs to compile."""

SCHEMA_VALUES: Final = 500
"""Values of all the schemas of a job together. Each takes up to 0.6 ms to be judged."""

EVENT_DATA_BYTES: Final = 64 << 10
"""The data of a custom event, as JSON."""

EVENT_DATA_NESTING: Final = 32
"""Levels of data that are judged by a schema."""

CHECK_STEPS: Final = 50_000
"""Steps of judging the data of one event by its schema; a step takes some 10 µs."""

CHECK_NESTING: Final = 100
"""Keywords of a schema that are applied within each other; each is four calls deep."""
