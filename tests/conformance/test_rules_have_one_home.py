"""What cases are put to is what the product runs: whatever the runner of cases calls, a stage or a command calls as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("engine", "statemachines", "streams")

WAITS = {
    # Volcano keeps the group of a job whose target alone is killed; here a job has its group by its phase.
    "statemachines.podgroup": {"deletes_podgroup"},
    # Volcano's status of a job is written where there is an object to write it to, at the edge of Kubernetes.
    "statemachines.conditions": {"condition_append"},
    "statemachines.counters": {"count", "count_tasks"},
    "statemachines.kill": {"volcano_status"},
    "statemachines.vocabulary": {"volcano_phase"},
}
"""Rules that are right already, and whose caller is still to come."""


def name_of(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def modules(root: Path) -> dict[str, ast.Module]:
    paths = (path for package in PACKAGES for path in sorted((root / package).rglob("*.py")))
    return {name_of(path, root): ast.parse(path.read_text()) for path in paths}


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What a module takes from others: (module, name)."""
    attributes: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes.setdefault(node.value.id, set()).add(node.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield node.module, alias.name
                for attribute in attributes.get(alias.asname or alias.name, ()):  # of a module
                    yield f"{node.module}.{alias.name}", attribute


def top_level(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """The names that a module defines, each with the names that its definition uses."""
    for node in tree.body:
        used = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, used
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, used
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id != "__all__":
                    yield target.id, used


def reached(module: str, tree: ast.Module, wanted: set[str]) -> set[str]:
    """The names of a module that are used where any of these is."""
    uses: dict[str, set[str]] = {}
    for name, used in top_level(tree):
        uses.setdefault(name, set()).update(used)
    found: set[str] = set()
    open_ones = list(wanted)
    while open_ones:
        name = open_ones.pop()
        if name in uses and name not in found:
            found.add(name)
            open_ones.extend(uses[name])
    return found


def called_by_cases_alone(root: Path) -> set[tuple[str, str]]:
    """What the runner of cases takes from the product and nothing else in the product reaches: (module, name)."""
    trees = modules(root)
    ours: set[tuple[str, str]] = set()
    others: dict[str, set[str]] = {}
    for name, tree in trees.items():
        for module, taken in imported(tree):
            if name.startswith("engine.conformance"):
                ours.add((module, taken))
            else:
                others.setdefault(module, set()).add(taken)
    return {
        (module, taken)
        for module, taken in ours
        if module in trees
        and not module.startswith("engine.conformance")
        and taken not in reached(module, trees[module], others.get(module, set()))
    }


def test_what_cases_call_is_called_by_the_product():
    alone = called_by_cases_alone(ROOT)
    assert alone == {(module, name) for module, names in WAITS.items() for name in names}


@pytest.fixture
def product(tmp_path: Path) -> Path:
    files = {
        "statemachines/rules.py": "def inner(): ...\ndef rule(): inner()\ndef copy(): ...\nLIMIT = 3\n",
        "engine/conformance/kinds.py": "from statemachines.rules import copy, inner, rule\n",
        "engine/stage.py": "from statemachines.rules import rule\n",
        "streams/empty.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_copy_of_a_rule_that_only_cases_call_is_found(product: Path):
    assert called_by_cases_alone(product) == {("statemachines.rules", "copy")}


def test_a_rule_that_the_product_calls_no_more_is_found(product: Path):
    (product / "engine/stage.py").write_text("from statemachines.rules import LIMIT\n")
    assert called_by_cases_alone(product) == {("statemachines.rules", name) for name in ("copy", "inner", "rule")}
