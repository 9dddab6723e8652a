"""Names, durations and pages of markdown."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kubernetes.errors import DurationError, ManifestError
from engine.kubernetes.manifests.names import label_fault, label_value_fault, qualified_name_fault, subdomain_fault
from engine.kubernetes.reading.durations import parse_duration
from engine.kubernetes.reading.markdown import extract_manifest

PAGE = Path(__file__).parents[2] / "examples" / "paddlepaddle.md"


@pytest.mark.parametrize(
    ("text", "label", "subdomain", "qualified", "value"),
    [
        ("a", True, True, True, True),
        ("a-1", True, True, True, True),
        ("a.b", False, True, True, True),
        ("A_b", False, False, True, True),
        ("a/b", False, False, True, False),
        ("A/b", False, False, False, False),
        ("a/b/c", False, False, False, False),
        ("-a", False, False, False, False),
        ("a-", False, False, False, False),
        ("a..b", False, False, True, True),
        ("a\n", False, False, False, False),
        ("ä", False, False, False, False),
        ("", False, False, False, True),
        ("a" * 63, True, True, True, True),
        ("a" * 64, False, True, False, False),
        ("a" * 254, False, False, False, False),
    ],
)
def test_names(text: str, *, label: bool, subdomain: bool, qualified: bool, value: bool) -> None:
    judges = (label_fault, subdomain_fault, qualified_name_fault, label_value_fault)
    assert [judge(text) is None for judge in judges] == [label, subdomain, qualified, value]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("300s", 300_000_000),
        ("1h30m", 5_400_000_000),
        ("1.5s", 1_500_000),
        (".5ms", 500),
        ("2.us", 2),
        ("1µs", 1),
        ("1ns", 1),
        ("0", 0),
        ("-1m", -60_000_000),
        ("+1m", 60_000_000),
    ],
)
def test_durations(text: str, micros: int) -> None:
    assert parse_duration(text) == micros


@pytest.mark.parametrize("text", ["", "300", "s", "1 s", "1d", "1s1", "--1s", ".s", "1e3s", "10000000h", "9" * 200 + "s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)


@given(st.text())
def test_no_text_breaks_the_reading_of_durations(text: str) -> None:
    with suppress(DurationError):
        assert isinstance(parse_duration(text), int)


def test_the_manifest_of_the_blog_page_is_read_without_its_escapes() -> None:
    manifest = extract_manifest(PAGE.read_text(encoding="utf-8"))
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    assert manifest["kind"] == "Job"
    assert container["image"] == "your_repo/paddle:mypaddle"
    assert [variable["name"] for variable in container["env"]] == ["JOB_NAME", "JOB_PATH", "JOB_NAMESPACE"]


def test_the_first_block_that_holds_an_object_counts() -> None:
    page = "```\nls\n```\n```yaml\na: 1\n```\n~~~yaml\napiVersion: v1\nkind: A\n~~~\n```yaml\napiVersion: v1\nkind: B\n```\n"
    assert extract_manifest(page) == {"apiVersion": "v1", "kind": "A"}


def test_a_true_code_block_is_literal() -> None:
    page = "````yaml\napiVersion: v1\nkind: A\npattern: a\\_b\n````\n"
    assert extract_manifest(page)["pattern"] == "a\\_b"


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("just text", "no code block"),
        ("```yaml\na: 1\n```", "no code block has apiVersion and kind"),
        ("```yaml\na: [1\n```", "not YAML"),
        ("```yaml\napiVersion: v1\nkind: A", "no code block"),
    ],
)
def test_a_page_without_a_manifest_says_what_was_looked_for(page: str, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        extract_manifest(page)


@given(st.text(alphabet="`~\n yaml:[]{}-\\_#&*a1"))
def test_no_page_breaks_the_reader(page: str) -> None:
    with suppress(ManifestError):
        assert "kind" in extract_manifest(page)
