"""Cluster facts as snapshot records: one per node, queue, tenant and so on, with its state or its deletion.

Records: `node/CLUSTER/NAME` and `object/CLUSTER/KIND/NAME`, the cluster quoted as in a URL.
"""

from __future__ import annotations

from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from pydantic import TypeAdapter

from engine.events.inputs import NodeObserved, ObjectApplied
from engine.kubernetes.observation.cluster_facts import NODE, ClusterFacts, Deletion, Former, Known, Thing

_Record: TypeAlias = tuple[Known, Former | None]

_NODE: Final[TypeAdapter[_Record]] = TypeAdapter(tuple[NodeObserved | Deletion, Former | None])
_OBJECT: Final[TypeAdapter[_Record]] = TypeAdapter(tuple[ObjectApplied | Deletion, Former | None])


def thing_record(thing: Thing) -> str:
    """Return the name of the record of an object or its deletion."""
    cluster, kind, name = thing
    place = quote(cluster, safe="")
    return f"node/{place}/{name}" if kind == NODE else f"object/{place}/{kind}/{name}"


def thing_named(record: str) -> Thing | None:
    """Return the object of a record; `None` for a record of another type."""
    kinds, _, rest = record.partition("/")
    cluster, _, called = rest.partition("/")
    if kinds == "node":
        return unquote(cluster), NODE, called
    if kinds == "object":
        kind, _, name = called.partition("/")
        return unquote(cluster), kind, name
    return None


def _adapter(thing: Thing) -> TypeAdapter[_Record]:
    return _NODE if thing[1] == NODE else _OBJECT


def dump_thing(facts: ClusterFacts, thing: Thing) -> bytes | None:
    """Return the record of an object; `None` if it is unknown."""
    known = facts.known(thing)
    return None if known is None else _adapter(thing).dump_json((known, facts.former.get(thing)), exclude_defaults=True)


def load_thing(facts: ClusterFacts, thing: Thing, record: bytes) -> None:
    """Restore an object from its record."""
    facts.know(thing, *_adapter(thing).validate_json(record))
