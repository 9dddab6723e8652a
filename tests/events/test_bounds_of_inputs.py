"""What is larger than an input may be is undecodable, on whichever log it came; the text names the field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_core import to_json

from engine.events import Message, decode, raw_message, to_cloudevent
from engine.events.bounds import INPUT_BYTES, LABELS, NAME_CHARACTERS, TASKS, TEXT_CHARACTERS
from engine.events.errors import UndecodableError

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
