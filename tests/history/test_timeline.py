"""The timeline as it is drawn."""

from __future__ import annotations

import pytest

from engine.events.times import SECOND
from engine.formatting import length, moment
from engine.history.timeline import draw, timeline

GOLDEN = """\
default/bert  VCJob  queue research  Completed
6f1c0d7e-0000-5000-8000-000000000001
                1970-01-01 00:00:00Z      (16 min 40 s)      1970-01-01 00:16:40Z
job             ·███████████████████████████████████████████████████████████████✓ Completed
├ ps            ·███████████████████████████████████████████████████████████████✓ Completed
│ └ ps[0]#1     ·███████████████████████████████████████████████████████████████✓ Succeeded (16 min 10 s)
└ worker        ·██████████████████↻████████████████████████████████████████████✓ Completed
  ├ worker[0]#1 ·███████████████████████████████████████████████████████████████✓ Succeeded (16 min 10 s)
  ├ worker[1]#1 ·██████████████████✗                                              Failed OomKilled exit 137 (4 min 30 s)
  └ worker[1]#2                    ·████████████████████████████████████████████✓ Succeeded (11 min 20 s)
· Pending  █ Running  ↻ Restarting  ✓ Succeeded, Completed  ✗ Failed
Pending 1970-01-01 00:00:00 → Running 00:00:30 → Completed 00:16:40
"""


def test_timeline_of_a_restarted_training(training):
    drawn = draw(timeline(training.events), 120)
    assert "\n".join(text.plain.rstrip() for text in drawn) + "\n" == GOLDEN


@pytest.mark.parametrize("width", [20, 60, 80, 133, 200])
def test_bars_keep_to_the_width(training, width):
    """Every bar has the same room, and the lines fit unless the names leave none."""
    bars = [text.plain for text in draw(timeline(training.events), width)[3:-2]]
    assert len({len(line) - len(line.partition(" Completed")[2]) for line in bars if line.endswith(" Completed")}) == 1
    assert width < 70 or max(map(len, bars)) <= width


def test_timeline_of_one_moment(story):
    told = story()
    told.opened(5)
    told.started(5)
    told.ended(5, phase="Failed", reason="NeverStarted")
    told.job_phase("Terminated", 5)
    lines = [text.plain.split() for text in draw(timeline(told.events), 80)]
    assert lines[3] == ["job", "■", "Terminated"]
    assert lines[5] == ["└", "main[0]#1", "✗", "Failed", "NeverStarted"]


def test_job_that_still_runs_is_drawn_to_the_last_known_moment(story):
    told = story()
    told.opened(0)
    told.started(0)
    told.running(50)
    told.started(100, ("main", 1, 1))
    line = timeline(told.events)
    assert line.end == 100 * SECOND
    assert draw(line, 80)[5].plain.rstrip().endswith("█ Running")


def test_long_list_of_phases_shows_the_last_ones(story):
    told = story()
    told.opened(0)
    for second in range(1, 20):
        told.job_phase("Running" if second % 2 else "Pending", 86_390 + second)
    written = draw(timeline(told.events), 80)[-1].plain
    assert written.startswith("… → Pending 1970-01-01 23:59:58 → Running 23:59:59 → Pending 1970-01-02 00:00:00 → Running 00:00:01")
    assert written.count("→") == 12


def test_no_job_has_no_timeline():
    assert timeline([]) is None


def test_document_holds_every_interval(training):
    document = timeline(training.events).document()
    worker = document["tracks"][5]
    assert (worker["task"], worker["index"], worker["attempt"], worker["exit_code"]) == ("worker", 1, 1, 137)
    assert worker["intervals"][-1]["reason"] == "OomKilled"
    assert [interval["to"] is None for interval in worker["intervals"]] == [False, False, False, True]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1, "1 s"),
        (60, "1 min"),
        (3599, "59 min 59 s"),
        (3600, "1 h"),
        (3661, "1 h 1 min"),
        (90_000, "1 d 1 h"),
        (86_405, "1 d"),
    ],
)
def test_lengths_have_two_units_at_most(seconds, text):
    assert length(seconds * SECOND) == text


def test_fractions_are_kept_where_they_matter():
    assert length(250_000) == "0.25 s"
    assert moment(1_500_000) == "1970-01-01 00:00:01.500000Z"
    assert moment(SECOND) == "1970-01-01 00:00:01Z"
