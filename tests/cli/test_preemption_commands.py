"""Notices of preemption by command: what is listed and shown, and the answers to them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

STORY = Path(__file__).parents[2] / "examples" / "short-notice"
LATER = "2026-03-09T10:02:00"


PRICES = """
apiVersion: lahar.dev/v1
kind: PriceBook
metadata: {name: prices}
spec:
  currency: EUR
  versions:
  - {version: "1", from: "2026-01-01", prices: {gpu_seconds: {"*": "0.5"}}, bill_reserved: true}
"""


@pytest.fixture
def play(lahar, monkeypatch):
    """Play the story, up to a command with some words or to its end; returns the command."""
    monkeypatch.setenv("LAHAR_CONFIG", str(STORY / "lahar.toml"))
    monkeypatch.setenv("LAHAR_SCHEDULER_CONFIG", str(STORY / "scheduler.yaml"))
    commands = [line for line in (STORY / "play.sh").read_text().splitlines() if line.startswith("lahar ")]

    def played(until=None):
        for line in commands:
            if until is not None and until in line:
                break
            lahar(*(str(STORY / word) if (STORY / word).is_file() else word for word in shlex.split(line)[1:]))
        return lahar

    return played


@pytest.fixture
def noticed(play):
    """The command, where the training of the story has been given notice."""
    return play(until=" preemptions ")


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


def test_an_acknowledgement_of_another_notice_is_refused(noticed):
    refused = noticed("preemptions", "ack", "nlp/train", "--notice", "prod-1/3", "--at", LATER, code=2)
    assert "the job is part of notice prod-1/9; the answer is to prod-1/3" in refused.err
    assert noticed("preemptions", "show", "prod-1/9", "--json").record["state"] == "Open"
    noticed("preemptions", "ack", "nlp/train", "--notice", "prod-1/9", "--at", LATER)
    assert noticed("preemptions", "show", "prod-1/9", "--json").record["change"] == "Acknowledged"


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


def test_the_bill_shows_preemption_waste_and_places_kept_for_the_job(lahar, play, tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    lahar("apply", str(prices), "--at", "2026-03-01T00:00:00")
    play()
    lahar("job", "command", "nlp/release-check", "TerminateJob", "--at", "2026-03-09T11:30:00")  # behind an hour mark
    records = [one for one in lahar("billing", "records", "--json").records if one["meter"] == "gpu_seconds"]
    (kept,) = [one for one in records if one["class"] == "reserved"]
    bound = next(one for one in lahar("history", "nlp/release-check", "--json").records if one["type"] == "lahar.attempt.bound.v1")
    assert (kept["kind"], kept["start"], kept["end"]) == ("reserved", "2026-03-09T10:02:01.000000Z", bound["time"])
    assert kept["job"] == "c94d6b12-8e7f-4a30-b5d1-02f6e3a97c88"
    assert {one["job"] for one in records if one["class"] == "preempted"} == {"7e0f2a94-53c1-4d8b-9f26-b0a8d1c47e35"}
    heading, *_ = lahar("billing", "invoice").out.splitlines()
    assert heading.split() == [
        "PERIOD",
        "TENANT",
        "JOBS",
        "GPU",
        "HOURS",
        "WASTED",
        "PREEMPTED",
        "RESERVED",
        "CPU",
        "HOURS",
        "TOTAL",
    ]
    assert lahar("billing", "verify").out.startswith("verify: ok")
