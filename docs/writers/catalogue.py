"""`docs/events.md`: the catalogue of events for platform backends, written from the classes.

For every topic its key and writer; for every type when it is emitted, at which level, its fields, an example, what stays stable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from on_kafka import on_kafka

from engine.events.attempts import AttemptRunning
from engine.events.docstrings import field_docs, summary
from engine.events.envelope import encode, to_cloudevent
from engine.events.examples import example
from engine.events.times import Duration, Micros, StatedMicros
from engine.events.topics import TOPICS, level, types_by_topic
from engine.events.vocabulary import INPUT_TOPICS, TYPES, UPCASTERS, Data, Topic
from statemachines import vocabulary

_LISTS: Final[dict[str, Any]] = {
    "JobPhase": vocabulary.JobPhase,
    "TaskPhase": vocabulary.TaskPhase,
    "AttemptPhase": vocabulary.AttemptPhase,
    "TerminalPhase": vocabulary.TerminalPhase,
    "Action": vocabulary.Action,
    "Rank": vocabulary.Rank,
    "Level": vocabulary.Level,
}
"""Closed lists that are printed once and linked to."""

_HEAD: Final = """\
# Catalogue of events

*Written from the classes in `engine/events` by `make docs`; edit those, not this page.*

```json
EXAMPLE
```

