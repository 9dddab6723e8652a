"""A page of the file is torn: an export saves all that stands on others, and names what it leaves out."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from counting_stage import CountingStage, custom

from engine.history.readable_records import Damage
from engine.history.transfer import export_job, export_log, import_log
from engine.log.errors import LogDamagedError, LogError
from engine.log.port import Partition
from engine.log.sqlite import SqliteLog
from engine.log.torn_pages import unreadable
from engine.processor.processor import Processor

PAGE = 4096
GARBAGE = {"garbage": bytes(range(255, -1, -1)) * 16, "zeros": bytes(PAGE)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed log of some hundred pages: 900 inputs on two topics, and their outputs."""
    path = tmp_path_factory.mktemp("whole") / "lahar.db"
    with closing(SqliteLog(path)) as log:
        for number in range(300):
            log.append("jobs", [custom(f"key{number % 7}", number, "add", at=number, padding="x" * 200)])
            log.append("jobs", [custom(f"other{number}", number, "add", at=number) for _ in range(2)])
        processor = Processor(log, CountingStage())
        processor.open()
        processor.run_until_quiet()
        processor.close()
        log.append("jobs", [custom("late", 1, "add", at=900)])
    return path


def records(lines: list[bytes]) -> dict[tuple[str, int], bytes]:
    """Lines of records by topic and offset."""
    found = [json.loads(line) for line in lines]
    return {(event["topic"], event["offset"]): line for event, line in zip(found, lines, strict=True) if "topic" in event}


def exported(path: Path) -> tuple[list[bytes], list[Damage]]:
    with closing(SqliteLog(path, readonly=True)) as log:
        damages: list[Damage] = []
        return list(export_log(log, on_damage=damages.append)), damages


def torn(whole: Path, copy: Path, page: int, content: bytes) -> Path:
    shutil.copy(whole, copy)
    with copy.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(content)
    return copy


def root(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as file:
        return int(file.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[0])


@pytest.mark.parametrize("kind", GARBAGE)
def test_whatever_page_is_torn_all_other_records_are_saved(whole: Path, tmp_path: Path, kind: str) -> None:
    before = records(exported(whole)[0])
    pages = whole.stat().st_size // PAGE
    ranges = opened = 0
    for page in range(2, pages + 1, 3):
        copy = torn(whole, tmp_path / f"{page}.db", page, GARBAGE[kind])
        try:
            lines, damages = exported(copy)
        except LogError:
            continue  # the tables of the log itself
        opened += 1
        left = {(damage.partition.topic, damage.offset + at) for damage in damages for at in range(damage.records)}
        kept = records(lines)
        assert before.keys() - left <= kept.keys() <= before.keys(), "nothing is left out that is not named"
        assert all(line == before[place] for place, line in kept.items())
        ranges += any(damage.records > 1 for damage in damages)
    assert opened > pages // 4
    assert ranges > pages // 10


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_a_torn_last_page_is_told_to_its_end(whole: Path, tmp_path: Path, content: bytes) -> None:
    """How far the partition goes cannot be asked then."""
    for page in range(whole.stat().st_size // PAGE, 1, -1):
        copy = torn(whole, tmp_path / "copy.db", page, content)
        with closing(SqliteLog(copy, readonly=True)) as log:
            try:
                log.end(Partition("jobs", 0))
            except LogDamagedError:
                break
    _, damages = exported(copy)
    (last,) = damages
    assert (last.partition.topic, last.offset + last.records) == ("jobs", 901)
    assert 0 < last.records < 50


def test_a_torn_root_leaves_out_one_topic(whole: Path, tmp_path: Path) -> None:
    copy = torn(whole, tmp_path / "copy.db", root(whole, "jobs/0"), GARBAGE["garbage"])
    lines, damages = exported(copy)
    assert [(str(damage).split(":")[0], damage.records) for damage in damages] == [("jobs/0 from 0 to 900", 901)]
    assert {topic for topic, _ in records(lines)} == {"job-events"}


def test_what_was_saved_can_be_imported_and_goes_on(whole: Path, tmp_path: Path) -> None:
    for page in range(2, whole.stat().st_size // PAGE, 7):
        copy = torn(whole, tmp_path / "copy.db", page, GARBAGE["garbage"])
        try:
            lines, damages = exported(copy)
        except LogError:
            continue
        if not damages or any(damage.records > 200 for damage in damages):
            continue
        with closing(SqliteLog(tmp_path / f"new{page}.db")) as log:
            stage = CountingStage()
            assert import_log(log, lambda lines=lines: lines, {stage.name: stage}) == len(records(lines))
            processor = Processor(log, stage)
            processor.open()
            processor.run_until_quiet()
            assert list(records(list(export_log(log))))


def test_a_job_is_exported_without_a_torn_index(whole: Path, tmp_path: Path) -> None:
    copy = torn(whole, tmp_path / "copy.db", root(whole, "job-events/0 by key"), GARBAGE["zeros"])
    with closing(SqliteLog(whole, readonly=True)) as log:
        before = list(export_job(log, "key3"))
    with closing(SqliteLog(copy, readonly=True)) as log:
        damages: list[Damage] = []
        assert (list(export_job(log, "key3", damages.append)), damages) == (before, [])
    assert len(before) > 10


@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize("bad", [set(), {0}, {9}, {3, 4, 5}, {3, 5}, set(range(10)), {0, 9}])
def test_the_first_range_is_found(bad: set[int], chunk: int) -> None:
    def read(start: int, count: int) -> int:
        if bad & set(range(start, start + count)):
            raise LogDamagedError("torn")
        return count

    found = unreadable(read, 0, 10, chunk)
    first = min(bad, default=10)
    behind = next(offset for offset in range(first, 11) if offset not in bad)
    assert found == (range(first, behind) if bad else None)
