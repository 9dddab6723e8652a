"""Export and import give a log back to the last bit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_inputs import inputs

from engine.events import Message, raw_message
from engine.history.errors import TransferError
from engine.history.export_lines import Contents, contents_of, read_line, record_line
from engine.history.reading import events_of, job_events
from engine.history.transfer import export_job, export_log, import_log
from engine.history.verify import verify_shard
from engine.lifecycle import INPUTS
from engine.lifecycle.stage import LifecycleStage
from engine.log.errors import LogUnavailableError
from engine.log.memory import MemoryLog
from engine.log.port import Partition, Record
from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor

TOPICS = ("cluster", "jobs", "pods", "job-events", "dead-letters")
STAGES = {"lifecycle": LifecycleStage()}


def records(log):
    return [record._replace(size=0) for record in log.scan(TOPICS)]  # which each kind of log counts in its own way


def quiet(log, number=0):
    """Let a shard go on; return how much there was to do and where it stands."""
    processor = Processor(log, LifecycleStage(), number)
    processor.open()
    return processor.run_until_quiet(), processor.position


@pytest.mark.parametrize("partitions", [1, 3])
def test_everything_comes_back_as_it_was(played, tmp_path, partitions):
    """Same records, same offsets, same metadata, in a log of another kind; nothing is left to do there."""
    log = played(80, partitions)
    log.append("pods", [raw_message("k", b"\xff garbage \n", 5)])
    assert quiet(log, Partition("pods", 0).number) is not None
    for number in range(partitions):
        quiet(log, number)
    copy = SqliteLog(tmp_path / "copy.db", partitions)
    lines = list(export_log(log))
    assert import_log(copy, lambda: lines, STAGES) == len(lines) - 2 == len(records(log))
    assert records(copy) == records(log)
    for number in range(partitions):
        assert quiet(copy, number) == quiet(log, number) == (0, quiet(log, number)[1])
    assert list(export_log(copy)) == lines
    copy.close()


def test_every_line_is_a_cloudevent(played):
    for line in export_log(played(10)):
        fields = json.loads(line)
        assert fields["specversion"] == "1.0"
        assert fields["id"]
        assert fields["source"]
        assert fields["type"]
        assert all(name.isalnum() and name == name.lower() for name in fields if name != "data_base64")


def test_one_job_comes_back_and_goes_on(played):
    """Its history is the same, and what is already known of it is known there too."""
    log = played(40)
    job = next(event.subject for event in job_events(log) if event.type == "lahar.job.opened.v1")
    copy = MemoryLog()
    import_log(copy, lambda: export_job(log, job), STAGES)
    assert events_of(copy, job) == events_of(log, job)
    assert {record.message.key for record in copy.scan(TOPICS)} == {job}
    assert quiet(copy)[0] == 0
    copy.append("pods", [next(log.records_of(job, ("pods",))).message])
    quiet(copy)
    assert [event.type for event in job_events(copy)][len(events_of(log, job)) :] == ["lahar.shard.accounted.v1"]


def test_prefix_in_time_is_a_log_of_its_own(played):
    log = played(40)
    middle = records(log)[len(records(log)) // 2].message.recordedtime
    copy = MemoryLog()
    import_log(copy, lambda: export_log(log, last=middle), STAGES)
    assert records(copy) == [record for record in records(log) if record.message.recordedtime <= middle]


def test_range_is_for_reading(played):
    """Its inputs are not decided again, though the outputs that followed from them have no beginning."""
    log = played(40)
    found = records(log)
    first, last = found[len(found) // 3].message.recordedtime, found[len(found) // 2].message.recordedtime
    copy = MemoryLog()
    import_log(copy, lambda: export_log(log, first, last), STAGES)
    expected = [record.message for record in found if first <= record.message.recordedtime <= last]
    assert [record.message for record in records(copy)] == expected
    assert quiet(copy)[0] == 0


def test_range_keeps_each_record_on_its_topic():
    """A shard writes to several topics, one record behind the other."""
    log = MemoryLog()
    for topic, message in inputs(20):
        log.append(topic, [message])
    quiet(log)
    copy = MemoryLog()
    import_log(copy, lambda: export_log(log, 1), STAGES)
    found = [(record.partition, record.message) for record in records(log)]
    assert {"job-events", "dead-letters"} <= {partition.topic for partition, _ in found}
    assert [(record.partition, record.message) for record in records(copy)] == found


def test_progress_is_told(played):
    lines = list(export_log(played(10)))
    told: list[int] = []
    import_log(MemoryLog(), lambda: lines, STAGES, told.append)
    assert told == [len(lines) - 2]


def test_head_tells_what_follows(played):
    log = played(5, 2)
    assert contents_of(next(export_log(log))) == Contents("everything", 2)
    assert contents_of(next(export_log(log, 1, 2))) == Contents("range", 2, "1..2")
    assert contents_of(next(export_job(log, "j"))) == Contents("job", 2, "j")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"type":"lahar.job.opened.v1","data":{}}',
        b'{"type":"lahar.log.exported.v1","data":{"x":1}}',
        b'{"type":"lahar.log.exported.v1","data":{"scope":"some","partitions":1}}',
        b'{"type":"lahar.log.exported.v1","data":{"scope":"everything","partitions":0}}',
        b'{"type":"lahar.log.exported.v1","data":{"scope":"everything","partitions":"3"}}',
        b'{"type":"lahar.log.exported.v1","data":{"scope":"everything","partitions":1000000000}}',
    ],
)
def test_file_that_is_no_export(line):
    with pytest.raises(TransferError, match="the first line is not that of an export"):
        import_log(MemoryLog(), lambda: [line], STAGES)


def test_log_must_be_empty_and_of_the_same_shape(played):
    log = played(5)
    lines = list(export_log(log))
    with pytest.raises(TransferError, match="not empty"):
        import_log(log, lambda: lines, STAGES)
    with pytest.raises(TransferError, match="the export has 1 partitions a topic, the log has 2"):
        import_log(MemoryLog(2), lambda: lines, STAGES)


@pytest.mark.parametrize(
    "broken",
    [
        b"{",
        b'{"type":"x"}',
        b'{"type":"lahar.log.export_ended.v1","data":[1]}',
        b"[]",
        b'{"specversion":"1.0","id":"i","source":"s","type":"t","topic":"snapshots","partition":0,"offset":0}',
    ],
)
def test_broken_line_is_named(played, broken):
    lines = list(export_log(played(5)))
    copy = MemoryLog()
    with pytest.raises(TransferError, match=r"line 4 cannot be read: .*nothing is restored"):
        import_log(copy, lambda: [*lines[:3], broken, *lines[3:]], STAGES)
    assert records(copy) == []


@pytest.mark.parametrize("kept", [1, 2, 10, -1])
def test_file_that_was_cut_off_is_no_whole_export(played, kept):
    """Cut between two lines it could not be told from a whole one, and what follows would be decided anew."""
    lines = list(export_log(played(5)))[:kept]
    with pytest.raises(TransferError, match=f"is incomplete, its last line is missing after {len(lines) - 1}: nothing is restored"):
        import_log(MemoryLog(), lambda: lines, STAGES)


class FullLog(MemoryLog):
    """A log whose disk is full after some records."""

    def append(self, topic, messages):
        if self.end(Partition("jobs", 0)) > 10:
            raise LogUnavailableError("the disk is full")
        super().append(topic, messages)


def test_a_log_that_an_import_did_not_fill_is_not_verified(played):
    log = played(40)
    whole, part = MemoryLog(), FullLog()
    import_log(whole, lambda: export_log(log), STAGES)
    with pytest.raises(LogUnavailableError):
        import_log(part, lambda: export_log(log), STAGES)
    assert verify_shard(whole, LifecycleStage(), 0).ok
    assert records(part)
    verdict = verify_shard(part, LifecycleStage(), 0)
    assert not verdict.ok
    assert "the import of this log was cut off: import again, into a new log" in verdict.sentence()


def test_inputs_that_were_lost_on_the_way_are_missed(played):
    lines = list(export_log(played(5)))
    lost = next(place for place, line in enumerate(lines) if json.loads(line).get("topic") == "pods")
    with pytest.raises(
        TransferError, match=f"its last line counts {len(lines) - 2} records after {len(lines) - 3}: nothing is restored"
    ):
        import_log(MemoryLog(), lambda: lines[:lost] + lines[lost + 1 :], STAGES)


def test_output_that_was_lost_on_the_way_is_named(played):
    lines = list(export_log(played(5)))
    lost = [place for place, line in enumerate(lines) if json.loads(line).get("shard")][3]
    with pytest.raises(TransferError, match=r"this is output 5 of lifecycle/0, but output 4 is missing"):
        import_log(MemoryLog(), lambda: lines[:lost] + lines[lost + 1 :], STAGES)


def test_nothing_stands_behind_the_end(played):
    lines = list(export_log(played(5)))
    with pytest.raises(TransferError, match="follows the last line of the export"):
        import_log(MemoryLog(), lambda: [*lines, *lines[1:]], STAGES)


@pytest.mark.parametrize(
    "change",
    [
        {"shard": "lifecycle/7"},
        {"shard": "lifecycle/x"},
        {"shard": "lifecycle"},
        {"basis": "1.2"},
        {"basis": "1.2.3.4.5"},
        {"basis": "1.2.-3"},
        {"basis": "a"},
        {"offset": 2**63},
        {"offset": None},
        {"partition": 1},
        {"partition": -1},
        {"shardsequence": "x"},
    ],
)
def test_output_with_damaged_metadata_is_named(played, tmp_path, change):
    lines = list(export_log(played(5)))
    place = next(place for place, line in enumerate(lines) if json.loads(line).get("shard"))
    lines[place] = json.dumps(json.loads(lines[place]) | change).encode()
    copy = SqliteLog(tmp_path / "copy.db")
    with pytest.raises(TransferError, match=f"line {place + 1} cannot be read"):
        import_log(copy, lambda: lines, STAGES)
    assert records(copy) == []
    copy.close()


class EarlierStage(LifecycleStage):
    """As of a release that took no decisions."""

    inputs = INPUTS[:3]  # type: ignore[assignment]


def test_a_log_of_a_release_that_took_no_decisions_goes_on_and_is_restored(played, tmp_path):
    waiting = MemoryLog()
    for record in played(30).scan(("jobs", "pods")):
        waiting.append(record.partition.topic, [record.message])
    earlier = Processor(waiting, EarlierStage(), 0, batch=10)
    earlier.open()
    earlier.step()
    earlier.close()
    assert {len(record.basis) for record in waiting.scan(("job-events",))} == {3}
    later = Processor(waiting, LifecycleStage(), 0)
    later.open()
    later.run_until_quiet()
    later.close()
    assert {len(record.basis) for record in waiting.scan(("job-events",))} == {3, 4}
    assert verify_shard(waiting, LifecycleStage(), 0).ok
    copy = SqliteLog(tmp_path / "copy.db")
    import_log(copy, lambda: export_log(waiting), STAGES)
    assert [record.message for record in copy.scan(("job-events",))] == [record.message for record in waiting.scan(("job-events",))]
    copy.close()


@pytest.mark.parametrize("change", [{"time": 2**70}, {"sequence": "1"}, {"key": None}, {"data": "?"}, {"more": 1}])
def test_kept_record_that_is_damaged_is_named(played, change):
    log = played(5)
    log.append("pods", [raw_message("k", b"\xff", 5)._replace(id="x", key="é")])
    lines = list(export_log(log))
    place = next(place for place, line in enumerate(lines) if json.loads(line)["type"] == "lahar.record.kept.v1")
    fields = json.loads(lines[place])
    fields["data"] |= change
    lines[place] = json.dumps(fields).encode()
    with pytest.raises(TransferError, match=f"line {place + 1} cannot be read"):
        import_log(MemoryLog(), lambda: lines, STAGES)


def test_output_of_an_unknown_stage(played):
    with pytest.raises(TransferError, match="outputs of lifecycle/0, a stage that this release does not have"):
        import_log(MemoryLog(), lambda: export_log(played(5)), {})


texts = st.text(max_size=8)
messages = st.builds(
    Message,
    key=texts,
    id=texts,
    source=texts,
    type=texts | st.sampled_from(["lahar.record.kept.v1", "lahar.job.opened.v1"]),
    subject=texts,
    time=st.integers(-(10**18), 10**18),
    recordedtime=st.integers(0, 10**15),
    sequence=st.integers(0, 10**6),
    correlationid=texts,
    causationid=texts,
    clusterid=texts,
    data=st.binary(max_size=20) | st.sampled_from([b"{}", b'{"a": 1.0}', b'{"a":1e5}', '{"a":"é"}'.encode(), b'{"a":1,"a":2}']),
)


@given(messages, st.integers(0, 9), st.integers(0, 10**9), st.booleans())
def test_any_record_survives(message, number, offset, written):
    """Whatever bytes and attributes a message has, its line is one line and gives it back."""
    metadata = ("lifecycle/1", 7, (1, 0, 22)) if written else ("", 0, ())
    record = Record(Partition("pods", number), offset, message, *metadata)
    line = record_line(record)
    assert b"\n" not in line
    assert read_line(line) == record
