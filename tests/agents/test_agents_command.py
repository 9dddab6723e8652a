"""`lahar agents run`: what it cannot run, it says in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.cli.main import app

BROKEN = "raise RuntimeError('at import')"
WRONG = "from streams.agents import agent, job_events\n@agent(job_events, level='pod')\nasync def f(event): ..."


@pytest.mark.parametrize(
    ("log", "target", "code", "said"),
    [
        ("sqlite:./lahar.db", "anything", 2, "has no agents, a log on Kafka has"),
        ("kafka://127.0.0.1:1", "no_such_module_of_agents", 2, "cannot be imported: ModuleNotFoundError"),
        ("kafka://127.0.0.1:1", "../agents.py", 2, "is no module; write my_platform.agents"),
        ("kafka://127.0.0.1:1", "broken_agents", 2, "cannot be imported: RuntimeError: at import"),
        ("kafka://127.0.0.1:1", "wrong_agents", 2, "level: 'pod' is not one of"),
        ("kafka://127.0.0.1:1", "json", 2, "declares no agent"),
        ("kafka://127.0.0.1:1", "streams.agents.usage:Usage", 2, "is no `Agents`"),
        ("kafka://127.0.0.1:1", "streams.agents.usage:app", 4, "Kafka at 127.0.0.1:1 cannot be reached: ConnectionRefusedError"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_line(
    log: str, target: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_agents.py").write_text(BROKEN)
    (tmp_path / "wrong_agents.py").write_text(WRONG)
    environment = {"COLUMNS": "300", "KAFKA_REQUEST_SECONDS": "1", "KAFKA_START_SECONDS": "0"}
    done = CliRunner().invoke(app, ["--log", log, "agents", "run", target], env=environment)
    assert done.exit_code == code, done.output
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
