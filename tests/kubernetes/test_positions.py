"""Lines and columns of the fields that faults name, in YAML and JSON."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from engine.kubernetes.reading.documents import Document, read_documents
from engine.kubernetes.reading.positions import Position, Positions

FILE = b"""\
# a comment
kind: Job
spec:
  tasks:
    - name: worker
      replicas: -2
      "labels": {a: b, x.y/z: c}
    - &second
      name: two
    - *second
---
kind: Queue
spec: {weight: -1}
"""


def test_a_field_is_found_by_its_path() -> None:
    positions = Positions(FILE)
    for path, place in {
        "kind": (2, 1),
        "spec.tasks[0].replicas": (6, 7),
        "spec.tasks[0].labels.x.y/z": (7, 24),
        "spec.tasks[1].name": (9, 7),
        "spec.tasks[2]": (10, 7),
    }.items():
        assert positions.find(1, path) == Position(*place), path
    assert positions.find(12, "spec.weight") == (13, 8)


def test_for_a_missing_field_the_innermost_one_around_it_stands() -> None:
    positions = Positions(FILE)
    assert positions.find(1, "spec.tasks[0].template.spec") == (5, 7)
    assert positions.find(1, "spec.tasks[7]") == (4, 3)
    assert positions.find(1, "spec.taskss") == (3, 1)
    assert positions.find(1, "metadata.name") is None


def test_json_and_items_of_a_list_have_places_too() -> None:
    content = json.dumps(
        {"kind": "List", "items": [{"kind": "Queue"}, {"kind": "Queue", "spec": {"weight": -1}}]}, indent=2
    ).encode()
    _, last = (one for one in read_documents(content) if isinstance(one, Document))
    lines = content.decode().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if '"weight"' in line)
    assert last._replace(positions=Positions(content)).at("spec.weight") == f"line {number}, column 9"
    assert last.at("spec.weight") == last.place


def test_a_file_is_not_read_for_ever() -> None:
    positions = Positions(b"a: 1\n" + b"#" * (20 << 20))
    assert positions.find(1, "a") == (1, 1)
    assert positions.find(1, "a") is None


@given(st.binary(max_size=200), st.text(max_size=20), st.integers(1, 5))
def test_any_bytes_have_a_position_or_none(content: bytes, path: str, line: int) -> None:
    Positions(content).find(line, path)


@given(
    st.recursive(
        st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner) | st.lists(inner, max_size=3), max_leaves=8
    )
)
def test_every_field_of_an_object_is_found_where_it_stands(value: object) -> None:
    content = json.dumps({"kind": value}, indent=1)
    lines = content.splitlines()

    def fields(path: str, inner: object) -> None:
        entries = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        for key, one in entries:
            own = f"{path}.{key}" if isinstance(inner, dict) else f"{path}[{key}]"
            found = Positions(content.encode()).find(1, own)
            assert found is not None
            rest = lines[found.line - 1][found.column - 1 :]
            assert rest.startswith(f'"{key}":' if isinstance(inner, dict) else json.dumps(one, indent=1).splitlines()[0])
            fields(own, one)

    fields("kind", value)
