"""The dashboard is what Grafana's classic dashboard model says, and asks the data source that is provisioned."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest
import yaml
from container_files import ROOT, compose
from monitoring import dashboard, panels, variables

PROVISIONED = ROOT / "deploy" / "grafana" / "provisioning"
BOARD = dashboard()
WIDTH = 24
# Of the units in @grafana/data, valueFormats/categories; others would be shown as a suffix.
UNITS = {"none", "short", "s", "cps", "bytes", "percentunit"}
GRAFANA: dict[str, Any] = compose()["services"]["grafana"]


def source() -> dict[str, Any]:
    (found,) = yaml.safe_load((PROVISIONED / "datasources/prometheus.yml").read_text(encoding="utf-8"))["datasources"]
    return found


def test_it_has_what_the_model_demands() -> None:
    assert BOARD["uid"] == "lahar"
    assert BOARD["title"]
    # 41 is that of Grafana 12; later ones read it and bring it up to date.
    assert BOARD["schemaVersion"] == 41
    assert "id" not in BOARD, "the id is given by the database of the Grafana at hand"
    numbers = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_panels_stand_in_the_grid_and_not_over_each_other() -> None:
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    for place in places:
        assert 0 <= place["x"] < place["x"] + place["w"] <= WIDTH
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below


def test_rows_are_filled_from_side_to_side() -> None:
    tops = {panel["gridPos"]["y"] for panel in BOARD["panels"]}
    for top in tops:
        assert sum(panel["gridPos"]["w"] for panel in BOARD["panels"] if panel["gridPos"]["y"] == top) == WIDTH


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_asks_the_provisioned_source_and_has_a_unit(panel: dict[str, Any]) -> None:
    wanted = {"type": source()["type"], "uid": source()["uid"]}
    assert panel["type"] in {"timeseries", "stat", "table"}
    assert panel["datasource"] == wanted
    assert [target["refId"] for target in panel["targets"]] == list("ABCDEF")[: len(panel["targets"])]
    for target in panel["targets"]:
        assert target["datasource"] == wanted
        assert panel["type"] != "timeseries" or "{{" in target["legendFormat"]
    assert panel["type"] == "table" or panel["fieldConfig"]["defaults"]["unit"] in UNITS


def test_titles_are_told_apart() -> None:
    titles = [panel["title"] for panel in BOARD["panels"]]
    assert len(set(titles)) == len(titles)


def test_variables_are_used_and_declared() -> None:
    used = {name for panel in panels() for target in panel["targets"] for name in re.findall(r"\$([a-z]\w*)", target["expr"])}
    assert used == set(variables())
    for variable in BOARD["templating"]["list"]:
        assert variable["datasource"]["uid"] == source()["uid"]


def test_grafana_finds_source_and_dashboard_where_compose_mounts_them() -> None:
    mounted = dict(volume.split(":")[:2] for volume in GRAFANA["volumes"])
    (provider,) = yaml.safe_load((PROVISIONED / "dashboards/lahar.yml").read_text(encoding="utf-8"))["providers"]
    folder = mounted["./deploy/grafana/dashboards"]
    assert mounted["./deploy/grafana/provisioning"] == "/etc/grafana/provisioning"
    assert provider["options"]["path"] == folder
    assert GRAFANA["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == f"{folder}/lahar.json"
    assert source()["url"] == "http://prometheus:9090"


def test_rates_are_taken_over_the_interval_of_the_scrapes() -> None:
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))["global"]
    assert source()["jsonData"]["timeInterval"] == scraped["scrape_interval"]
