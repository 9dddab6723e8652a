"""The command in this process, on the log of a test."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from engine.cli.main import app
from streams.settings import KafkaSettings


@dataclass(frozen=True)
class Done:
    """What one call of the command left."""

    out: str
    err: str

    @property
    def records(self) -> list[Any]:
        """Its answer in JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


class Command:
    """`lahar` on one log: `lahar("job", "list")`; `code` is the exit code that is expected."""

    def __init__(self, log: str, **environment: str) -> None:
        """Name the log and further variables of the environment."""
        self._environment: dict[str, str | None] = {"LAHAR_LOG": log, "COLUMNS": "200", "LAHAR_DEBUG": None, **environment}

    @classmethod
    def of(cls, settings: KafkaSettings, **environment: str) -> Command:
        """Return the command on a log on Kafka."""
        return cls(f"kafka://{settings.bootstrap_servers}", KAFKA_TOPIC_PREFIX=settings.topic_prefix, **environment)

    def __call__(self, *arguments: object, code: int = 0, given: str | None = None, **environment: str) -> Done:
        done = CliRunner().invoke(
            app,
            [str(argument) for argument in arguments],
            input=given,
            env=self._environment | environment,
            prog_name="lahar",
        )
        assert done.exit_code == code, (arguments, done.output, done.exception)
        return Done(done.stdout, done.stderr)

    def records(self, *arguments: object, **more: Any) -> list[Any]:
        """Return the answer in JSON, one object a line."""
        return self("--json", *arguments, **more).records
