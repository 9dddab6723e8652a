"""The stories of scheduling in `examples/`: each README shows what its commands print, and `play.sh` runs the same ones."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.cli.main import app
from engine.events.attempts import AttemptBound, AttemptEnded
from engine.events.decisions import DecisionAccepted
from engine.history.reading import job_events
from engine.log.url import open_log

EXAMPLES = Path(__file__).parent.parent / "examples"
STORIES = ("last-gpu", "lent-queue", "over-quota", "short-notice")
BLOCKS = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def shown(story: str) -> dict[str, str]:
    """What the README says that each command prints; a command that comes again prints it again."""
    text = "".join(BLOCKS.findall((EXAMPLES / story / "README.md").read_text()))
    steps = [step.partition("\n") for step in text.split("$ ")[1:]]
    return {f"{number} {command}": output for number, (command, _, output) in enumerate(steps)}


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, str]]:
    """Plays a story into `log.db`; what its commands print, without blanks at the ends of lines."""

    def run(story: str) -> dict[str, str]:
        folder = EXAMPLES / story
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setenv("LAHAR_LOG", f"sqlite:{tmp_path}/log.db")
        monkeypatch.setenv("LAHAR_CONFIG", str(folder / "lahar.toml"))
        monkeypatch.chdir(folder)
        printed = {}
        commands = [line for line in (folder / "play.sh").read_text().splitlines() if line.startswith("lahar ")]
        for number, line in enumerate(commands):
            result = CliRunner().invoke(app, shlex.split(line)[1:])
            assert result.exit_code == 0, f"{line}\n{result.output}"
            printed[f"{number} {line}"] = "".join(f"{text.rstrip()}\n" for text in result.stdout.splitlines())
        result = CliRunner().invoke(app, ["verify"])
        assert result.exit_code == 0, result.output
        return printed

    return run


@pytest.mark.parametrize("story", STORIES)
def test_the_commands_of_a_story_print_what_its_page_shows(play, story: str) -> None:
    assert play(story) == shown(story)


@pytest.mark.parametrize("story", ["last-gpu", "lent-queue"])
def test_the_recorded_pods_do_what_was_decided(play, story: str, tmp_path: Path) -> None:
    """Pods run where a decision put them, and those end early that a decision evicted."""
    play(story)
    log = open_log(f"sqlite:{tmp_path}/log.db", create=False, readonly=True)
    try:
        events = list(job_events(log))
    finally:
        log.close()
    decided, seen, evicted, ended = set(), set(), set(), set()
    for event in events:
        match event.data:
            case DecisionAccepted(kind="bound", placements=places):
                decided |= {(event.subject, one.task, one.index, one.attempt, one.node) for one in places}
            case DecisionAccepted(kind="evicted", attempts=attempts):
                evicted |= {(event.subject, one.task, one.index, one.attempt) for one in attempts}
            case AttemptBound(task=task, index=index, attempt=attempt, node=node):
                seen.add((event.subject, task, index, attempt, node))
            case AttemptEnded(task=task, index=index, attempt=attempt, phase="Failed"):
                ended.add((event.subject, task, index, attempt))
    assert seen == decided
    assert ended == evicted
    assert len(evicted) == (4 if story == "lent-queue" else 0)
