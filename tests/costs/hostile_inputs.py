"""Inputs that try to be dear: ordinary objects in which one value is replaced by one that grows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

CONTAINER = {
    "name": "c",
    "image": "busybox:1",
    "env": [{"name": "A", "value": "b"}],
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [CONTAINER], "volumes": [{"name": "v"}], "restartPolicy": "Never"},
}
JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {
        "name": "train",
        "namespace": "ml",
        "uid": "11111111-1111-1111-1111-111111111111",
        "labels": {"lahar/tenant": "t"},
        "annotations": {
            "lahar/spec": "raise: [{raise: Done, when: {task: a, phase: Completed}}]\ncustomEvents: {E: {type: object}}"
        },
    },
    "spec": {
        "managedBy": "lahar",
        "minAvailable": 1,
        "policies": [{"event": "PodFailed", "action": "RestartJob", "timeout": "1m"}],
        "tasks": [
            {"name": "a", "replicas": 2, "template": TEMPLATE},
            {"name": "b", "dependsOn": {"name": ["a"]}, "template": TEMPLATE},
        ],
    },
}
BATCH = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "ml", "uid": "22222222-2222-2222-2222-222222222222", "labels": {}},
    "spec": {"managedBy": "lahar", "completions": 2, "parallelism": 2, "template": TEMPLATE},
}
OBSERVED = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "seen", "namespace": "ml", "uid": "33333333-3333-3333-3333-333333333333", "resourceVersion": "7"},
    "spec": {"completions": 2, "template": TEMPLATE},
    "status": {"active": 1, "startTime": "2026-03-01T00:00:00Z", "conditions": []},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train-a-0",
        "namespace": "ml",
        "uid": "44444444-4444-4444-4444-444444444444",
        "resourceVersion": "12",
        "creationTimestamp": "2026-03-01T00:00:00Z",
        "labels": {"lahar/tenant": "t"},
        "annotations": {"volcano.sh/task-spec": "a", "volcano.sh/task-index": "0"},
        "ownerReferences": [{"kind": "Job", "apiVersion": "batch/v1", "name": "seen", "uid": "u", "controller": True}],
    },
    "spec": {"nodeName": "n1", "containers": [CONTAINER]},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T00:00:01Z"}],
        "containerStatuses": [{"name": "c", "restartCount": 1, "state": {"running": {"startedAt": "2026-03-01T00:00:02Z"}}}],
    },
}
NODE = {"kind": "Node", "metadata": {"name": "n1", "labels": {"a": "b"}}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}
QUEUE = {"apiVersion": "lahar/v1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {"capability": {"cpu": "4"}}}
EVENT = {
    "specversion": "1.0",
    "id": "e1",
    "source": "test",
    "type": "lahar.command.issued.v2",
    "subject": "11111111-1111-1111-1111-111111111111",
    "time": "2026-03-01T00:00:00Z",
    "data": {"action": "RestartPod", "task": "a", "index": 0, "reason": "why"},
}

ORDINARY: list[dict[str, Any]] = [JOB, BATCH, OBSERVED, POD, NODE, QUEUE, EVENT]


class Hostile(NamedTuple):
    """One input."""

    name: str
    content: bytes
    """A file, as `lahar ingest` reads it."""


def _nested(size: int, opened: str, closed: str) -> Any:
    return json.loads(opened * size + "1" + closed * size)


GROWING: dict[str, Callable[[int], Any]] = {
    "long text": lambda size: "a" * size,
    "long text of emoji": lambda size: "\U0001f4a9" * (size // 4),
    "words": lambda size: "".join(
        f"{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676 % 26)} " for n in range(size // 4)
    ),
    "slashes": lambda size: "a/" * (size // 2),
    "NULs": lambda size: "\0" * (size // 6),
    "steps of a workflow": lambda size: ".a(b" * (size // 4),
    "owners": lambda size: [{"kind": "Job", "name": f"o{n}", "uid": f"u{n}", "controller": n % 2 == 0} for n in range(size // 64)],
    "many dots": lambda size: "a." * (size // 2),
    "many dashes": lambda size: "a" + "-" * size,
    "digits": lambda size: "9" * size,
    "a large number": lambda size: int("9" * min(size, 4000)),
    "an exponent": lambda _: "1e999999999",
    "a large float": lambda _: 1e308,
    "minutes": lambda size: "1m" * (size // 2),
    "many texts": lambda size: ["a"] * (size // 4),
    "many mappings": lambda size: [{"name": f"n{n}"} for n in range(size // 16)],
    "many keys": lambda size: {f"key{n}": "v" for n in range(size // 16)},
    "many large mappings": lambda size: [{"name": "x", "value": "y", "image": "z", "labels": {"a": "b"}}] * (size // 64),
    "deep lists": lambda size: _nested(min(size, 150), "[", "]"),
    "deep mappings": lambda size: _nested(min(size, 150), '{"a":', "}"),
    "quantities": lambda size: {f"example.com/r{n}": "1e400" for n in range(size // 32)},
    "names of others": lambda size: {"name": [f"t{n % 50}" for n in range(size // 8)]},
    "YAML brackets": lambda size: "main: " + "[" * size,
    "YAML dashes": lambda size: "- " * (size // 2),
    "YAML questions": lambda size: "? " * (size // 2),
    "YAML sixties": lambda size: "a: " + "1:" * (size // 2) + "1",
    "YAML aliases": lambda size: (
        "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, size // 64))
    ),
    "YAML merges": lambda size: (
        "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: *a{n - 1}, k{n}: 1}}\n" for n in range(1, size // 32))
    ),
    "YAML anchors": lambda size: "".join(f"a{n}: &a{n} x\n" for n in range(size // 12)),
    "YAML tags": lambda size: "".join(f"%TAG !a{n}! b\n" for n in range(size // 14)) + "--- x",
    "schema: doubling": lambda size: _own_schema(_doubling(min(size // 64, 60))),
    "schema: many": lambda size: _own_schema({"properties": {f"p{n}": {"type": "string"} for n in range(size // 32)}}),
    "schema: references": lambda size: _own_schema({"allOf": [{"$ref": "#/$defs/a"}] * (size // 24), "$defs": {"a": {}}}),
    "schema: patterns": lambda size: _own_schema({"pattern": "(" * (size // 2) + ")" * (size // 2)}),
    "schema: repeats": lambda size: _own_schema({"pattern": "(a{1,99}){1,9}" * (size // 16)}),
    "schema: classes": lambda size: _own_schema({"pattern": "(?i)" + r"\pL" * (size // 4)}),
    "schemas: classes": lambda size: _own_schemas(size, lambda n: {"pattern": "(?i)" + r"\pL" * 25 + str(n)}),
    "schemas: too large": lambda size: _own_schemas(size, lambda n: {"pattern": rf"\pL{{{1 + n}00}}"}),
    "rules": lambda size: json.dumps({"raise": [{"raise": "E", "when": {"task": "x" * 50}}] * (size // 64)}),
    "events": lambda size: json.dumps({"customEvents": {f"E{n}": None for n in range(size // 12)}}),
}
"""Values by what makes them grow; each takes about the bytes that are asked for."""


def _doubling(levels: int) -> dict[str, Any]:
    steps: dict[str, Any] = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": steps | {f"a{levels}": False}, "$ref": "#/$defs/a0"}


def _own_schema(schema: dict[str, Any]) -> str:
    return json.dumps({"customEvents": {"E": schema}})


def _own_schemas(size: int, schema: Callable[[int], Any]) -> str:
    """One for each of 99 events, as many as fit."""
    events: dict[str, Any] = {}
    for number in range(99):
        events[f"E{number}"] = schema(number)
        if len(json.dumps(events)) > size:
            break
    return json.dumps({"customEvents": events})


def _raised(schema: dict[str, Any], data: Any) -> bytes:
    """A job that declares an event, and the event."""
    job = deepcopy(JOB)
    job["metadata"]["annotations"] = {"lahar/spec": _own_schema(schema)}
    event = EVENT | {"type": "lahar.custom.raised.v1", "data": {"event": "E", "data": data}}
    return b"\n".join(json.dumps(one).encode() for one in (job, event))


def corpus(size: int) -> Iterator[Hostile]:
    """Yield what was seen, or is known, to be dear, of about that size (bytes)."""
    for name, schema, data in (
        ("a pattern that backtracks", {"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 40 + "!"}),
        ("keys that backtrack", {"patternProperties": {"^(a+)+$": True}}, {"a" * 40 + "!": 1}),
        ("references that double", _doubling(40), {}),
        ("a reference without end", {"$ref": "#"}, {}),
        ("unique objects", {"properties": {"a": {"uniqueItems": True}}}, {"a": [{"i": n} for n in range(size // 12)]}),
        ("unevaluated items", {"properties": {"a": {"unevaluatedItems": False, "contains": True}}}, {"a": [1] * (size // 3)}),
        ("a large automaton", {"properties": {"a": {"pattern": "[ab]*a[ab]{900}b"}}}, {"a": "ab" * (size // 2)}),
    ):
        yield Hostile(name, _raised(schema, data))
    for name in [name for name in GROWING if name.startswith(("YAML", "schema", "rules", "events"))]:
        job = deepcopy(JOB)
        job["metadata"]["annotations"] = {"lahar/spec": GROWING[name](size)}
        yield Hostile(f"annotation: {name}", json.dumps(job).encode())
        if name.startswith("YAML"):
            yield Hostile(f"file: {name}", GROWING[name](size).encode())
    lines = [f"{key}: {json.dumps(JOB[key])}" for key in ("apiVersion", "kind", "metadata")] + ["status:", "  a0: &a0 [x]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 8)]
    lines += [f'spec: {json.dumps(JOB["spec"])[:-1]}, "plugins": {{"env": *a7 }}}}']
    yield Hostile("a manifest of aliases", "\n".join(lines).encode())
    for replicas in (10_000, 2_000_000_000):
        for job in (BATCH, OBSERVED):
            spec = job["spec"] | {"completions": replicas, "parallelism": replicas}
            yield Hostile(f"{replicas} completions of {job['metadata']['name']}", json.dumps(job | {"spec": spec}).encode())
    pod = deepcopy(POD)
    pod["metadata"]["annotations"]["volcano.sh/task-index"] = "1" + "0" * 9
    # Each one the last of a List, as it says itself, and of a task of its own.
    shown = EVENT | {"type": "lahar.pod.observed.v1", "subject": "j"}
    says = {"job": "j", "name": "p", "phase": "Running", "created": 1_772_323_200_000_000, "owner": "o", "listed": "last"}
    last = [shown | {"id": f"e{n}", "data": says | {"uid": f"u{n}", "task": f"t{n}"}} for n in range(size // 300)]
    yield Hostile("pods that are each the last", b"\n".join(json.dumps(one).encode() for one in last))
    listed = [deepcopy(POD) for _ in range(size // 600)]
    for number, one in enumerate(listed):
        one["metadata"] |= {"name": f"p{number}", "uid": f"u{number}"}
        one["metadata"]["annotations"] = {"volcano.sh/task-spec": f"t{number}" * 200}
    yield Hostile("a List of pods beyond a bound", json.dumps({"kind": "List", "items": listed}).encode())
    for name in ("long text of emoji", "words", "NULs"):
        waits = deepcopy(POD)
        waits["status"] |= {"phase": "Pending", "message": GROWING[name](size)}
        waits["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ErrImagePull", "message": GROWING[name](size)}}
        yield Hostile(f"a message: {name}", json.dumps(waits).encode())
    for key in ("workflows.argoproj.io/node-name", "ray.io/group", "jobset.sigs.k8s.io/jobset-uid"):
        joined = deepcopy(POD)
        joined["metadata"]["annotations"] = {key: GROWING["steps of a workflow"](size), "jobset.sigs.k8s.io/jobset-name": "s"}
        yield Hostile(f"an owner by labels: {key}", json.dumps(joined).encode())
    yield Hostile("an index", json.dumps(pod).encode())
    yield Hostile("JSON brackets", b"[" * size)
    yield Hostile("an array of numbers", b"[" + b"1," * (size // 2) + b"1]")
    yield Hostile("JSON quotes", b'{"a":"\\' * (size // 7))
    yield Hostile("lines of brackets", b"{\n" * (size // 2))
    yield Hostile("lines of commas", b"[\n,\n" * (size // 4))
    yield Hostile("lines of text", b"---\na\n" * (size // 6))


def mutated(random: Random, size: int) -> Hostile:
    """Return an ordinary object in which one value, wherever it stands, is one that grows; sometimes as YAML, or in a List."""
    content = deepcopy(random.choice(ORDINARY))
    places = list(_places(content))
    holder, key, path = random.choice(places)
    name = random.choice(list(GROWING))
    holder[key] = GROWING[name](random.choice([size // 16, size]))
    form = random.choice(["json", "pretty", "list"])
    if form == "list":
        content = {"kind": "List", "apiVersion": "v1", "items": [content, deepcopy(POD)]}
    return Hostile(f"{path}: {name} ({form})", json.dumps(content, indent=2 if form == "pretty" else None).encode())


def _places(value: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield value, key, f"{path}/{key}"
        yield from _places(entry, f"{path}/{key}")
