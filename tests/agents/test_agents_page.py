"""What docs/agents.md shows works as it stands."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from job_history import History, opened
from prometheus_client import CollectorRegistry

from engine.events.jobs import JobPhaseChanged, JobRevised
from streams.agents import Agent, Agents, agent
from streams.agents.app import AgentApp
from streams.agents.metrics import AgentMetrics
from streams.agents.run import find
from streams.agents.usage import Usage

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
MODULES = [text for text in SNIPPETS if not text.startswith(" ")]
PARTS = [text for text in SNIPPETS if text.startswith(" ")]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ModuleType]]:
    """The snippets, imported; those that are tests have run."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = [f"agents_page_{number}" for number in range(len(MODULES))]
    for name, text in zip(names, MODULES, strict=True):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    try:
        yield [import_module(name) for name in names]
    finally:
        for name in names:
            imported = sys.modules.pop(name, None)
            if books := getattr(imported, "books", None):
                books.close()


def test_every_snippet_can_be_imported_and_its_assertions_hold(modules: list[ModuleType]) -> None:
    declared = [value.name for module in modules for value in vars(module).values() if isinstance(value, Agent)]
    assert declared == ["paid", "announce", "page", "note", "note", "started", "jobs"]
    five, several = modules[:2]
    assert find(five.__name__) == Agents(five.__name__, [five.paid])
    assert find(f"{several.__name__}:app").name == "paging"
    mixed: Any = modules[-1].app
    assert isinstance(mixed, AgentApp)
    assert set(mixed.agents) == {"jobs", f"{modules[-1].__name__}.everything"}


def test_the_page_joins_names_and_tenants_whatever_is_given_again(modules: list[ModuleType]) -> None:
    backend = next(module for module in modules if hasattr(module, "books"))
    history = History("a")
    life = [
        history.received(data)
        for data in (
            opened("nlp"),
            JobRevised(tenant="vision"),
            JobPhaseChanged("Completed", "Running", inferred=True),
            JobPhaseChanged("Running", "Completed"),
            JobPhaseChanged("Completed", "Running"),
        )
    ]
    for received in [*life, *life[1:], History("b").received(opened("ml"))]:
        assert backend.note.wants(received)
        asyncio.run(backend.note.handle(received))
    found = backend.books.execute("SELECT * FROM jobs ORDER BY id").fetchall()
    assert found == [("a", "train", "vision", 5_000_000), ("b", "train", "ml", None)]


def test_the_plain_consumer_on_the_page_is_the_one_that_is_tested() -> None:
    (shown,) = PARTS
    assert shown in (ROOT / "examples" / "consumer" / "consumer.py").read_text(encoding="utf-8")


def test_the_statements_on_the_page_are_those_of_the_tested_example() -> None:
    shown = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    example = (ROOT / "examples" / "agents" / "bills.py").read_text(encoding="utf-8")
    assert len(shown) == 2
    assert all(statement in example for statement in shown)


def test_the_example_says_what_the_page_says() -> None:
    example = (ROOT / "examples" / "agents" / "paid.py").read_text(encoding="utf-8")
    assert '@agent(job_events, level="job", to="Completed")' in example
    assert example.count("\n") <= 12


@pytest.mark.parametrize("name", signature(agent).parameters)
def test_every_argument_is_explained(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_every_metric_is_explained() -> None:
    registry = CollectorRegistry()
    AgentMetrics(registry)
    registry.register(Usage())
    for family in registry.collect():
        suffix = "_total" if family.type == "counter" else ""
        assert f"`{family.name}{suffix}`" in PAGE, family.name