Every input and output of Lahar is such an event, a [CloudEvent 1.0](https://cloudevents.io): one JSON object with attributes beside
`data` in files and on the command line (structured mode), headers `ce_*` beside the data on Kafka ([binary mode](#on-kafka)).
[`schemas/`](schemas/) has a JSON Schema (2020-12) of every type, [`asyncapi.yaml`](asyncapi.yaml) the topics and their records.

## Attributes

| attribute | meaning |
|---|---|
| `id` | Identity. The same fact has the same id however often it is sent or decided: deduplicate by it. |
| `source` | Producer: `lahar/lifecycle`, `kubernetes/CLUSTER`, `import/FORMAT/CLUSTER`, `command/USER`. |
| `type` | Stable name with its version, `lahar.job.opened.v1`. |
| `subject` | Job id; for events without a job the cluster, the shard or a callback ([which](#subjects-that-are-no-jobs)). |
| `time` | When it happened (RFC 3339, UTC, microseconds). |
| `recordedtime` | When Lahar recorded it. It never falls within a shard; `time` may lie far before it. |
| `sequence` | Position within (topic, subject), gapless from 1, 20 digits so that it sorts as text. Inputs have none. |
| `correlationid` | Job id; the notice of a notice's records; empty for other events without a job. |
| `causationid` | Id of the direct cause: an input or another event. |
| `clusterid` | The cluster. |
| `partitionkey` | The key of the record. On Kafka always; in JSON Lines only if it is not `correlationid`. |

Times inside `data` are whole microseconds since 1970-01-01T00:00:00Z, lengths of time whole microseconds. A field with its default
is left out. The examples below are the `data` alone.

## What a subscriber may rely on

- **Order**: within one job (one subject), by `sequence`, without gaps. Across jobs there is none.
- **Delivery**: at least once. A repeated event has the same `id`, `sequence` and bytes; on Kafka only for consumers with
  `isolation.level=read_committed`.
- **Versions**: within a version (`.v1`) of a *stable* type fields are only ever added, always with a default; none is removed,
  renamed or given another meaning, and no list of values named *closed* below loses a value. Ignore unknown fields and types. Any
  other change becomes a new version; Lahar reads old versions for ever ([Historic versions](#historic-versions)) and writes only
  the current one.
- **Operational** types describe Lahar's own bookkeeping and may change with a release. Do not build on them.
- **Ends are final**: each attempt ends with exactly one `lahar.attempt.ended`; later facts are `lahar.attempt.late_fact`. One
  whose pod moves to another job has `lahar.attempt.moved` instead, and its end is in that job: count both as no longer live.
"""


def catalogue() -> str:
    """Return the page as Markdown."""
    by_topic = types_by_topic()
    parts = _parts(cls for classes in by_topic.values() for cls in classes)
    shown = json.dumps(json.loads(to_cloudevent(encode(example(AttemptRunning.TYPE)))), indent=2)
    pieces = [_HEAD.replace("EXAMPLE", shown), on_kafka(), _contents(by_topic)]
    for topic, classes in by_topic.items():
        about = TOPICS[topic]
        writer = "producers" if topic in INPUT_TOPICS else "a stage"
        pieces.append(f"## {about.title}\n\nTopic `{topic}`, written by {writer}; key: {about.key}. {about.text}")
        pieces += [_event(cls) for cls in classes]
    pieces += [_historic(), _parts_section(parts), _lists_section()]
    return "\n\n".join(piece.rstrip() for piece in pieces) + "\n"


def _contents(by_topic: dict[Topic, list[type[Data]]]) -> str:
    rows = ["## All types", "", "| type | level | topic | stability | in short |", "|---|---|---|---|---|"]
    for topic, classes in by_topic.items():
        for cls in classes:
            short = _cell(summary(cls).split("\n\n")[0].split(". ")[0].rstrip(".") + ".")
            rows.append(f"| [`{cls.TYPE}`](#{_anchor(cls.TYPE)}) | {level(cls)} | `{topic}` | {cls.STABILITY} | {short} |")
    return "\n".join(rows)


def _event(cls: type[Data]) -> str:
    shown = json.dumps(json.loads(encode(example(cls.TYPE)).data), indent=2, ensure_ascii=False)
    return "\n".join(
        [
            f"### {cls.TYPE}",
            "",
            summary(cls),
            "",
            f"Level: {level(cls)}. {_stability(cls)}",
            "",
            _table(cls),
            "",
            "<details><summary>Example</summary>",
            "",
            f"```json\n{shown}\n```",
            "",
            "</details>",
        ]
    )


def _stability(cls: type[Data]) -> str:
    if cls.STABILITY == "operational":
        return "Operational: may change with a release."
    older = sorted(name for name, (new, _) in UPCASTERS.items() if new == cls.TYPE)
    return "Stable." + (f" Still read: {', '.join(f'`{name}`' for name in older)}." if older else "")


def _historic() -> str:
    rows = [
        "## Historic versions",
        "",
        "Read for ever, never written. Id, sequence and times stay.",
        "",
        "| type | read as | what changed |",
    ]
    rows.append("|---|---|---|")
    for old, (new, function) in sorted(UPCASTERS.items()):
        link = f"[`{new}`](#{_anchor(new)})" if new in TYPES else f"`{new}`"
        rows.append(f"| `{old}` | {link} | {_cell(' '.join((function.__doc__ or '').split()))} |")
    return "\n".join(rows)


def _parts_section(parts: list[type[Any]]) -> str:
    pieces = ["## Parts\n\nObjects inside the data of events."]
    pieces += [f"### {cls.__name__}\n\n{summary(cls)}\n\n{_table(cls)}" for cls in parts]
    return "\n\n".join(pieces)


def _lists_section() -> str:
    rows = ["## Closed lists", "", "| list | values |", "|---|---|"]
    rows += [f'| <a id="{name.lower()}"></a>{name} | {_values(literal)} |' for name, literal in _LISTS.items()]
    return "\n".join(rows)


def _table(cls: type[Any]) -> str:
    docs, hints = field_docs(cls), get_type_hints(cls, include_extras=True)
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{field.name}` | {_type(hints[field.name])} | {_default(field)} | {_cell(docs[field.name])} |" for field in fields(cls)
    ]
    return "\n".join(rows)


def _default(field: Field[Any]) -> str:
    if field.default == () or field.default_factory in (list, dict):
        return "empty"
    if is_dataclass(field.default):
        return "all defaults"
    if field.default is not MISSING:
        return "" if field.default is None else f"`{json.dumps(field.default)}`"
    return "*required*"


def _type(hint: Any) -> str:  # noqa: ANN401  # any annotation
    if hint in (Micros, StatedMicros):
        return "time"
    if hint == Duration:
        return "duration"
    for name, literal in _LISTS.items():
        if hint == literal:
            return f"[{name}](#{name.lower()})"
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return _values(hint)
    if origin in (Union, UnionType):
        return " or ".join(_type(argument) for argument in arguments if argument is not NoneType)
    if origin is list or arguments[-1:] == (...,):
        return f"list of {_type(arguments[0])}"
    if origin is tuple:
        return f"pair of {' and '.join(map(_type, arguments))}"
    if origin is dict:
        return "object" if arguments[1] is Any else f"map of {_type(arguments[1])}"
    if _is_part(hint):
        name = getattr(hint, "TYPE", hint.__name__)
        return f"[{hint.__name__}](#{_anchor(name)})"
    return {str: "string", int: "integer", bool: "boolean"}[hint]


def _parts(classes: Iterable[type[Any]]) -> list[type[Any]]:
    """Return the classes inside the fields of these, at any depth, that are no events themselves, by name."""
    found: dict[str, type[Any]] = {}
    waiting = list(classes)
    while waiting:
        for hint in get_type_hints(waiting.pop(), include_extras=True).values():
            for part in _classes_in(hint):
                if not issubclass(part, Data) and part.__name__ not in found:
                    found[part.__name__] = part
                    waiting.append(part)
    return [found[name] for name in sorted(found)]


def _classes_in(hint: Any) -> list[type[Any]]:  # noqa: ANN401  # any annotation
    if _is_part(hint):
        return [hint]
    return [part for argument in get_args(hint) for part in _classes_in(argument)]


def _is_part(hint: Any) -> bool:  # noqa: ANN401  # any annotation
    return isinstance(hint, type) and is_dataclass(hint)


def _values(literal: Any) -> str:  # noqa: ANN401  # a Literal has no type of its own
    return " ".join(f"`{value}`" for value in get_args(literal))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _anchor(heading: str) -> str:
    return heading.lower().replace(".", "")
