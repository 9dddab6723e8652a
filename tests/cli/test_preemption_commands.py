"""Notices of preemption by command: what is listed and shown, and the answers to them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

STORY = Path(__file__).parents[2] / "examples" / "short-notice"
LATER = "2026-03-09T10:02:00"


@pytest.fixture
def noticed(lahar, monkeypatch):
    """The command, where the training of the story has been given notice."""
    monkeypatch.setenv("LAHAR_CONFIG", str(STORY / "lahar.toml"))
    monkeypatch.setenv("LAHAR_SCHEDULER_CONFIG", str(STORY / "scheduler.yaml"))
    commands = [line for line in (STORY / "play.sh").read_text().splitlines() if line.startswith("lahar ")]
    for line in commands[: next(at for at, line in enumerate(commands) if " preemptions " in line)]:
        lahar(*(str(STORY / word) if (STORY / word).is_file() else word for word in shlex.split(line)[1:]))
    return lahar


def test_an_open_notice_is_listed_with_its_jobs(noticed):
    (notice,) = noticed("preemptions", "list", "--json").records
    assert (notice["notice"], notice["state"], notice["deadline"]) == ("prod-1/9", "Open", "2026-03-09T10:05:03.000000Z")
    assert notice["preemptor"]["name"] == "nlp/release-check"
    assert [(victim["name"], victim["state"]) for victim in notice["victims"]] == [("nlp/train", "told")]
    assert noticed("preemptions", "list", "--queue", "other", "--json").records == []
    assert noticed("preemptions", "show", "prod-1/9", "--json").record == notice


def test_a_withdrawn_notice_is_listed_only_if_all_are(noticed):
    noticed("preemptions", "withdraw", "prod-1/9", "--by", "ann", "--reason", "it can wait", "--at", LATER)
    assert noticed("preemptions", "list", "--json").records == []
    (notice,) = noticed("preemptions", "list", "--all", "--json").records
    assert (notice["state"], notice["change"]) == ("Withdrawn", "WithdrawCommanded")
    assert [victim["state"] for victim in notice["victims"]] == ["spared"]
    assert noticed("job", "show", "nlp/train", "--json").record["phase"] == "Running"
    assert "withdrawn (WithdrawCommanded); nlp/train spared" in noticed("preemptions", "show", "prod-1/9").out


def test_an_acknowledgement_by_command_stops_the_job(noticed):
    noticed("preemptions", "ack", "nlp/train", "--by", "ann", "--at", LATER)
    assert noticed("preemptions", "show", "prod-1/9", "--json").record["change"] == "Acknowledged"
    assert noticed("job", "show", "nlp/train", "--json").record["phase"] == "Restarting"


def test_why_names_the_other_side(noticed):
    assert "It is to be stopped at 2026-03-09 10:05:03Z for nlp/release-check (notice prod-1/9)." in noticed("why", "nlp/train").out
    answer = noticed("why", "nlp/release-check", "--json").record
    assert answer["notice"]["notice"] == "prod-1/9"
    assert answer["advice"] == ["NoticeGiven: wait, or take it back: `lahar preemptions withdraw prod-1/9`"]


def test_a_notice_that_does_not_exist_is_not_found(noticed):
    assert noticed("preemptions", "show", "prod-1/1", code=3).err.startswith("lahar: no notice 'prod-1/1'")
    assert noticed("preemptions", "withdraw", "prod-1/1", code=3).err.startswith("lahar: no notice 'prod-1/1'")


def test_a_notice_that_has_ended_is_not_withdrawn_again(noticed):
    """The command is about the preemptor, which another notice may have by then."""
    noticed("preemptions", "withdraw", "prod-1/9", "--at", LATER)
    again = noticed("preemptions", "withdraw", "prod-1/9", "--at", LATER, code=2)
    assert "notice prod-1/9 has ended: Withdrawn (WithdrawCommanded)" in again.err
