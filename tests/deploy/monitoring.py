"""Reads what is shipped for Prometheus and Grafana: rules, dashboard, and the queries in them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from container_files import ROOT

_PROGRAMS = ROOT / ".promtool"
_RANGES = {"$__rate_interval": "5m"}
"""What Grafana puts in itself."""


def needed(program: str) -> Path:
    """Return the path of promtool or prometheus; skip the test that needs it where it is absent."""
    path = _PROGRAMS / program
    if not path.exists():
        pytest.skip(f"no {program}: run `make promtool`" + ("" if shutil.which("go") else " (needs Go)"))
    return path


def rules() -> list[dict[str, Any]]:
    """Return the alerts."""
    groups = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    return json.loads((ROOT / "deploy/grafana/dashboards/lahar.json").read_text(encoding="utf-8"))


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard, rows apart."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def variables() -> dict[str, str]:
    """Return the query of each variable of the dashboard."""
    return {variable["name"]: variable["query"]["query"] for variable in dashboard()["templating"]["list"]}


def queries() -> Iterator[tuple[str, str]]:
    """Yield (where it stands, query) of rules and dashboard; the dashboard's with all its variables at "All"."""
    for rule in rules():
        yield f"alert {rule['alert']}", rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            query = target["expr"]
            for name, value in {**_RANGES, **{f"${name}": ".*" for name in variables()}}.items():
                query = query.replace(name, value)
            yield f"panel {panel['title']!r} {target['refId']}", query
