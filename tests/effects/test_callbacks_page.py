"""What docs/callbacks.md shows works as it stands."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest
from effects_world import START, World, opened, run

from engine.effects.executor import InlineExecutor
from engine.effects.metrics import EffectMetrics
from engine.effects.notice import BudgetNotice, Notice
from engine.effects.registry import budget_callback, callback, load
from engine.events.jobs import JobPhaseChanged

PAGE = (Path(__file__).parent.parent.parent / "docs" / "callbacks.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_every_callback_on_the_page_can_be_registered_and_told(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    names = [f"callbacks_page_{number}" for number in range(len(SNIPPETS))]
    for name, text in zip(names, SNIPPETS, strict=True):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    try:
        found = load(names, entry_points=False)
    finally:
        for name in names:
            sys.modules.pop(name, None)
    assert [one.name for one in found] == ["finished", "spent", "page", "billing.usage"]
    world = World()
    labelled = opened("llama-finetune", namespace="ml", labels={"team": "nlp"})
    world.commit("job", labelled, *run(exit_code=1), JobPhaseChanged("Failed", "Pending"))
    world.cross("research", 80)
    world.cross("web", 80)
    world.dispatcher(*found, executor=InlineExecutor()).run_until_quiet(START)
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "1970-01-12T13:46:45.500000Z VCJob ml/llama-finetune: Pending → Failed [live]",
        "1970-01-12T13:46:46.500000Z tenant research: 80 % of 2026-03 (81 of 100 EUR) [live]",
        "page: ml llama-finetune AppFailed",
    ]


NAMED = (*signature(callback).parameters, *signature(budget_callback).parameters)
TOLD = (*fields(Notice), *fields(BudgetNotice))


@pytest.mark.parametrize("name", sorted({*NAMED, *(field.name for field in TOLD)}))
def test_every_argument_and_every_field_is_explained(name):
    assert f"`{name}`" in PAGE


def test_every_metric_is_explained():
    class Registry:
        def register(self, _collector):
            """Nothing is scraped here."""

    for family in EffectMetrics(Registry(), list).collect():
        suffix = "_total" if family.type == "counter" else ""
        assert f"`{family.name}{suffix}`" in PAGE
