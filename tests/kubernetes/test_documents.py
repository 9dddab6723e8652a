"""Files and streams of objects: every format that tools print, and what is none."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events.bounds import NESTING, UNREADABLE
from engine.kubernetes.reading.documents import Document, DocumentReader, Unreadable, read_documents, read_stream
from engine.kubernetes.reading.yaml_values import UnreadableYamlError, read_yaml

POD: dict[str, Any] = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "}{"}]}}
JOB: dict[str, Any] = {"kind": "Job", "metadata": {"name": 'b"\\'}}
ENVELOPE: dict[str, Any] = {"type": "DELETED", "object": POD}


def pretty(*values: Any) -> bytes:
    """As `kubectl get -w -o json` prints."""
    return b"".join(json.dumps(value, indent=4).encode() + b"\n" for value in values)


def compact(value: Any) -> bytes:
    return json.dumps(value).encode()


def contents(data: bytes) -> list[Any]:
    return [item.content for item in read_documents(data) if isinstance(item, Document)]


def reasons(data: bytes) -> list[str]:
    return [item.reason for item in read_documents(data) if isinstance(item, Unreadable)]


@pytest.mark.parametrize(
    "data",
    [
        compact(POD) + b"\n" + compact(JOB) + b"\n",
        compact(POD) + b"\n\n" + compact(JOB),
        compact(POD) + compact(JOB),
        compact(POD) + b"  " + compact(JOB) + b"\r\n",
        pretty(POD, JOB),
        pretty([POD, JOB]),
        compact([POD, JOB]),
        b"[\n" + compact(POD) + b",\n" + compact(JOB) + b"\n]\n",
        b"  " + pretty(POD) + b"  " + pretty(JOB),
        b"\xef\xbb\xbf" + pretty(POD, JOB),
        pretty({"kind": "List", "items": [POD, JOB]}),
        pretty({"items": [POD, JOB]}),
        pretty({"kind": "List", "items": [{"kind": "List", "items": [POD]}, JOB]}),
        b"---\n" + pretty(POD) + b"---\n# a comment\n" + pretty(JOB) + b"---\n",
        b'kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: "}{"\n---\n' + pretty(JOB),
        b"%YAML 1.1\n---\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: '}{'}]}\n...\n" + pretty(JOB),
        b"{kind: Pod, metadata: {name: a}, spec: {containers: [{name: '}{'}]}}\n" + compact(JOB),
        b"- kind: Pod\n  metadata: {name: a}\n  spec: {containers: [{name: '}{'}]}\n- kind: Job\n  metadata: {name: 'b\"\\'}\n",
    ],
)
def test_formats(data: bytes) -> None:
    """The same two objects, as different tools write them."""
    assert contents(data) == [POD, JOB]
    assert reasons(data) == []


def test_items_of_a_typed_list_take_its_kind() -> None:
    items = [{"metadata": {"name": "a"}}, {"kind": "Other", "metadata": {}}]
    found = read_documents(compact({"kind": "NodeList", "apiVersion": "v1", "items": items}))
    assert [item.kind for item in found] == ["Node", "Other"]
    assert [item.place for item in found] == ["line 1, items[0]", "line 1, items[1]"]


def test_an_empty_list_holds_nothing() -> None:
    """Go writes the items of an empty list as null at times."""
    assert read_documents(pretty({"kind": "PodList", "items": []}, {"kind": "PodList", "items": None})) == []


def test_an_object_without_a_kind_that_has_containers_is_a_pod() -> None:
    found = read_documents(pretty({"metadata": {}, "spec": {"containers": []}}, {"metadata": {}, "spec": {"containers": 1}}))
    assert [item.kind for item in found] == ["Pod", None]


def test_watch_envelopes() -> None:
    data = pretty(*({"type": change, "object": POD} for change in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")))
    found = read_documents(data)
    assert [item.change for item in found] == ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    assert all(item.content == POD for item in found)
    assert read_documents(compact(POD))[0].change is None


def test_a_cloudevent_is_an_object() -> None:
    event = {"specversion": "1.0", "type": "x", "data": {"items": []}}
    assert contents(compact(event)) == [event]


def test_an_event_object_with_a_type_of_its_own_is_no_envelope() -> None:
    event = {"kind": "Event", "type": "Normal", "metadata": {}}
    assert contents(compact(event)) == [event]


def test_yaml_times_stay_the_strings_that_they_are() -> None:
    data = b"metadata:\n  creationTimestamp: 2018-12-02T08:09:25Z\n  day: 2018-12-02\n  explicit: !!timestamp 2018-12-02\n"
    assert contents(data) == [
        {"metadata": {"creationTimestamp": "2018-12-02T08:09:25Z", "day": "2018-12-02", "explicit": "2018-12-02"}}
    ]


def test_yaml_becomes_plain_json_values() -> None:
    data = b"metadata: {2: a, true: b, null: c, 1.5: d}\nspec: {a: !!set {x}, b: !!binary aGk=, c: =}\n"
    assert contents(data) == [
        {"metadata": {"2": "a", "true": "b", "null": "c", "1.5": "d"}, "spec": {"a": {"x": None}, "b": "aGk=", "c": "="}}
    ]


def test_anchors_and_merge_keys_are_resolved() -> None:
    data = b"metadata: &m {name: a}\nspec:\n  <<: *m\n  other: *m\n"
    assert contents(data) == [{"metadata": {"name": "a"}, "spec": {"name": "a", "other": {"name": "a"}}}]


def test_a_key_may_replace_one_that_is_merged() -> None:
    data = b"metadata: &m {name: a}\nspec: {name: b, <<: *m}\n"
    assert contents(data) == [{"metadata": {"name": "a"}, "spec": {"name": "b"}}]


def bomb(merge: bool) -> bytes:
    lines = ["kind: &a0 {x: 1}"]
    for level in range(1, 30):
        refer = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"k{level}: &a{level} " + (f"{{<<: [{refer}], y{level}: 1}}" if merge else f"[{refer}]"))
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bomb(merge=False), "expand without bound"),
        (bomb(merge=True), "expand without bound"),
        (b"kind: &a [*a]", "refer to themselves"),
        (b"main: " + b"[" * 60_000, "nested more than 100 levels"),
        (b"main: " + b"{a: " * 500_000, "nested more than 100 levels"),
        (b"- " * 300_000 + b"x", "nested more than 100 levels"),
        (b"".join(b" " * level + b"-\n" for level in range(500)), "nested more than 100 levels"),
        (b"".join(b" " * level + b"? \n" for level in range(500)), "nested more than 100 levels"),
        (b"a: &a [*b]\nb: &b [*a]", "names no anchor"),
        (
            b"".join(b"a%d: &a%d [*a%d]\n" % (level + 1, level + 1, level) for level in range(1, 200)).replace(b"*a1]", b"x]"),
            "nested",
        ),
        (b"kind: " + b"1:" * 50_000 + b"1", "a number of more than 100 characters"),
        (b"? [a, b]\n: c", "not YAML"),
        (b"kind: Pod\n\tx: 1", "not YAML"),
        (b"kind: \xff", "not YAML"),
        (b"kind: !!python/object:os.system x", "not YAML"),
        (b"kind: Pod\nspec:\n  a: .nan", "not finite, .nan"),
        (b"kind: Pod\nspec: {a: 1}\nkind: Job", "the key 'kind' stands there twice"),
        (b"kind: Pod\nspec: {1: a, b: 2,\n  '1': a}", "the key '1' stands there twice"),
        (b"{kind: Pod, spec: {a: 1, b: 2,\n  a: 3}}", "the key 'a' stands there twice"),
        (b'{"kind": "Pod", "spec": {"a": 1, "a": 1}}', "the key 'a' stands there twice"),
        (b'{"kind": "Pod", "spec": {"a": "\\u0022", "a": "\\u0022\\u0022"}}', "the key 'a' stands there twice"),
        (b'{"kind": "Pod", "a": "\\ud83d\\ude00", "a": 1}', "the key 'a' stands there twice"),  # no escape of YAML
        (b"metadata: 1" + b"0" * 5000, "not YAML"),
        (b"hello", "text is no object"),
        (b"NAME     READY   STATUS\nweb-0    1/1     Running\n", "text is no object: it is a table of kubectl; `-o json` prints"),
        (b"NAMESPACE   NAME    READY\nml          web-0   0/1\n", "`-o json` prints the objects"),
        (b"3", "a number is no object"),
        (b"a: 1", "no Kubernetes object"),
        (b'{"a": 1}', "no Kubernetes object"),
        (b'{"kind": "Pod", "metadata": {"name": "\\ud800"}}', "not JSON"),
        (b'{"kind": NaN', "ends in the middle"),
        (b'{"kind": "Pod', "ends in the middle of an object"),
        (b'{"kind": ]', "brackets or quotes that do not match"),
        (b"[" * 300, "brackets or quotes that do not match"),
        (b'{"kind": "List", "items": [null, 3]}', "null is no object"),
    ],
)
def test_what_is_no_object(data: bytes, reason: str) -> None:
    found = read_documents(data)
    assert found
    assert isinstance(found[0], Unreadable)
    assert reason in found[0].reason


@pytest.mark.parametrize(
    ("data", "place", "reason"),
    [
        (b"kind: Pod\nspec:\n  a: .nan", "line 3", "not YAML: a number that is not finite, .nan"),
        (b"kind: Pod\n---\nkind: Pod\nspec: {a: 1}\nkind: Job", "line 5", "the key 'kind' stands there twice"),
        (b"{kind: Pod, spec: {a: 1, b: 2,\n  a: 3}}", "line 2", "the key 'a' stands there twice"),
        (b'\n\n{"kind": "Pod",\n "spec": 1,,}\n', "line 4", "not JSON: key must be a string (column 12)"),
        (b"kind: Pod\n---\na: [1\n\n\n", "line 3", "not YAML: did not find expected ',' or ']'"),
    ],
)
def test_the_place_of_a_fault_is_its_line_of_the_file(data: bytes, place: str, reason: str) -> None:
    (fault,) = [one for one in read_documents(data) if isinstance(one, Unreadable)]
    assert (fault.place, fault.reason) == (place, reason)


def test_a_key_that_stands_twice_costs_its_own_object_only() -> None:
    data = pretty(POD) + b'{"kind": "Pod",\n "kind": "Job"}\n' + pretty(JOB)
    assert contents(data) == [POD, JOB]
    assert [one.line for one in read_documents(data) if isinstance(one, Unreadable)] == [pretty(POD).count(b"\n") + 2]
    assert reasons(data) == ["the key 'kind' stands there twice"]


@pytest.mark.parametrize(("begin", "end"), [(b'{"kind": "List", "items": [', b"]}"), (b"[", b"]\n")])
def test_a_key_that_stands_twice_in_an_item_costs_that_item_only(begin: bytes, end: bytes) -> None:
    data = begin + pretty(POD) + b',{"kind": "Pod",\n "kind": "Job"},' + pretty(JOB) + end
    assert contents(data) == [POD, JOB]
    (reason,) = reasons(data)
    assert reason.startswith("the key 'kind' stands there twice")


TEXTS = st.text("Q\\u02a", max_size=9)


@given(st.recursive(TEXTS, lambda one: st.dictionaries(TEXTS, one)), st.sampled_from([b"Q", b'\\"', b"\\u0022"]))
def test_what_looks_like_a_key_that_stands_twice_is_none(value: object, quote: bytes) -> None:
    """Escapes, quotes that are escaped in either way, and a long number."""
    data = compact({"kind": "Pod", "spec": [value, {"a": value}], "a": 10**4000}).replace(b"Q", quote)
    assert contents(data) == [json.loads(data)]


def test_yaml_of_more_values_than_the_bound_is_refused() -> None:
    with pytest.raises(UnreadableYamlError, match="more than 20 values"):
        read_yaml(b"[" + b"a," * 20 + b"]", values=20)
    assert read_yaml(b"[" + b"a," * 19 + b"]", values=20) == [["a"] * 19]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_yaml_with_more_tag_directives_than_the_bound_is_refused(encoding: str) -> None:
    content = "".join(f"%TAG !a{number}! b\n" for number in range(200)) + "--- x"
    with pytest.raises(UnreadableYamlError, match="%TAG directives"):
        read_yaml(content.encode(encoding))


def test_yaml_may_nest_as_deep_as_the_bound() -> None:
    assert read_yaml(b"[" * NESTING + b"]" * NESTING)
    with pytest.raises(UnreadableYamlError, match="nested more than 100 levels"):
        read_yaml(b"[" * (NESTING + 1) + b"]" * (NESTING + 1))


def test_reading_goes_on_behind_garbage() -> None:
    """Each broken thing is one item with its place and bytes; the objects around it are all there."""
    data = pretty(POD) + b"Error from server: gone\n" + pretty(JOB)[:30] + b"\n" + pretty(JOB) + b'{"x": \n' + pretty(POD)
    found = read_documents(data)
    assert [item.content for item in found if isinstance(item, Document)] == [POD, JOB, POD]
    garbage = [item for item in found if isinstance(item, Unreadable)]
    assert [item.content for item in garbage] == [b"Error from server: gone\n", pretty(JOB)[:30] + b"\n", b'{"x": \n']
    assert [data.splitlines()[item.line - 1] for item in garbage] == [item.content.splitlines()[0] for item in garbage]


@pytest.mark.parametrize("form", ["array", "list", "yaml"])
def test_what_is_no_object_is_kept_one_by_one_up_to_a_bound(form: str) -> None:
    entries = b",".join([compact(POD), *[b"1"] * 250, compact(JOB)])
    data = {"array": b"[%s]\n", "list": b'{"kind":"List","items":[%s]}\n', "yaml": b"items: [%s]\n"}[form] % entries
    found = read_documents(data)
    assert [item.content for item in found if isinstance(item, Document)] == [POD, JOB]
    unreadable = [item for item in found if isinstance(item, Unreadable)]
    assert len(unreadable) == UNREADABLE + 1
    assert (unreadable[-1].reason, unreadable[-1].content.strip()) == ("150 more of its entries are no objects", data.strip())


def test_objects_are_told_one_by_one_as_they_are_asked_for() -> None:
    """A piece of 64 MiB may hold millions: whoever reads can put each away before the next."""
    found = DocumentReader().feed(b"[" + b",".join([compact(POD)] * 3) + b"]\n")
    assert next(found).content == POD
    assert len(list(found)) == 2


def test_an_array_that_breaks_off_keeps_its_whole_elements() -> None:
    data = b"[\n" + compact(POD) + b",\n" + compact(JOB) + b",\n" + compact(POD)[:20]
    assert contents(data) == [POD, JOB]


def test_json_is_yielded_as_soon_as_its_last_line_is_there() -> None:
    reader = DocumentReader()
    lines = pretty(ENVELOPE, POD).splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if line == b"}\n"]
    seen = [number for number, line in enumerate(lines) for _ in reader.feed(line)]
    assert seen == ends
    assert list(reader.close()) == []


def test_yaml_is_yielded_when_the_next_document_begins() -> None:
    reader = DocumentReader()
    assert list(reader.feed(b"kind: Pod\n")) == []
    assert [item.content for item in reader.feed(b"---\nkind: Job\n")] == [{"kind": "Pod"}]
    assert [item.content for item in reader.close()] == [{"kind": "Job"}]


def test_a_stream_does_not_wait_for_more_than_there_is() -> None:
    chunks = [pretty(POD), pretty(JOB)]

    class Slow(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            chunk = chunks.pop(0) if chunks else b""
            buffer[: len(chunk)] = chunk
            return len(chunk)

    stream = read_stream(io.BufferedReader(Slow()))
    assert next(stream).content == POD
    assert chunks == [pretty(JOB)]
    assert [item.content for item in stream] == [JOB]


def test_an_object_without_end_is_given_up() -> None:
    reader = DocumentReader(largest=100)
    found = list(reader.feed(b'{"kind": "' + b"x" * 200))
    assert [(type(item), item.reason) for item in found] == [
        (Unreadable, "larger than 100 bytes; --output-watch-events prints the objects of a List one by one")
    ]
    assert [item.content for item in reader.feed(b'"}\n' + compact(POD) + b"\n") if isinstance(item, Document)] == [POD]


FRAGMENTS = [
    b"{", b"}", b"[", b"]", b"\n", b'"', b":", b",", b" ", b"a", b"---\n", b"...", b"\n{\n", b"\n}\n", compact(POD), pretty(JOB),
    b"kind: Pod\n", b"- ", b"&a", b"*a", b"<<: ", b"\\", b"\xff", b"\x00", b"#", b"1", b"null", b"!!set", b"'", b"|", b"\t", b"\r",
    b'{"type":"ADDED","object":', b'{"items":[', b"\xef\xbb\xbf", b"%", b"? ",
]  # fmt: skip
STREAMS = st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=8), max_size=40).map(b"".join)


def check_any_bytes(data: bytes, size: int) -> None:
    whole = read_documents(data)
    reader = DocumentReader()
    parts = [item for start in range(0, len(data), size) for item in reader.feed(data[start : start + size])]
    assert [*parts, *reader.close()] == whole
    for item in whole:
        assert 1 <= item.line <= data.count(b"\n") + 1
        if isinstance(item, Document):
            json.dumps(item.content, allow_nan=False).encode()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_byte_order_mark_may_arrive_in_parts(size: int) -> None:
    check_any_bytes(b"\xef\xbb\xbf\n{\n", size)
    check_any_bytes(b"\xef\xbb\xbf" + pretty(POD), size)
    check_any_bytes(b"\xef\xbb", size)


@settings(max_examples=1_000)
@given(STREAMS, st.integers(1, 9))
def test_any_bytes_are_read_the_same_however_they_arrive(data: bytes, size: int) -> None:
    check_any_bytes(data, size)


@pytest.mark.slow
@settings(max_examples=100_000)
@given(STREAMS, st.integers(1, 9))
def test_very_many_bytes_are_read_the_same_however_they_arrive(data: bytes, size: int) -> None:
    check_any_bytes(data, size)


OBJECTS = st.lists(
    st.fixed_dictionaries({"kind": st.text(max_size=5), "metadata": st.dictionaries(st.text(max_size=4), st.text(max_size=8))}),
    max_size=5,
)


@given(OBJECTS, st.lists(st.booleans(), min_size=5, max_size=5), st.integers(1, 50))
def test_objects_come_back_as_they_were_written(objects: list[Any], styles: list[bool], size: int) -> None:
    """Pretty or compact, in chunks of any size."""
    objects = [one for one in objects if not one["kind"].endswith("List")]
    data = b"".join(
        json.dumps(one, indent=2 if style else None, ensure_ascii=not style).encode() + b"\n"
        for one, style in zip(objects, styles, strict=False)
    )
    reader = DocumentReader()
    found = [item for start in range(0, len(data), size) for item in reader.feed(data[start : start + size])]
    assert [item.content for item in found] == objects
    assert list(reader.close()) == []
