"""What is larger than an input may be is undecodable, on whichever log it came; the text names the field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_core import to_json

from engine.events import TYPES, Data, Event, Message, decode, encode, raw_message, to_cloudevent
from engine.events.bounds import EVENT_DATA_BYTES, FACT_BYTES, INPUT_BYTES, LABELS, NAME_CHARACTERS, TASKS, TEXT_CHARACTERS
from engine.events.errors import UndecodableError
from engine.events.inputs import (
    CommandIssued,
    CustomEventRaised,
    EffectReported,
    JobObserved,
    NodeObserved,
    PodDeleted,
    PodObserved,
)
from engine.events.vocabulary import INPUT_TOPICS

POD = {"uid": "u", "job": "j", "name": "p", "phase": "Pending", "created": 1}
JOB = {"name": "n", "kind": "Job"}
NODE = {"name": "n"}
LONG = "x" * (NAME_CHARACTERS + 1)


def message(kind: str, data: dict[str, Any], **attributes: str) -> Message:
    return Message("j", "i", "s", kind, "j", 1, 1, 0, "j", "", "c", to_json(data))._replace(**attributes)


@pytest.mark.parametrize(
    ("kind", "data", "field"),
    [
        ("lahar.pod.observed.v1", POD | {"name": LONG}, "name"),
        ("lahar.pod.observed.v1", POD | {"uid": LONG}, "uid"),
        ("lahar.pod.observed.v1", POD | {"reason": "x" * (TEXT_CHARACTERS + 1)}, "reason"),
        ("lahar.pod.observed.v1", POD | {"index": 10**18}, "index"),
        ("lahar.pod.observed.v1", POD | {"index": -1}, "index"),
        ("lahar.pod.observed.v1", POD | {"attempt": 2**31}, "attempt"),
        ("lahar.pod.observed.v1", POD | {"exit_code": 2**40}, "exit_code"),
        ("lahar.pod.observed.v1", POD | {"restarts": 10**4000}, "restarts"),
        ("lahar.pod.observed.v1", POD | {"requests": {"gpu": 10**4000}}, "gpu"),
        ("lahar.pod.observed.v1", POD | {"ended": 10**30}, "ended"),
        ("lahar.pod.deleted.v1", {"last": POD | {"index": 10**18}}, "last.index"),
        ("lahar.job.observed.v1", JOB | {"tasks": {"a": -1}}, "tasks.a"),
        ("lahar.job.observed.v1", JOB | {"tasks": {"a": 10**400}}, "tasks.a"),
        ("lahar.job.observed.v1", JOB | {"tasks": {f"a{n}": 1 for n in range(TASKS + 1)}}, "tasks"),
        ("lahar.job.observed.v1", JOB | {"labels": {f"a{n}": "" for n in range(LABELS + 1)}}, "labels"),
        ("lahar.job.observed.v1", JOB | {"labels": {"a": LONG}}, "labels.a"),
        ("lahar.command.issued.v2", {"action": "RestartPod", "task": "a", "index": 10**18}, "index"),
        ("lahar.command.issued.v2", {"action": "AbortJob", "reason": "x" * (TEXT_CHARACTERS + 1)}, "reason"),
        ("lahar.command.issued.v1", {"action": "RestartPod", "target": "a/" + "9" * 5000}, "cannot be read"),
        ("lahar.effect.reported.v1", {"effect": "e", "outcome": "done", "message": "x" * (TEXT_CHARACTERS + 1)}, "message"),
        ("lahar.node.observed.v1", NODE | {"cpu_milli": 10**30}, "cpu_milli"),
        ("lahar.job.submitted.v1", {"manifest": {"a": "x" * INPUT_BYTES}}, "bytes of data, more than the 2,097,152"),
        ("lahar.object.applied.v1", {"kind": "Queue", "name": "q", "spec": {"a": "x" * INPUT_BYTES}}, "more than the 2,097,152"),
        ("lahar.pod.observed.v1", POD | {"later": "x" * FACT_BYTES}, "bytes of data, more than the 524,288"),
        ("lahar.job.observed.v1", JOB | {"labels": {f"a{n}": 1 for n in range(FACT_BYTES // 8)}}, "more than the 524,288"),
        ("lahar.node.observed.v1", NODE | {"labels": {f"a{n}": 1 for n in range(FACT_BYTES // 8)}}, "more than the 524,288"),
        ("lahar.custom.raised.v1", {"event": "e", "data": {"a": "x" * FACT_BYTES}}, "more than the 524,288"),
    ],
)
def test_an_input_beyond_a_bound_is_undecodable(kind: str, data: dict[str, Any], field: str) -> None:
    with pytest.raises(UndecodableError, match=field.replace(".", r"\.")):
        decode(message(kind, data))
    with pytest.raises(UndecodableError):  # structured mode, as it may stand on Kafka
        decode(raw_message("j", to_cloudevent(message(kind, data)), 1))


@pytest.mark.parametrize("attribute", ["key", "id", "source", "subject", "correlationid", "causationid", "clusterid"])
def test_attributes_are_bounded(attribute: str) -> None:
    with pytest.raises(UndecodableError, match="its attributes have more than 4,096 characters together"):
        decode(message("lahar.pod.observed.v1", POD, **{attribute: "x" * 4096}))


def test_only_what_carries_a_manifest_may_be_as_large_as_one() -> None:
    """Each wrong value of the others is an error of its own, at some microseconds each."""
    inputs = {name: cls for name, cls in TYPES.items() if cls.TOPIC in INPUT_TOPICS}
    large = {"lahar.job.submitted.v1", "lahar.job.updated.v1", "lahar.object.applied.v1"}
    assert {name: cls.LARGEST for name, cls in inputs.items()} == {
        name: INPUT_BYTES if name in large else FACT_BYTES for name in inputs
    }


LABELED = {"k" * 253 + "/" + f"{n:063}": "v" * 63 for n in range(LABELS)}
ESCAPED = "\x01" * NAME_CHARACTERS
"""Six bytes a character, as JSON."""


@pytest.mark.parametrize(
    "data",
    [
        JobObserved(ESCAPED, ESCAPED, labels=LABELED, tasks={f"{n:063}": 20_000 for n in range(TASKS)}),
        NodeObserved(ESCAPED, type=ESCAPED, gpu_model=ESCAPED, labels=LABELED),
        PodDeleted(
            PodObserved(
                ESCAPED,
                ESCAPED,
                ESCAPED,
                "Pending",
                1,
                **dict.fromkeys(("namespace", "version", "kind", "owner", "claimed", "task", "node", "disruption"), ESCAPED),  # type: ignore[arg-type]
                **dict.fromkeys(("queue", "tenant", "project", "user"), ESCAPED),  # type: ignore[arg-type]
                reason="\x01" * TEXT_CHARACTERS,
            )
        ),
        CommandIssued("AbortJob", "\x01" * TEXT_CHARACTERS, "\x01" * TEXT_CHARACTERS, task=ESCAPED, principal=ESCAPED),
        EffectReported(ESCAPED, "failed", ESCAPED, "\x01" * TEXT_CHARACTERS, principal=ESCAPED),
        CustomEventRaised(ESCAPED, {"a": "\x01" * (EVENT_DATA_BYTES // 6)}, ESCAPED, "\x01" * TEXT_CHARACTERS),
    ],
)
def test_the_largest_that_kubernetes_and_the_fields_let_be_is_read(data: Data) -> None:
    event = Event("i", "s", data.TYPE, "j", 1, 1, 0, "j", "", "c", data)
    assert decode(encode(event)) == event
