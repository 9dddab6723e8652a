"""The vocabulary: event types, their names and encoding.

`inputs` come from outside, `jobs` are the lifecycle stage's events, `decisions` the scheduling stage's and the answers to them,
`scheduling` its own records.
All of Lahar exchanges these.
"""

from engine.events import inputs, jobs

# isort: split
# Types stand in the order in which they are defined.
from engine.events import decisions

# isort: split
from engine.events import scheduling

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
    "billing",
    "budgets",
    "decisions",
    "decode",
    "encode",
    "from_cloudevent",
    "inputs",
    "jobs",
    "raw_message",
    "scheduling",
    "to_cloudevent",
]
