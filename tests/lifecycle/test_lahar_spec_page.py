"""docs/lahar-spec.md: its table has every field, and each field does to its example what the table says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

import pytest
from lifecycle_driver import Driver
from pydantic import BaseModel

from engine.events.actions import EventRaised, TimerSet
from engine.events.jobs import JobOpened, TaskPhaseChanged
from engine.events.outcomes import CommandRefused, JobRejected
from engine.kubernetes.manifests.lahar_spec import LaharSpec
from engine.kubernetes.reading.yaml_values import read_yaml

PAGE = (Path(__file__).parents[2] / "docs" / "lahar-spec.md").read_text(encoding="utf-8")
DAY = 86_400


def example() -> dict[str, Any]:
    (block,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (manifest,) = read_yaml(block.encode())
    assert isinstance(manifest, dict)
    return manifest


def fields(cls: type[BaseModel] = LaharSpec, before: str = "") -> Iterator[str]:
    """Yield the path of every field of the schema."""
    for name, field in cls.model_fields.items():
        path = f"{before}{field.alias or name}"
        yield path
        parts = str(field.annotation)
        for inner in models(field.annotation):
            yield from fields(inner, f"{path}{'[]' if 'list[' in parts else '.NAME' if 'dict[' in parts else ''}.")


def models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models(argument)]


def without(path: str) -> dict[str, Any]:
    """Return the example without a field."""
    manifest = deepcopy(example())
    place: Any = manifest["lahar"]
    *steps, last = path.split(".")
    for step in steps:
        place = place[int(step)] if step.isdecimal() else place[step]
    del place[last]
    return manifest


def submitted(manifest: dict[str, Any] | None = None) -> Driver:
    driver = Driver()
    driver.submit(manifest or example())
    assert driver.outcome == "applied", driver.events[-1].data
    driver.run("combiner")
    driver.run("learner")
    return driver


def raised(driver: Driver) -> list[str]:
    return [one.event for one in driver.of(EventRaised)]


def phases(driver: Driver, task: str) -> list[str]:
    return [one.phase for one in driver.of(TaskPhaseChanged) if one.task == task]


def kept(name: str, value: Any, otherwise: Any) -> None:
    for manifest, expected in ((example(), value), (without(name), otherwise)):
        (opened,) = submitted(manifest).of(JobOpened)
        assert getattr(opened.spec, re.sub("(?<!^)(?=[A-Z])", "_", name).lower()) == expected


def active_deadline() -> None:
    driver = submitted()
    assert [one.timer for one in driver.of(TimerSet)] == ["active_deadline"]
    driver.wait(DAY - 1)
    assert driver.phase() == "Running"
    driver.wait(2)
    assert driver.phase() == "Terminating"
    assert submitted(without("activeDeadlineSeconds")).of(TimerSet) == []


def permanent_exit_codes() -> None:
    for manifest, code, phase in ((None, 2, "Failed"), (None, 3, "Pending"), (without("permanentExitCodes"), 2, "Pending")):
        driver = submitted(manifest)
        driver.end("learner", 0, code=code)
        driver.reap()
        assert driver.phase() == phase


def custom_events() -> None:
    driver = submitted()
    driver.custom("Checkpointed", data={"step": 5})
    assert raised(driver) == ["Checkpointed"]
    driver.custom("Checkpointed", data={"step": -1})
    driver.custom("Undeclared")
    assert (raised(driver), len(driver.of(CommandRefused))) == (["Checkpointed"], 2)
    driver.custom("LossDiverged", data={"any": "thing"})
    assert driver.phase() == "Restarting"


def rules() -> None:
    driver = submitted()
    driver.end("learner", 0, 1)
    driver.end("learner", 2)
    (event,) = [one for one in driver.of(EventRaised) if one.event == "EnoughModels"]
    assert event.rule is not None
    alone = without("raise")
    alone["lahar"]["raise"] = example()["lahar"]["raise"][0]
    del alone["spec"]["policies"][1]
    driver = submitted(alone)
    driver.end("learner", 0, 1)
    assert "EnoughModels" in raised(driver)


def event_of_a_rule() -> None:
    driver = Driver()
    driver.submit(without("raise"))
    (rejected,) = driver.of(JobRejected)
    assert "BadData" in str(rejected.faults), "no rule declares it"


def level() -> None:
    driver = submitted()
    driver.end("learner", 0, 1)
    assert "EnoughModels" in raised(driver)
    manifest = example()
    manifest["lahar"]["raise"][1]["when"] = {"task": "learner", "phase": "Failed", "reason": "OomKilled"}
    driver = submitted(manifest)
    driver.end("learner", 0, code=137, reason="OomKilled")
    assert "TooSmall" not in raised(driver), "the task has not failed"


def task_of_a_rule() -> None:
    for manifest, expected in ((None, False), (without("raise.0.when.task"), True)):
        driver = submitted(manifest)
        driver.end("learner", 0)
        driver.end("combiner", 0)
        assert ("EnoughModels" in raised(driver)) is expected


def phase_of_a_rule() -> None:
    driver = submitted()
    driver.end("learner", 0, 1, code=1)
    assert "EnoughModels" not in raised(driver)


def reason() -> None:
    for why, expected in (("OomKilled", True), ("AppFailed", False)):
        driver = submitted()
        driver.end("learner", 0, code=137, reason=why)
        assert ("TooSmall" in raised(driver)) is expected


def exit_code() -> None:
    for code, phase in ((65, "Aborting"), (66, "Running")):
        driver = submitted()
        driver.end("learner", 0, code=code)
        assert (("BadData" in raised(driver)), driver.phase()) == (code == 65, phase)


def count() -> None:
    for manifest, expected in ((None, False), (without("raise.0.when.count"), True)):
        driver = submitted(manifest)
        driver.end("learner", 0)
        assert ("EnoughModels" in raised(driver)) is expected
    driver = submitted()
    driver.end("learner", 0, 1)
    assert "EnoughModels" in raised(driver)


def main() -> None:
    for code, event, phase in ((0, "MainTaskEvent", "Completing"), (1, "MainTaskFailedEvent", "Aborting")):
        driver = submitted()
        driver.end("combiner", 0, code=code)
        assert event in raised(driver)
        assert driver.phase() == phase
    driver = submitted(without("tasks.combiner.main"))
    driver.end("combiner", 0)
    assert (driver.phase(), raised(driver)) == ("Running", ["TaskCompleted"])


def min_succeeded() -> None:
    for manifest, expected in ((None, True), (without("tasks.learner.minSucceeded"), False)):
        driver = submitted(manifest)
        driver.end("learner", 0, 1, 2)
        assert ("Completed" in phases(driver, "learner")) is expected


def max_failed() -> None:
    for manifest, expected in ((None, True), (without("tasks.learner.maxFailed"), False)):
        driver = submitted(manifest)
        driver.end("learner", 0, code=1)
        assert "Failed" not in phases(driver, "learner")
        driver.end("learner", 1, code=1)
        assert ("Failed" in phases(driver, "learner")) is expected


EFFECTS: dict[str, Callable[[], None]] = {
    "activeDeadlineSeconds": active_deadline,
    "permanentExitCodes": permanent_exit_codes,
    "customEvents": custom_events,
    "raise": rules,
    "raise[].raise": event_of_a_rule,
    "raise[].when": rules,
    "raise[].when.level": level,
    "raise[].when.task": task_of_a_rule,
    "raise[].when.phase": phase_of_a_rule,
    "raise[].when.reason": reason,
    "raise[].when.exitCode": exit_code,
    "raise[].when.count": count,
    "tasks": main,
    "tasks.NAME.main": main,
    "tasks.NAME.minSucceeded": min_succeeded,
    "tasks.NAME.maxFailed": max_failed,
    "preempt": lambda: kept("preempt", True, False),
    "onPreempted": lambda: kept("onPreempted", "Abort", "Requeue"),
    "minRunSeconds": lambda: kept("minRunSeconds", 600, None),
}


def test_the_table_has_every_field_of_the_schema_and_no_other() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(fields())


@pytest.mark.parametrize("path", sorted(fields()))
def test_each_field_does_what_the_page_says(path: str) -> None:
    EFFECTS[path]()


def test_the_example_may_stand_in_the_annotation() -> None:
    manifest = example()
    own = manifest.pop("lahar")
    manifest["metadata"]["annotations"] = {"lahar/spec": json.dumps(own)}
    (one,), (other,) = submitted().of(JobOpened), submitted(manifest).of(JobOpened)
    assert one.spec == other.spec


def test_a_field_that_is_not_in_the_table_is_told() -> None:
    manifest = example()
    manifest["lahar"]["tasks"]["learner"]["minFailed"] = 1
    driver = Driver()
    driver.submit(manifest)
    (opened,) = driver.of(JobOpened)
    assert ["lahar.tasks.learner.minFailed" in warning for warning in opened.warnings] == [True]
    driver.submit(manifest, "j2", strict=True)
    assert driver.outcome == "rejected"


@pytest.mark.parametrize(
    ("path", "value"), [("tasks.combiner.main", "yes"), ("tasks.nobody", {}), ("activeDeadlineSeconds", 0), ("onPreempted", "Sulk")]
)
def test_a_value_that_makes_no_sense_is_a_fault_with_its_path(path: str, value: Any) -> None:
    manifest = example()
    place = manifest["lahar"]
    *steps, last = path.split(".")
    for step in steps:
        place = place[step]
    place[last] = value
    driver = Driver()
    driver.submit(manifest)
    (rejected,) = driver.of(JobRejected)
    assert rejected.faults[0].path == f"lahar.{path}"


def test_the_fields_of_preemption_are_on_its_page_with_what_they_do() -> None:
    """No field is documented as one that is only stored: each has an effect."""
    assert "no effect" not in PAGE
    assert "Stored" not in PAGE
    preemption = (Path(__file__).parents[2] / "docs" / "preemption.md").read_text(encoding="utf-8")
    for row in (line for line in PAGE.splitlines() if "(preemption.md)" in line):
        assert f"`{row.split('`')[1]}`" in preemption
