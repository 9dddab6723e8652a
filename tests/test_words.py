"""Names and docstrings use the words of docs/glossary.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("engine", "lahar", "statemachines", "streams")
OPENING = re.compile(r"(what|who|of|those|whatever|which|whoever)\b", re.IGNORECASE)


def modules() -> list[Path]:
    return [path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))]


def banned() -> set[str]:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    return set(re.findall(r"`([a-z]+)`", page.partition("## Banned words")[2].partition("`tests/")[0]))


def words(name: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))


def named(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    return [path.stem, *(name for name in defined if not name.startswith("_"))]


def test_no_public_name_holds_a_banned_word() -> None:
    refused = banned()
    assert len(refused) == 9
    found = {f"{path.relative_to(ROOT)}: {name}" for path in modules() for name in named(path) if words(name) & refused}
    assert found == set()


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {opening}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and OPENING.match(opening := ast.get_docstring(node) or "")
    ]
    assert found == []


def test_terms_of_the_glossary_are_explained_once() -> None:
    terms = re.findall(r"^- \*\*(.+?)\*\*: .+\(.+\)\.$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(terms) >= 60
    assert len(set(terms)) == len(terms)
