"""docs/kafka.md: its commands do what it shows, on a real broker, and its tables say what the code says."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from documentation_pages import ROOT, agrees, bare, commands_of, prepared, written_anew
from topics_of_tests import delete_topics

from engine.events.vocabulary import SINGLE_TOPICS
from streams.settings import KafkaSettings
from streams.topics import TOPICS

PAGE = ROOT / "docs" / "kafka.md"
LIMIT = 600
"""Seconds that the page may take."""
SECOND = "second-"
"""What the topics of the page's second log begin with."""
PARTS = re.compile(r"\n<<(\d+)>>\n(.*?)\n<<=(\d+)>>", re.DOTALL)
CHANGING = (
    (re.compile(r"in [\d.]+ s"), "in ? s"),
    # What workers do by the clock goes on behind what they were given.
    (re.compile(r"[\d,]+ outputs folded into [\d,]+ subjects?; (.*) \([0-9a-f]{32}\)"), r"? outputs folded; \1"),
    (re.compile(r"[\d,]+ records restored"), "? records restored"),
    (re.compile(r"20[2-9]\d-\d\d-\d\d \d\d:\d\d:\d\d[.\d]*Z"), "now"),
)
"""What depends on the machine and the hour."""


@pytest.fixture
def played(settings: KafkaSettings, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A shell in a process group of its own that runs the page's commands on the log of the test."""
    commands = [command for command in commands_of(PAGE.read_text(encoding="utf-8")) if command.output is not None]
    script = ["exec 2>&1"]
    for number, command in enumerate(commands):
        text = bare(command.text).replace("localhost:9092", settings.bootstrap_servers)
        text = text.replace(SECOND, settings.topic_prefix + SECOND)
        script += [f"printf '\\n<<%d>>\\n' {number}", text, "printf '\\n<<=%d>>\\n' $?"]
    environment = prepared(tmp_path) | {"KAFKA_TOPIC_PREFIX": settings.topic_prefix}
    process = subprocess.Popen(
        ["bash", "-c", "\n".join(script)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    asyncio.run(delete_topics(settings.model_copy(update={"topic_prefix": settings.topic_prefix + SECOND})))


@pytest.mark.slow  # as the commands of all pages of docs are
def test_the_commands_of_the_page_do_what_it_shows(played: subprocess.Popen[str], settings: KafkaSettings) -> None:
    page = PAGE.read_text(encoding="utf-8")
    commands = [command for command in commands_of(page) if command.output is not None]
    printed, _ = played.communicate(timeout=LIMIT)
    found = PARTS.findall("\n" + printed)
    assert len(found) == len(commands), printed
    for number, output, code in found:
        command = commands[int(number)]
        text = output.replace(settings.topic_prefix, "").replace(settings.bootstrap_servers, "localhost:9092").strip("\n")
        command.real = [line.rstrip() for line in text.splitlines()]
        assert code == "0", f"{command.text}\n{output}"
    if os.environ.get("LAHAR_WRITE_PAGES"):
        PAGE.write_text(written_anew(page, commands), encoding="utf-8")
    for command in commands:
        if command.output:
            assert agrees(stable(command.output), stable(command.real)), f"{command.text}\n" + "\n".join(command.real)


def stable(lines: list[str]) -> list[str]:
    text = "\n".join(lines)
    for changing, instead in CHANGING:
        text = changing.sub(instead, text)
    return text.splitlines()


def rows(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading."""
    part = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("| `")]
    assert found
    return found


def test_the_page_names_every_setting_with_its_default() -> None:
    expected = {}
    for name, field in KafkaSettings.model_fields.items():
        default = field.default
        text = str(default).lower() if isinstance(default, bool) else f"{default:g}" if isinstance(default, float) else default
        expected[f"`KAFKA_{name.upper()}`"] = f"`{text}`" if text else ""
    assert {name: default for name, default, _ in rows("Settings")} == expected


def test_the_page_names_every_topic_as_it_is_declared() -> None:
    expected = {}
    for topic, kept in TOPICS.items():
        time = "for good" if kept.retention < 0 else f"{kept.retention // 86_400_000} d"
        how = "the last of each key" if kept.cleanup == "compact" else time
        expected[f"`{topic}`"] = ["one" if topic in SINGLE_TOPICS else "as given", kept.cleanup, how]
    assert {name: [partitions, cleanup, how] for name, partitions, _, cleanup, how, _ in rows("Topics")} == expected
