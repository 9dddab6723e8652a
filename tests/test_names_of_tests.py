"""Names of tests are short enough to be read in a report of failures, and each names one test."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
LONGEST = 70
"""Characters of a name; a docstring has room for the rest."""


def defined_tests(body: list[ast.stmt], of: str = "") -> Iterator[str]:
    """Names of a module's tests, those of a class with the class before them."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from defined_tests(node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield of + node.name


def faults(source: str) -> list[str]:
    """Tests whose names are too long or occur twice."""
    tests = Counter(defined_tests(ast.parse(source).body))
    return [test for test, count in tests.items() if count > 1 or len(test.rpartition(".")[2]) > LONGEST]


def test_names_of_tests_are_short_and_unique() -> None:
    assert [f"{path.relative_to(HERE)}: {test}" for path in sorted(HERE.rglob("*.py")) for test in faults(path.read_text())] == []


def test_long_and_repeated_names_are_found() -> None:
    long = f"test_{'x' * LONGEST}"
    source = f"def test_a(): ...\nasync def {long}(): ...\nclass TestB:\n    def test_a(self): ...\n    def test_a(self): ...\n"
    assert faults(source) == [long, "TestB.test_a"]
