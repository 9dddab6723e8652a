"""Imports point one way, never in a circle, and what decides knows no clock, no chance and no outside world."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

DESCRIPTIONS = {f"engine.events.{name}" for name in ("docstrings", "examples", "glossary", "schema", "topics")}
"""Parts of the vocabulary that only `lahar schema`, tests and `make docs` use; some of them read sources."""

PURE = [
    path
    for folder in ("statemachines", "engine/events", "engine/lifecycle", "engine/scheduling", "engine/billing")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if ".".join(path.relative_to(ROOT).with_suffix("").parts) not in DESCRIPTIONS
]

OUTSIDE_WORLD = {
    *("asyncio", "concurrent", "multiprocessing", "queue", "select", "signal", "subprocess", "threading"),
    *("random", "secrets", "time"),
    *("http", "io", "logging", "os", "pathlib", "shutil", "socket", "sqlite3", "ssl", "tempfile"),
    *("urllib.error", "urllib.request", "urllib.robotparser"),
    *DESCRIPTIONS,
}
"""Modules that nothing pure may import: concurrency, clocks and chance, files and network."""

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for folder in ("engine", "lahar", "statemachines", "streams")
    for path in sorted((ROOT / folder).rglob("*.py"))
}

CALLS = {"breakpoint", "eval", "exec", "input", "open", "print"}
METHODS = {"now", "today", "utcnow", "uuid1", "uuid4", "getnode", "monotonic", "urandom"}


def impurities(source: str) -> Iterator[str]:
    """Everything in a module that reaches for a clock, for chance or for the outside world."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found = [name.name for name in names]
            case ast.ImportFrom(module=str(module), names=names):
                found = [module, *(f"{module}.{name.name}" for name in names)]
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield f"line {node.lineno}: {name}(…)"
                continue
            case ast.Call(func=ast.Attribute(attr=name)) if name in METHODS:
                yield f"line {node.lineno}: ….{name}(…)"
                continue
            case _:
                continue
        for name in found:
            if name in OUTSIDE_WORLD or name.split(".")[0] in OUTSIDE_WORLD or name.split(".")[-1] in METHODS:
                yield f"line {node.lineno}: import {name}"


def test_import_contracts_hold():
    """The layers stand in pyproject.toml; `make lint` checks the same."""
    # In a process of its own: it disables all loggers that there are.
    done = subprocess.run([LINT_IMPORTS, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def circle(sources: Mapping[str, str]) -> list[str]:
    """Modules that import each other, the first one last again; for types alone, or within a function, counts as well."""

    def imported(source: str) -> Iterator[str]:
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Import(names=names):
                    yield from (name.name for name in names)
                case ast.ImportFrom(module=str(module), names=names):
                    yield from (whole if (whole := f"{module}.{name.name}") in sources else module for name in names)

    graph = {name: {found for found in imported(source) if found in sources} for name, source in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other():
    assert circle({name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}) == []


def test_only_modules_that_export_names_of_others_list_their_names():
    """Everywhere else, but for packages, a name without an underscore is public."""
    for name, path in MODULES.items():
        if path.name == "__init__.py":
            continue
        tree = ast.parse(path.read_text())
        listed = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
        imported = {one.asname or one.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for one in node.names}
        assert not listed or imported.intersection(ast.literal_eval(listed[0].value)), name


def test_the_check_of_circles_sees():
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import log"
    assert set(circle({"a": "", "a.log": "def f():\n    import a.shard", "a.shard": types})) == {"a.log", "a.shard"}


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_decides_is_pure(path):
    """No stage reads a clock or does I/O; simulation and replay rest on it."""
    assert list(impurities(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic",
        "import os.path",
        "from urllib.request import urlopen",
        "from uuid import uuid4",
        "from datetime import datetime\ndatetime.now()",
        "import uuid\nuuid.uuid4()",
        "open('x')",
        "async_ = __import__\nimport asyncio",
        "from engine.events import docstrings",
        "def inside():\n    import random",
    ],
)
def test_the_check_of_purity_sees(source):
    assert list(impurities(source)) != []


def test_the_check_of_purity_lets_pass_what_is_pure():
    source = "import json, heapq\nfrom urllib.parse import quote\n"
    source += "from uuid import uuid5\nfrom datetime import datetime\ndatetime.fromisoformat('2026-01-01')"
    assert list(impurities(source)) == []
