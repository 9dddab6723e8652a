"""docker-compose.yml is what the Compose specification allows, and what we want of it."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

import pytest
from container_files import ROOT, compose, is_committed, ours, stages
from jsonschema import Draft202012Validator

COMPOSE = compose()
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(ours())
RUNNING = sorted(name for name, service in SERVICES.items() if service["restart"] != "no")
SCHEMA = json.loads((ROOT / "tests/deploy/compose-spec.json").read_text(encoding="utf-8"))
SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|KEYFILE|CREDENTIAL")


def faults(document: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors(document)]


def test_it_keeps_the_compose_specification() -> None:
    assert faults(COMPOSE) == []


@pytest.mark.parametrize(
    ("name", "value"), [("comand", ["x"]), ("restart", 3), ("depends_on", {"kafka": {"condition": "up"}}), ("healthcheck", ["x"])]
)
def test_the_specification_is_really_asked(name: str, value: object) -> None:
    broken = deepcopy(COMPOSE)
    broken["services"]["effects"][name] = value
    assert faults(broken)


def test_it_holds_the_parts_of_a_deployment() -> None:
    assert OURS == ["billing", "budgets", "effects", "lifecycle", "scheduling", "topics", "usage"]
    assert sorted(SERVICES) == sorted([*OURS, "grafana", "kafka", "prometheus"])


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_has_a_tag_and_comes_from_the_usual_place(name: str) -> None:
    image, _, tag = SERVICES[name]["image"].partition(":")
    assert tag not in {"", "latest"}
    assert "." not in image
    assert image.count("/") <= 1


def test_an_image_is_built_for_one_service_and_pulled_for_none() -> None:
    """Compose builds services side by side: the second image of a tag would find it taken. What is not built yet it would pull."""
    (builder,) = (name for name, service in SERVICES.items() if "build" in service)
    assert [SERVICES[name]["pull_policy"] for name in OURS] == ["never"] * len(OURS)
    assert all(builder in SERVICES[name]["depends_on"] for name in OURS if name != builder)


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_open_to_this_machine_only(name: str) -> None:
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in SERVICES[name].get("ports", []))


@pytest.mark.parametrize("name", RUNNING)
def test_what_runs_is_checked_and_started_again(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    # The Dockerfile holds the check of ours.
    assert service["healthcheck"]["test"][0] == "CMD" if name not in OURS else "healthcheck" not in service


def test_what_others_wait_for_can_be_waited_for() -> None:
    for service in SERVICES.values():
        for name, wish in service.get("depends_on", {}).items():
            if wish["condition"] == "service_healthy":
                assert name in RUNNING
            else:
                assert wish["condition"] == "service_completed_successfully"
                assert name not in RUNNING


@pytest.mark.parametrize("name", OURS)
def test_our_services_have_no_rights_that_they_do_not_need(name: str) -> None:
    assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]
    assert SERVICES[name]["read_only"] is True
    assert "tmpfs" not in SERVICES[name]
    assert "volumes" not in SERVICES[name]


@pytest.mark.parametrize("name", SERVICES)
def test_no_secret_stands_in_it(name: str) -> None:
    assert not [variable for variable in SERVICES[name].get("environment", {}) if SECRET.search(variable)]


def test_what_is_mounted_is_committed_and_cannot_be_written() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source, _, *mode = volume.split(":")
            if source.startswith("./"):
                assert mode == ["ro"]
                assert is_committed(source)
            else:
                assert source in COMPOSE["volumes"]


def test_kafka_keeps_its_data_in_the_volume() -> None:
    _, folder = SERVICES["kafka"]["volumes"][0].split(":")
    assert SERVICES["kafka"]["environment"]["KAFKA_LOG_DIRS"] == folder


def test_the_image_without_a_command_is_a_lifecycle_worker() -> None:
    (default,) = [instruction.text for instruction in stages()[-1] if instruction.name == "CMD"]
    assert json.loads(default) == SERVICES["lifecycle"]["command"]
