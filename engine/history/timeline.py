"""The timeline of a job as terminal text: one line per job, task and attempt, one column per slice of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.text import Text

from engine.events import Data, Event
from engine.events.times import format_time
from engine.formatting import length, moment
from engine.history.fold import Interval, Track, fold, tracks
from engine.history.view import JobView, attempt_name

_GLYPHS: Final[dict[str, tuple[str, str]]] = {
    "Waiting": ("·", "dim"),
    "Pending": ("·", "yellow"),
    "Privileged": ("◇", "yellow"),
    "Bound": ("░", "cyan"),
    "Running": ("█", "green"),
    "WillEvicted": ("▓", "magenta"),
    "Restarting": ("↻", "magenta"),
    "Terminating": ("▒", "magenta"),
    "Aborting": ("▒", "magenta"),
    "Completing": ("▒", "green"),
    "Succeeded": ("✓", "bold green"),
    "Completed": ("✓", "bold green"),
    "Failed": ("✗", "bold red"),
    "Lost": ("?", "bold red"),
    "Aborted": ("■", "bold"),
    "Terminated": ("■", "bold"),
}
"""Character, one column wide, and style of each phase."""

_CLOSING: Final = frozenset({"Succeeded", "Completed", "Failed", "Lost", "Terminated"})
"""Phases drawn as one mark at their beginning."""

_NARROWEST: Final = 10
_PHASES: Final = 12
"""Maximum number of phases of the job written with their times: the last ones."""


@dataclass(slots=True)
class Timeline:
    """The tracks to draw. Times are microseconds."""

    job: JobView
    tracks: list[Track]
    start: int
    end: int
    """Latest start of a phase."""

    def document(self) -> dict[str, Any]:
        """Return the timeline as JSON."""
        return {
            "job": self.job.id,
            "start": format_time(self.start),
            "end": format_time(self.end),
            "tracks": [
                {
                    "level": track.level,
                    "task": track.task,
                    "index": track.index,
                    "attempt": track.attempt,
                    "exit_code": track.exit_code,
                    "intervals": [
                        {
                            "phase": interval.phase,
                            "reason": interval.reason,
                            "from": format_time(interval.start),
                            "to": None if interval.end is None else format_time(interval.end),
                            "event": interval.event,
                        }
                        for interval in track.intervals
                    ],
                }
                for track in self.tracks
            ],
        }


def timeline(events: Iterable[Event[Data]]) -> Timeline | None:
    """Return the timeline of a job from all its events, in order; `None` if it was never opened."""
    known = list(events)
    job = fold(known)
    if job is None:
        return None
    found = tracks(known)
    begins = [interval.start for track in found for interval in track.intervals]
    return Timeline(job, found, min(begins), max(begins))


def draw(line: Timeline, width: int) -> list[Text]:
    """Draw a timeline.

    Args:
        line: the timeline.
        width: columns of the terminal; bars fit, unless the names leave no room.

    Returns:
        Lines with styles; `.plain` is the text alone.
    """
    labels = [_label(line.tracks, place) for place in range(len(line.tracks))]
    ends = [_end(track) for track in line.tracks]
    left = max(map(len, labels)) + 1
    right = max(map(len, ends)) + 1
    bar = max(width - left - right, _NARROWEST)
    job = line.job
    lines = [
        Text.assemble((f"{job.namespace}/{job.name}", "bold"), f"  {job.kind}  queue {job.queue}  ", _styled(job.phase)),
        Text(f"{job.id}", style="dim"),
        _axis(line, left, bar),
    ]
    bars = [_bar(track, line, bar) for track in line.tracks]
    for label, track, drawn, end in zip(labels, line.tracks, bars, ends, strict=True):
        phase = track.intervals[-1].phase
        lines.append(Text.assemble(label.ljust(left), drawn, " ", (end, _GLYPHS[phase][1])))
    lines.append(_legend(line.tracks, {glyph for drawn in bars for glyph in drawn.plain}))
    lines.append(_phases(line.tracks[0]))
    return lines


def _styled(phase: str) -> tuple[str, str]:
    return phase, _GLYPHS[phase][1]


def _label(all_tracks: Sequence[Track], place: int) -> str:
    """Return the track's name as a branch of the tree of job, tasks and attempts."""
    track = all_tracks[place]
    if track.task is None:
        return "job"
    later = all_tracks[place + 1 :]
    last_task = not any(other.level == "task" for other in later)
    if track.index is None or track.attempt is None:
        return f"{'└' if last_task else '├'} {track.task}"
    last = not later or later[0].level == "task"
    return f"{' ' if last_task else '│'} {'└' if last else '├'} {attempt_name(track.task, track.index, track.attempt)}"


