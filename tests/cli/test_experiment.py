"""`lahar experiment`."""

from __future__ import annotations

import pytest


def test_an_experiment_is_a_table_of_rows_and_one_object_each_in_json(lahar):
    shown = lahar("experiment", "binpack")
    assert "job of 24: pods by node" in shown.out
    first, *others = lahar("experiment", "binpack", "--json").records
    assert first == {"name": "binpack", "measure": "job of 16: pods by node", "seed": "all on one node", "ours": "16", "ok": True}
    assert len(others) == 3


def test_a_claim_that_fails_is_a_finding(lahar, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.scheduling.plugins.binpack.BinPack.node_order", lambda *_: None)
    assert " NO" in lahar("experiment", "binpack", code=1).out


def test_an_unknown_experiment_is_answered_with_those_that_there_are(lahar):
    assert "no experiment 'speed'; there are gang, fair-share, binpack" in lahar("experiment", "speed", code=2).err
