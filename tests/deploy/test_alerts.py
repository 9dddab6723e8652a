"""The alert rules: their syntax, their own tests, and that each of them has one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from container_files import ROOT
from monitoring import needed, rules

FOLDER = ROOT / "deploy" / "prometheus"
CASES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
TESTS = [test for case in CASES for test in case.get("alert_rule_test", [])]
NAMES = sorted({rule["alert"] for rule in rules()})


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([needed("promtool"), *arguments], capture_output=True, text=True, check=False)


def test_prometheus_takes_settings_and_rules() -> None:
    done = promtool("check", "config", "--lint=all", "--lint-fatal", FOLDER / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules())} rules found" in done.stdout


def test_the_rules_pass_their_own_tests() -> None:
    done = promtool("test", "rules", FOLDER / "alerts_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_that_never_fire_fail_their_tests(tmp_path: Path) -> None:
    """So the tests of the rules test them."""
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    document = yaml.safe_load((tmp_path / "alerts.yml").read_text(encoding="utf-8"))
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["expr"] = "vector(1) > 2"
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(document), encoding="utf-8")
    done = promtool("test", "rules", tmp_path / "alerts_test.yml")
    assert done.returncode == 1
    assert sorted(set(re.findall(r"alertname: (\w+)", done.stdout + done.stderr))) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_is_tested_where_it_fires_and_where_it_does_not(name: str) -> None:
    assert {bool(test["exp_alerts"]) for test in TESTS if test["alertname"] == name} == {True, False}


@pytest.mark.parametrize("name", NAMES)
def test_the_runbook_says_what_to_do_about_it(name: str) -> None:
    _, runbook = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").split("## Runbook")
    headings = re.findall(r"^\*\*.+?\*\* \((.+?)\)\. ", runbook, re.MULTILINE | re.DOTALL)
    assert any(f"`{name}`" in heading for heading in headings)


def test_the_runbook_names_no_other_alert() -> None:
    _, runbook = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").split("## Runbook")
    assert set(re.findall(r"`(Lahar[A-Z]\w+)`", runbook)) == set(NAMES)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert set(rule["annotations"]) == {"summary", "description"}
    assert re.fullmatch(r"Lahar[A-Z][A-Za-z]+", rule["alert"])
    assert rule["annotations"]["summary"].endswith(".")
