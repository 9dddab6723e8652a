"""The vocabulary: event types, their names and encoding.

`inputs` come from outside. `jobs`, `attempts`, `actions` and `outcomes` are events of the lifecycle stage, `decisions` those of the
scheduling stage and the answers to them, `scheduling` and `preemptions` its other records; `billing` and `budgets` belong to the
stages so named.
"""

# The order of these imports is the order of the types in documents.
from engine.events import inputs, jobs

# isort: split
from engine.events import attempts

# isort: split
from engine.events import actions

# isort: split
from engine.events import outcomes

# isort: split
from engine.events import decisions

# isort: split
from engine.events import scheduling

# isort: split
from engine.events import preemptions

# isort: split
from engine.events import billing, budgets
from engine.events.envelope import SMALL, Event, Message, decode, encode, from_cloudevent, raw_message, to_cloudevent
from engine.events.errors import EventError, NotKeptError, UndecodableError, UnknownTypeError
from engine.events.vocabulary import TYPES, UPCASTERS, Data, Topic

__all__ = [
    "SMALL",
    "TYPES",
    "UPCASTERS",
    "Data",
    "Event",
    "EventError",
    "Message",
    "NotKeptError",
    "Topic",
    "UndecodableError",
    "UnknownTypeError",
    "actions",
    "attempts",
    "billing",
    "budgets",
    "decisions",
    "decode",
    "encode",
    "from_cloudevent",
    "inputs",
    "jobs",
    "outcomes",
    "preemptions",
    "raw_message",
    "scheduling",
    "to_cloudevent",
]
