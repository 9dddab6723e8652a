"""`lahar experiment`."""

from __future__ import annotations

import re
from math import log10

import pytest
from experiments import EXPERIMENTS

from engine.cli.experiment import NAMES


def plots(page: str) -> dict[str, list[str]]:
    """Return title → texts of each plot."""
    return {name: re.findall(r"<text[^>]*>([^<]*)", plot) for name, plot in re.findall(r'aria-label="([^"]*)">(.*?)</svg>', page)}


def test_an_experiment_is_a_table_of_rows_and_one_object_each_in_json(lahar):
    shown = lahar("experiment", "binpack")
    assert "job of 24: pods by node" in shown.out
    first, *others = lahar("experiment", "binpack", "--json").records
    assert first == {"name": "binpack", "measure": "job of 16: pods by node", "seed": "all on one node", "ours": "16", "ok": True}
    assert len(others) == 3


def test_a_claim_that_fails_is_a_finding(lahar, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.scheduling.plugins.binpack.BinPack.node_order", lambda *_: None)
    assert " NO" in lahar("experiment", "binpack", code=1).out


def test_the_command_offers_all_experiments():
    assert tuple(EXPERIMENTS) == NAMES


def test_an_unknown_experiment_is_answered_with_those_that_there_are(lahar):
    assert "no experiment 'speed'; there are gang, fair-share, binpack" in lahar("experiment", "speed", code=2).err


def test_a_page_has_columns_with_and_without_the_feature_and_rows_below(lahar, tmp_path):
    lahar("experiment", "gang", "--out", tmp_path / "new")
    page = (tmp_path / "new" / "experiments.html").read_text(encoding="utf-8")
    axis = ["0", "2500", "5000"]
    assert plots(page)["seconds"] == [*axis, "604", "604", "1 job", "1,207", "never", "2 jobs", "3,016", "never", "5 jobs"]
    assert re.findall("</i>([^<]*)", page) == ["with the feature", "without gang"]
    assert page.index("</svg>") < page.index("<td>0 of 5: deadlock<td>yes")
    assert not re.search(r"<script|<link|<img|\bsrc=|\bhref=|url\(|@import", page)


def test_values_that_are_far_apart_have_a_logarithmic_scale(lahar, tmp_path):
    lahar("experiment", "notice", "--out", tmp_path)
    page = (tmp_path / "experiments.html").read_text(encoding="utf-8")
    axis = ["0.1", "1", "10", "100", "1,000", "10,000"]
    assert plots(page)["GPU minutes lost"] == [*axis, "0.8", "760", "2,884", ""]
    assert plots(page)["jobs stopped"][:3] == ["0", "5", "10"]
    (lost,) = re.findall('aria-label="GPU minutes lost">(.*?)</svg>', page)
    heights = [float(height) for height in re.findall(r"<rect[^>]* height=([0-9.]+)", lost)]
    assert heights == pytest.approx([160 / 5 * (log10(value) + 1) for value in (0.8, 760.4, 2883.6)], abs=0.5)


def test_a_page_has_the_claim_that_fails(lahar, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr("engine.scheduling.plugins.binpack.BinPack.node_order", lambda *_: None)
    lahar("experiment", "binpack", "--json", "--out", tmp_path, code=1)
    page = (tmp_path / "experiments.html").read_text(encoding="utf-8")
    assert plots(page)["job of 24: pods by node"] == ["0", "10", "20", "12", "12", "fuller", "12", "12", "other"]
    assert "<td>12 and 12<td>NO" in page


def test_a_page_that_cannot_be_written_is_told_before_anything_runs(lahar, tmp_path):
    (tmp_path / "experiments.html").mkdir()
    refused = lahar("experiment", "gang", "--json", "--out", tmp_path, code=2)
    assert (refused.out, refused.err) == ("", f"lahar: {tmp_path}/experiments.html: Is a directory\n")


def test_a_folder_that_cannot_be_made_is_told_before_anything_runs(lahar, tmp_path):
    (tmp_path / "taken").touch()
    refused = lahar("experiment", "binpack", "--json", "--out", tmp_path / "taken", code=2)
    assert (refused.out, refused.err.count(f"{tmp_path}/taken")) == ("", 1)
