"""The measure of costs finds defects that are planted in parsers."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from cost_meter import Meter, TooDearError
from planted import Plant
from test_costs import KNOWN

from engine.kubernetes.manifests import schema_steps
from engine.kubernetes.reading import yaml_values


def backtracking(pattern: str) -> Any:
    """Python's own matcher in place of RE2."""
    return SimpleNamespace(programsize=1, search=re.compile(pattern).search)


PLANTED: dict[str, tuple[str, Any, str, Any]] = {
    "a matcher that backtracks": ("a pattern that backtracks", schema_steps, "compiled", backtracking),
    "keys that backtrack": ("keys that backtrack", schema_steps, "compiled", backtracking),
    "steps that do not count": ("references that double", schema_steps._Meter, "spend", lambda *_: None),
    "aliases that do not count": ("a manifest of aliases", yaml_values._Documents, "_spend", lambda *_: None),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_defect_is_found(planted: str, plant: Plant) -> None:
    name, *defect = PLANTED[planted]
    meter = Meter()
    plant(*defect)
    with pytest.raises(TooDearError):
        meter.check(KNOWN[name].content)
