"""Headers and keys of records on Kafka, for the subscribers' documents.

`streams.codec` writes the records; its tests compare them with these tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from engine.events.outcomes import DeadLettered

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"

_TEXT: Final = {"type": "string"}
_NAME: Final = {"type": "string", "minLength": 1}
_TIME: Final = {"type": "string", "format": "date-time"}
_NUMBER: Final = {"type": "string", "pattern": "^[0-9]+$"}
_WHOLE: Final = {"type": "string", "pattern": "^-?[0-9]+$"}


@dataclass(frozen=True, slots=True)
class Header:
    """One header of a record."""

    name: str
    schema: dict[str, Any]
    """JSON Schema of its value, which is UTF-8."""
    holds: str
    when: str = "always"
    output: bool = True
    """All that a stage writes has it."""
    foreign: bool = False
    """Other producers' events must have it too."""


HEADERS: Final = (
    Header("content-type", _TEXT, f"`{JSON}`; of most dead letters `{BYTES}`."),
    Header("ce_specversion", {"const": "1.0"}, "`1.0`", foreign=True),
    Header("ce_id", _NAME, "`id`", foreign=True),
    Header("ce_source", _NAME, "`source`", foreign=True),
    Header("ce_type", _NAME, "`type`", foreign=True),
    Header("ce_time", _TIME, "`time`"),
    Header("ce_recordedtime", _TIME, "`recordedtime`"),
    Header("ce_partitionkey", _TEXT, "`partitionkey`: the key of the record, once more."),
    Header("ce_subject", _TEXT, "`subject`", "there is one; all outputs have it"),
    Header("ce_sequence", {"type": "string", "pattern": "^[0-9]{20}$"}, "`sequence`, 20 digits.", "all outputs"),
    Header(
        "ce_correlationid",
        _TEXT,
        "`correlationid`; empty for what belongs to no job.",
        "there is one, or a subject; all outputs have it",
    ),
    Header("ce_causationid", _NAME, "`causationid`", "there is one", output=False),
    Header("ce_clusterid", _NAME, "`clusterid`", "there is one", output=False),
    Header("lahar_shard", _NAME, "The shard that wrote it, `lifecycle/3`.", "all outputs"),
    Header("lahar_shardsequence", _NUMBER, "Position among all that this shard wrote on any topic, gapless from 1.", "all outputs"),
    Header(
        "lahar_basis",
        {"type": "string", "pattern": "^[0-9,]*$"},
        "What the shard had taken when it decided this: the next offset of its partition of `cluster`, of `jobs` and of `pods`, "
        "separated by commas.",
        "all outputs",
    ),
    Header("lahar_time", _WHOLE, "`time` in microseconds since 1970.", "`time` is not within the years 1 to 9999", output=False),
    Header(
        "lahar_recordedtime",
        _WHOLE,
        "`recordedtime` in microseconds since 1970.",
        "`recordedtime` is not within the years 1 to 9999",
        output=False,
    ),
    Header(
        "lahar_empty", {"const": "1"}, "`1`: there are no data; the value is `null`.", "an input came without data", output=False
    ),
)

LETTER_HEADERS: Final = (
    Header("__connect.errors.topic", _NAME, "`topic`: where the record stood."),
    Header("__connect.errors.partition", _NUMBER, "`partition`"),
    Header("__connect.errors.offset", _NUMBER, "`offset`"),
    Header("__connect.errors.stage", {"const": "VALUE_CONVERTER"}, "`VALUE_CONVERTER`, as Kafka Connect calls it."),
    Header("__connect.errors.exception.message", _TEXT, "`reason`"),
    Header(
        "lahar_attributes",
        {"type": "string", "contentMediaType": JSON},
        "`attributes`: a JSON object of the CloudEvents attributes that came with the bytes, as text; times in microseconds.",
    ),
)
"""Of a dead letter whose value is the original bytes, beside the others."""


def headers_schemas() -> dict[str, dict[str, Any]]:
    """Return JSON Schemas of headers, by name: of the records of inputs, of outputs, and what dead letters have beside those."""
    return {
        "input-headers": _schema(HEADERS, {header.name for header in HEADERS if header.foreign}),
        "output-headers": _schema(HEADERS, {header.name for header in HEADERS if header.output}),
        "dead-letter-headers": _schema(LETTER_HEADERS, {header.name for header in LETTER_HEADERS}),
    }


def _schema(headers: tuple[Header, ...], required: set[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {header.name: header.schema | {"description": header.holds} for header in headers},
        "required": [header.name for header in headers if header.name in required],
    }


_RECORDS: Final = """\
## On Kafka

A record holds one event. Its value is the `data` alone, as JSON; the attributes are headers, UTF-8 text. The key is that of the
topic, named with each event below: nearly always the job id. Headers that are not listed here may be added: ignore them.

**Set `isolation.level=read_committed`.** A stage writes in transactions. Whoever reads without it (the default of the Java client
and of aiokafka) also sees what was never committed: events that come again with other bytes, or never happened.

"""

_REST: Final = f"""\

"Outputs" are the events on topics that a stage writes; on the others are inputs. Records of other producers may leave out all
headers but `ce_specversion`, `ce_id`, `ce_source` and `ce_type`, and may be in structured mode; their key must be the subject. An
input that is no event and was appended by one of Lahar's commands has the content type `{BYTES}` and the header
`lahar_message` instead of `ce_*`.

### Subjects that are no jobs

| subject | topic | type | key |
|---|---|---|---|
| `callback/NAME` | `job-events` | `lahar.effect.settled.v1` with the outcome `disabled` or `resumed` | the subject |
| the cluster | `job-events` | `lahar.import.row_rejected.v1` | the subject |
| id of a dead letter | `job-events` | `lahar.dead_letter.discarded.v1` | the subject |
| `lifecycle/N`, the shard | `job-events` | `lahar.shard.accounted.v1` | the subject |
| `lifecycle/N`, the shard | `dead-letters` | `{DeadLettered.TYPE}` | the original key, or none: empty |

Of inputs, the report that a callback is disabled or resumed has the subject `callback/NAME`; the command `Discard` the id of the
dead letter; a row that makes no sense, and all that stands on the topic `cluster`, the cluster. Each subject has its own
`sequence` on each topic.

### Dead letters on Kafka

Most dead letters hold **the original bytes** as their value, untouched; the content type is `{BYTES}`. The other
fields of the event stand in headers, those of Kafka Connect's dead letter queues, beside the `ce_*` and `lahar_*` headers of the
event itself:

"""

_AS_JSON: Final = f"""\

A letter of which no bytes are left (its record was empty, or too large and has a `digest`), or which would not come back from these
headers as it was, is **JSON** as all other events are: content type `{JSON}`, none of these headers. The content type
tells the two forms apart.
"""


def on_kafka() -> str:
    """Return the section of the catalogue that says how events stand on Kafka, as Markdown."""
    always = ["| header | holds | when |", "|---|---|---|"]
    always += [f"| `{header.name}` | {header.holds} | {header.when} |" for header in HEADERS]
    letters = ["| header | holds |", "|---|---|"]
    letters += [f"| `{header.name}` | {header.holds} |" for header in LETTER_HEADERS]
    return "".join([_RECORDS, "\n".join(always), "\n", _REST, "\n".join(letters), "\n", _AS_JSON])
