"""A List or an array that is large or broken is taken apart: what it holds is the same as if it were read as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_documents import JOB, POD, STREAMS, compact, pretty

from engine.events.bounds import UNREADABLE
from engine.kubernetes.reading import documents as reading
from engine.kubernetes.reading import list_items, object_splitter
from engine.kubernetes.reading.documents import Document, DocumentReader, Unreadable, read_documents

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.fixed_dictionaries(
    {"metadata": st.dictionaries(st.text(max_size=4), VALUES, max_size=3)},
    optional={"kind": st.sampled_from(["Pod", "Node", "Job"]), "x": VALUES},
)
ITEMS = st.lists(OBJECTS | VALUES, max_size=8)
HEADS = st.sampled_from(
    [{"kind": "List"}, {"kind": "PodList", "apiVersion": "v1"}, {"kind": "NodeList", "metadata": {"resourceVersion": "7"}}, {}]
)
TAILS = st.sampled_from([{}, {"metadata": {"resourceVersion": ""}}, {"kind": "List", "metadata": {"x": ["}"]}}])
"""Items without a kind have that of their List where it stands before them, as the API server writes it. One that stands behind
them is not known yet when they are read."""


@contextmanager
def taken_apart(size: int) -> Iterator[None]:
    """Take apart whatever List is larger than that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_splitter, "LIST_BYTES", size)
        patch.setattr(list_items, "LIST_BYTES", size)
        patch.setattr(list_items, "_USUAL_BYTES", 64)
        yield


def read(data: bytes, size: int) -> list[Document | Unreadable]:
    reader = DocumentReader()
    return [item for start in range(0, len(data), size) for item in reader.feed(data[start : start + size])] + [*reader.close()]


def objects(items: list[Document | Unreadable]) -> list[Any]:
    """Of an item with a kind of its own the List adds no version that it does not say."""
    return [(item.line, item.path, {"apiVersion": None} | item.content) for item in items if isinstance(item, Document)]


@settings(max_examples=300)
@given(ITEMS, HEADS, TAILS, st.booleans(), st.booleans(), st.sampled_from([None, 1, 4]), st.integers(1, 60))
def test_a_list_that_is_taken_apart_holds_the_same(
    items: list[Any], head: Any, tail: Any, array: bool, ascii_only: bool, indent: int | None, size: int
) -> None:
    items = [POD, JOB, *items]
    value = items if array else {**head, "items": items, **({} if head.get("kind") else tail)}
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace")
    expected = objects(read_documents(data))
    with taken_apart(150):
        found = read(data, size)
    assert objects(found) == expected
    whole = [item.path for item in read_documents(data) if isinstance(item, Unreadable)]
    assert [item.path for item in found if isinstance(item, Unreadable)] == whole


@settings(max_examples=700)
@given(STREAMS | ITEMS.map(compact).flatmap(lambda data: st.integers(0, len(data)).map(lambda end: data[:end])), st.integers(1, 9))
def test_any_bytes_are_taken_apart_the_same_however_they_arrive(data: bytes, size: int) -> None:
    with taken_apart(20):
        whole = [(item.path, item.content) for item in read(data, len(data) + 1)]
        assert [(item.path, item.content) for item in read(data, size)] == whole


@pytest.mark.parametrize("form", [compact, pretty])
def test_items_come_before_the_list_has_ended(form: Any) -> None:
    data = form({"kind": "List", "items": [POD, JOB] * 50})
    reader, half = DocumentReader(), len(data) // 2
    with taken_apart(200):
        found = list(reader.feed(data[:half]))
        assert 40 < len(found) < 60
        assert [item.content for item in [*found, *reader.feed(data[half:])]] == [POD, JOB] * 50


def test_a_kind_that_stands_behind_the_items_is_theirs() -> None:
    """As `jq -S` writes the List of an API server; nothing is told before it is known."""
    data = pretty({"apiVersion": "v1", "items": [{"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}}], "kind": "NodeList"})
    with taken_apart(60):
        found = read(data, 7)
    documents = [item for item in found if isinstance(item, Document)]
    assert [(item.kind, item.content["metadata"]["name"]) for item in documents] == [("Node", "n1"), ("Node", "n2")]


def test_items_that_wait_for_their_kind_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "OBJECT_BYTES", 100)
    data = compact({"items": [{"metadata": {"name": "n" * 30}}] * 9, "kind": "NodeList"})
    reader = DocumentReader()
    with taken_apart(60):
        assert len(list(reader.feed(data[:-30]))) == 8
        last = [item for item in reader.feed(data[-30:] + b"\n") if isinstance(item, Document)]
        assert [item.kind for item in last] == ["Node"]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("cut", [1, 40, 200])
def test_of_a_list_that_breaks_off_everything_before_is_there(indent: int | None, cut: int) -> None:
    data = json.dumps({"kind": "List", "items": [POD] * 10}, indent=indent).encode()[:-cut]
    *pods, last = read_documents(data)
    assert [item.content for item in pods] == [POD] * len(pods)
    assert 7 <= len(pods) <= 10
    assert isinstance(last, Unreadable)
    assert last.reason == "ends in the middle of an object"
    assert data.rstrip().endswith(last.content.strip())
    assert data.splitlines()[last.line - 1].strip().endswith(last.content.splitlines()[0].strip())


def test_of_a_list_with_a_broken_item_everything_before_is_there() -> None:
    data = b'{"kind":"List","items":[\n' + compact(POD) + b',\n{"kind": ]},\n' + compact(JOB) + b"\n]}\n" + compact(POD) + b"\n"
    found = read_documents(data)
    assert [item.content for item in found if isinstance(item, Document)] == [POD, JOB, POD]
    assert next((item.place, item.reason) for item in found if isinstance(item, Unreadable)) == (
        "line 3, items[1]",
        "brackets or quotes that do not match",
    )


def test_a_large_list_of_no_objects_is_given_up() -> None:
    with taken_apart(100):
        found = read(b"[" + b"1," * 50_000 + b"1]\n" + compact(POD) + b"\n", 1000)
    assert len(found) == UNREADABLE + 2
    assert found[-2].content == b"1," * (50_000 - UNREADABLE) + b"1]\n"
    assert found[-1].content == POD


def test_an_item_larger_than_an_object_may_be_is_given_up() -> None:
    reader = DocumentReader(largest=5_000)
    data = b'{"kind":"List","items":[' + compact(POD) + b"," + compact({"kind": "Pod", "metadata": {"name": "x" * 10_000}})
    with taken_apart(100):
        found = list(reader.feed(data[:9_000]))
    assert found[0].content == POD
    assert isinstance(found[1], Unreadable)
    assert "larger than 5000 bytes" in found[1].reason
