"""The command in this process: every test in a folder of its own, on a real log in a file there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.cli.main import app

RUNNER = CliRunner()


@dataclass(frozen=True, slots=True)
class Done:
    """What one call of the command left."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """Its answer in JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def record(self) -> dict[str, Any]:
        """Its answer, one JSON object."""
        (record,) = self.records
        return record

    @property
    def lifecycle(self) -> dict[str, Any]:
        """What `status` and `verify` say of the lifecycle shard, the first of four."""
        lifecycle, *others = self.records
        assert [found["shard"] for found in (lifecycle, *others)] == ["lifecycle/0", "scheduling/0", "billing/0", "budgets/0"]
        return lifecycle


Lahar = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("LAHAR_LOG", "LAHAR_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def lahar(folder: Path) -> Lahar:
    """Call the command: `lahar("job", "list")`; `code` is the exit code that is expected."""

    def call(*arguments: object, code: int = 0, given: bytes | str | None = None, **environment: str) -> Done:
        result = RUNNER.invoke(app, [str(argument) for argument in arguments], input=given, env=environment, prog_name="lahar")
        done = Done(result.exit_code, result.stdout, result.stderr)
        assert done.code == code, (arguments, done, result.exception)
        assert "Traceback" not in done.err
        return done

    return call


QUEUE = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 1}
"""

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, namespace: ml}
lahar: {customEvents: {Checkpointed: null}}
spec:
  minAvailable: 1
  queue: research
  tasks:
  - name: worker
    replicas: 2
    template: {spec: {containers: [{name: main, image: train, resources: {requests: {cpu: "1"}}}]}}
"""


@pytest.fixture
def files(folder: Path) -> dict[str, Path]:
    """Manifests to apply."""
    texts = {
        "queue": QUEUE,
        "job": JOB,
        "changed": JOB.replace("minAvailable: 1", "minAvailable: 2"),
        "wrong": JOB.replace("name: train, n", "name: wrong, n").replace("replicas: 2", "replicas: -2"),
        "odd": JOB.replace("name: train, n", "name: odd, n").replace("  queue:", "  colour: red\n  queue:"),
    }
    made = {name: folder / f"{name}.yaml" for name in texts}
    for name, text in texts.items():
        made[name].write_text(text, encoding="utf-8")
    return made
