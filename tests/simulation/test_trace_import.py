"""How the facts of a trace reach the log."""

from __future__ import annotations

import csv
import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import encode
from engine.events.inputs import JobObserved, PodObserved, RowUnreadable
from engine.events.times import SECOND, format_time, to_micros
from engine.simulation import TraceError, cluster_of, import_trace, sample_trace
from engine.simulation.traces.facts import Facts
from engine.simulation.traces.rows import BadRow, TraceRow, split
from statemachines.spec import Requests

STATUS = "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\n"
OPENB = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def story(events):
    """(seconds, fact) of each event."""
    told = []
    for event in events:
        data = event.data
        match data:
            case JobObserved():
                what = f"job {data.phase}"
            case PodObserved():
                what = f"pod {data.index} {data.phase}"
            case RowUnreadable():
                what = f"line {data.line} rejected"
        told.append((event.recordedtime // SECOND, what))
        assert event.time == event.recordedtime
    return told


def test_facts_of_a_gang(events):
    assert story(events("philly-status", STATUS + "0,1,8,0,2,5,10,0,Failed\n")) == [
        (5, "job None"),
        (5, "pod 0 Running"),
        (5, "pod 1 Running"),
        (15, "pod 0 Failed"),
        (15, "pod 1 Failed"),
        (15, "job Failed"),
    ]


def test_facts_of_a_pod_that_waited_and_of_one_that_never_started(events):
    content = OPENB + "p0,1,1,0,0,,LS,Running,10,20,12\np1,1,1,0,0,,LS,Pending,11,13,\n"
    assert story(events("openb", content)) == [
        (10, "job None"),
        (10, "pod 0 Pending"),
        (11, "job None"),
        (11, "pod 0 Pending"),
        (12, "pod 0 Running"),
        (13, "pod 0 Failed"),
        (13, "job Terminated"),
        (20, "pod 0 Failed"),
        (20, "job Terminated"),
    ]


def test_rejected_row_stands_at_its_time(events):
    told = story(events("philly-status", STATUS + "0,1,1,0,1,5,10,0,Pass\n1,1,1,0,0,2,10,0,Pass\n"))
    assert told == [(5, "job None"), (5, "pod 0 Running"), (7, "line 3 rejected"), (15, "pod 0 Succeeded"), (15, "job Completed")]


@pytest.mark.parametrize(
    ("row", "phase", "reason", "rank"),
    [
        ({"phase": "Completed"}, "Succeeded", None, "scheduler"),
        ({"phase": "Failed"}, "Failed", "AppFailed", "scheduler"),
        ({"phase": "Terminated"}, "Failed", "StoppedByUser", "scheduler"),
        ({"phase": "Terminated", "start": None}, "Failed", "NeverStarted", "scheduler"),
        ({"phase": "Terminated", "without_end": True}, "Lost", "EndUnknown", "inferred"),
    ],
)
def test_end_of_a_pod(row, phase, reason, rank):
    """No exit code is ever invented."""
    made = TraceRow(**{"line": 2, "key": "k", "name": "n", "submit": 0, "start": 0, "end": 0, "pods": [Requests()]} | row)
    from engine.events import decode

    end = next(
        e.data for e in map(decode, Facts([made], "openb", "c")) if isinstance(e.data, PodObserved) and e.data.ended is not None
    )
    assert (end.phase, end.reason, end.rank, end.exit_code, end.running) == (phase, reason, rank, None, made.start)


def test_identity_does_not_depend_on_position(events):
    """The same row elsewhere in the file keeps its job, its pods and the ids of its facts."""
    alone = events("openb", OPENB + "p1,1,1,0,0,,LS,Running,10,20,12\n")
    among = events("openb", OPENB + "p0,1,1,0,0,,LS,Running,10,20,12\np1,1,1,0,0,,LS,Running,10,20,12\n")
    assert {e.id for e in alone} < {e.id for e in among}
    assert len({e.id for e in among}) == len(among)
    assert all(e.source == "import/openb/seren" and e.clusterid == "seren" and not e.causationid for e in among)


row_times = st.tuples(*[st.integers(0, 20)] * 3)


@given(st.lists(st.one_of(row_times, st.integers(0, 40)), max_size=12))
def test_facts_are_ordered_by_time_and_row(drawn):
    made: list[TraceRow | BadRow] = []
    for n, draw in enumerate(drawn):
        if isinstance(draw, int):
            made.append(BadRow(line=n, time=draw, reason="r"))
        else:
            submit, wait, run = draw
            times = {"submit": submit, "start": submit + wait, "end": submit + wait + run}
            made.append(TraceRow(line=n, key=str(n), name=str(n), phase="Completed", pods=[Requests()] * (n % 3 + 1), **times))
    facts = list(Facts(made, "philly", "c"))
    assert [m.recordedtime for m in facts] == sorted(m.recordedtime for m in facts)
    assert len({m.id for m in facts}) == len(facts)
    ends = {m.key: place for place, m in enumerate(facts) if m.type == JobObserved.TYPE}
    firsts: dict[str, str] = {}
    for message in facts:
        firsts.setdefault(message.key, message.type)
    assert set(firsts.values()) <= {JobObserved.TYPE, RowUnreadable.TYPE}
    assert all(place <= ends[m.key] for place, m in enumerate(facts) if m.type == PodObserved.TYPE)


@given(st.integers(0, 500), st.integers(1, 50))
def test_split_is_fair_and_complete(total, parts):
    shares = split(total, parts)
    assert (sum(shares), len(shares)) == (total, parts)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] - shares[-1] <= 1


def test_import_keeps_the_order_of_each_topic(appended, tmp_path):
    path = tmp_path / "philly.csv.gz"
    lines = [f"{n},1,8,0,2,3,{n % 7},0,Pass\n" for n in range(2000)]
    path.write_bytes(gzip.compress((STATUS + "".join(lines) + "x\n").encode()))
    steps = []
    report = import_trace(appended, path, "philly-status", cluster_of(path), lambda done, total: steps.append((done, total)))
    jobs, pods = appended.topic("jobs"), appended.topic("pods")
    assert (report.rows, report.rejected, report.facts) == (2001, 1, len(jobs) + len(pods))
    assert steps[-1] == (report.facts, report.facts)
    assert len(steps) > 1
    for events in (jobs, pods):
        assert [e.recordedtime for e in events] == sorted(e.recordedtime for e in events)
    assert {e.clusterid for e in jobs + pods} == {"philly"}


def test_import_twice_gives_the_same_bytes(appended, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(STATUS + "0,1,8,0,2,5,10,0,Failed\nbad\n")
    import_trace(appended, path, "philly-status", "c")
    half = len(appended.calls)
    import_trace(appended, path, "philly-status", "c")
    assert appended.calls[:half] == appended.calls[half:]


@pytest.mark.parametrize(
    ("name", "cluster"), [("a/seren.csv.gz", "seren"), ("hpc2n.swf", "hpc2n"), ("x.y.csv", "x.y"), ("plain", "plain")]
)
def test_cluster_is_the_file_name(name, cluster):
    assert cluster_of(Path(name)) == cluster


@pytest.mark.parametrize(
    ("content", "source_format", "message"),
    [
        (b"", "philly", "the file is empty"),
        (b"a,b\n1,2\n", "philly", "no column timestamp, duration, num_gpus, cluster"),
        (STATUS.encode(), "openb", "no column name, cpu_milli"),
        (b"u_id,user\n1 2\n", "swf", "no row has more than 2 columns between blanks, an swf trace has 18"),
        (b"; UnixStartTime: soon\n", "swf", "UnixStartTime is not a whole number"),
        (b"\x1f\x8bnonsense", "philly", "the compressed content is damaged"),
        (gzip.compress(STATUS.encode() * 99, mtime=0)[:-20], "philly-status", "the compressed content is damaged"),
        (b"\xff\xfe\x00", "philly", "no column"),
        (b"x", "slurm", "unknown trace format 'slurm'; known are openb, philly, philly-status, swf"),
    ],
)
def test_file_that_is_no_such_trace(appended, tmp_path, content, source_format, message):
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message) as error:
        import_trace(appended, path, source_format, "c")
    assert "\n" not in str(error.value)
    assert not appended.calls


def test_file_that_cannot_be_read(appended, tmp_path):
    with pytest.raises(TraceError, match=r"gone\.csv: no such file"):
        import_trace(appended, tmp_path / "gone.csv", "philly", "c")
    with pytest.raises(TraceError, match="cannot be read: Is a directory"):
        import_trace(appended, tmp_path, "philly", "c")


def test_header_only_has_no_rows(appended, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\ufeff" + STATUS)
    assert import_trace(appended, path, "philly-status", "c").rows == 0


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(content):
    """No content ends in anything but rows or a TraceError."""
    from engine.simulation.traces.importing import FORMATS
    from engine.simulation.traces.rows import read_rows

    head = {"openb": OPENB, "philly-status": STATUS, "philly": "timestamp,duration,num_gpus,cluster\n", "swf": ""}
    for name, make in FORMATS.items():
        lines = enumerate(line for line in (head[name].encode() + content).splitlines() if line.strip())
        try:
            list(read_rows(make({}), lines))
        except TraceError:
            assert name == "swf"


def test_sample_is_the_head_of_the_full_trace(appended, shared_trace, text_of):
    with sample_trace() as path:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        report = import_trace(appended, path, "philly-status", "philly")
    assert (report.rows, report.rejected, len(lines)) == (3000, 0, 3001)
    assert text_of(shared_trace("philly_status_15k.csv.gz")).splitlines()[:3001] == lines


def test_openb_sample_is_the_tail_of_the_full_trace_on_dates_of_2023(appended, shared_trace, text_of):
    origin = to_micros(datetime(2023, 1, 1, tzinfo=UTC)) // SECOND
    full = list(csv.DictReader(text_of(shared_trace("openb_pods.csv.gz")).splitlines()))[-3000:]
    for row in full:
        row.update({name: str(int(row[name]) + origin) for name in row if name.endswith("_time") and row[name]})
    with sample_trace("openb") as path:
        assert list(csv.DictReader(gzip.decompress(path.read_bytes()).decode().splitlines())) == full
        report = import_trace(appended, path, "openb", "openb")
    assert (report.rows, report.rejected) == (3000, 0)
    waits = [pod.running - pod.created for pod in ends(appended) if pod.running is not None]
    assert sum(wait > 0 for wait in waits) == 2112
    assert {format_time(pod.created)[:7] for pod in ends(appended)} == {"2023-05"}


def test_format_without_a_sample():
    message = "no sample of format 'swf' ships with Lahar, only of openb, philly-status; name a FILE"
    with pytest.raises(TraceError, match=message), sample_trace("swf"):
        pass


def ends(appended):
    return [e.data for e in appended.topic("pods") if e.data.ended is not None]


def test_full_philly_status(appended, shared_trace, text_of):
    path = shared_trace("philly_status_15k.csv.gz")
    report = import_trace(appended, path, "philly-status", "c")
    table = list(csv.DictReader(text_of(path).splitlines()))
    assert (report.rows, report.rejected) == (len(table), 0)
    pods = ends(appended)
    assert len(pods) == sum(int(r["node_num"]) for r in table)
    seconds = sum(int(r["gpu_num"]) * int(r["run_time"]) for r in table)
    assert sum(p.requests.gpu * (p.ended - p.running) for p in pods) == seconds * SECOND == 2_756_749_794 * SECOND


@pytest.mark.slow
def test_full_philly(appended, shared_trace, text_of):
    path = shared_trace("philly_gpu_jobs.csv.gz")
    report = import_trace(appended, path, "philly", "c")
    table = [r for r in csv.DictReader(text_of(path).splitlines()) if r["timestamp"]]
    assert (report.rows, report.rejected) == (len(table), 0) == (82_247, 0)
    pods = ends(appended)
    assert sum(p.requests.gpu * (p.ended - p.running) for p in pods) == 3_521_082_502 * SECOND
    first = min(datetime.fromisoformat(r["timestamp"]).replace(tzinfo=UTC) for r in table)
    assert min(p.created for p in pods) == to_micros(first)


def test_full_openb(appended, shared_trace, text_of):
    path = shared_trace("openb_pods.csv.gz")
    report = import_trace(appended, path, "openb", "c")
    table = list(csv.DictReader(text_of(path).splitlines()))
    assert (report.rows, report.rejected) == (len(table), 0) == (8152, 0)
    pods = ends(appended)
    ran = [p for p in pods if p.running is not None]
    assert len(pods) - len(ran) == sum(r["scheduled_time"] == "" for r in table) == 897
    wait = sum(int(r["scheduled_time"]) - int(r["creation_time"]) for r in table if r["scheduled_time"])
    assert sum(p.running - p.created for p in ran) == wait * SECOND
    shared = sum(0 < int(r["gpu_milli"]) < 1000 for r in table)
    assert sum(p.requests.gpu_share_milli is not None for p in pods) == shared == 3078


def test_full_swf(appended, shared_trace, text_of):
    path = shared_trace("hpc2n_sample.swf.gz")
    report = import_trace(appended, path, "swf", "c")
    table = [line.split() for line in text_of(path).splitlines() if line.strip() and not line.startswith(";")]
    assert (report.rows, report.rejected) == (len(table), 0) == (3170, 0)
    jobs = [e.data for e in appended.topic("jobs")]
    assert sum(j.without_end for j in jobs) == sum(row[3] == "-1" for row in table) == 25
    cpu = sum(int(row[4]) * int(row[3]) for row in table if row[3] != "-1")
    assert sum(p.requests.cpu_milli * (p.ended - p.running) for p in ends(appended)) == cpu * 1000 * SECOND


def test_facts_are_written_canonically(appended, tmp_path):
    """What is appended decodes to events that encode to the same bytes."""
    path = tmp_path / "t.csv"
    path.write_text(STATUS + "0,1,8,0,2,5,10,0,Failed\n")
    import_trace(appended, path, "philly-status", "c")
    for topic, messages in appended.calls:
        assert [encode(event) for event in appended.topic(topic)] == messages