def _end(track: Track) -> str:
    """Return the current phase in words, with reason and exit code; for an ended attempt, also its run time."""
    last = track.intervals[-1]
    words = [last.phase]
    if last.reason and last.reason != last.phase:
        words.append(last.reason)
    if track.exit_code:
        words.append(f"exit {track.exit_code}")
    ran = sum(i.end - i.start for i in track.intervals if i.phase in {"Running", "Terminating"} and i.end is not None)
    if track.level == "replica" and last.phase in _CLOSING and ran:
        words.append(f"({length(ran)})")
    return " ".join(words)


def _axis(line: Timeline, left: int, bar: int) -> Text:
    start, end = moment(line.start), moment(line.end)
    middle = f"({length(line.end - line.start)})"
    if len(start) + len(middle) + len(end) + 2 > bar:
        return Text(f"{start} … {end} {middle}", style="dim")
    space = bar - len(start) - len(end)
    return Text(" " * left + start + middle.center(space) + end, style="dim")


def _phases(track: Track) -> Text:
    """Write a job's phases with their times; a short phase may be narrower than a column."""
    intervals = track.intervals[-_PHASES:]
    text = Text("" if len(intervals) == len(track.intervals) else "… → ", style="dim")
    day = ""
    for interval in intervals:
        date, _, clock = moment(interval.start).rstrip("Z").partition(" ")
        text.append(" → " if interval is not intervals[0] else "")
        text.append(*_styled(interval.phase))
        text.append(f" {clock}" if date == day else f" {date} {clock}")
        day = date
    return text


def _bar(track: Track, line: Timeline, width: int) -> Text:
    """Draw one track. A column shows the last phase that begins in it, else the one that continues through it."""
    span = max(line.end - line.start, 1)
    cells = [" "] * width
    styles = [""] * width
    for interval in track.intervals:
        first = _column(interval.start, line.start, span, width)
        glyph, style = _GLYPHS[interval.phase]
        last = first if interval.phase in _CLOSING else _last_column(interval, line, span, width)
        for column in range(first, last + 1):
            cells[column], styles[column] = glyph, style
        if interval.phase in _CLOSING:
            # A later phase is drawn over the blank, if the replica went on after all.
            cells[first + 1 :] = [" "] * (width - first - 1)
    text = Text()
    for cell, style in zip(cells, styles, strict=True):
        text.append(cell, style)
    return text


def _column(time: int, start: int, span: int, width: int) -> int:
    return min((time - start) * width // span, width - 1)


def _last_column(interval: Interval, line: Timeline, span: int, width: int) -> int:
    end = line.end if interval.end is None else interval.end
    return _column(max(end - 1, interval.start), line.start, span, width)


def _legend(all_tracks: Iterable[Track], drawn: set[str]) -> Text:
    """Return the meaning of each character drawn."""
    used = {interval.phase for track in all_tracks for interval in track.intervals}
    names: dict[tuple[str, str], list[str]] = {}
    for phase, (glyph, style) in _GLYPHS.items():
        if phase in used and glyph in drawn:
            names.setdefault((glyph, style), []).append(phase)
    text = Text()
    for (glyph, style), phases in names.items():
        text.append("  " if text else "")
        text.append(glyph, style)
        text.append(f" {', '.join(phases)}", "dim")
    return text
