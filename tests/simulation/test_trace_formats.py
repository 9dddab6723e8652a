"""What a row of each format becomes."""

from __future__ import annotations

import pytest

from engine.events.inputs import PodObserved
from engine.events.times import SECOND, parse_time
from engine.simulation.errors import TraceError
from engine.simulation.traces import read_trace
from engine.simulation.traces.rows import BadRow, TraceRow
from statemachines.spec import Requests

OPENB = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
STATUS = "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"


def one(found: list[TraceRow | BadRow]) -> TraceRow:
    (row,) = found
    assert isinstance(row, TraceRow), row
    return row


def faults(found: list[TraceRow | BadRow]) -> list[tuple[int, str]]:
    return [(row.line, row.reason) for row in found if isinstance(row, BadRow)]


def swf(*columns: object) -> str:
    """A row: job, submit, wait, run, processors, status, user, queue."""
    job, submit, wait, run, processors, status, user, queue = columns
    return f"{job} {submit} {wait} {run} {processors} -1 -1 -1 -1 -1 {status} {user} 1 -1 {queue} 1 -1 -1\n"


@pytest.mark.parametrize(
    ("status", "phase", "start"), [("Succeeded", "Completed", 12), ("Failed", "Failed", 12), ("Running", "Terminated", 12)]
)
def test_openb_pod_that_ran(rows, status, phase, start):
    row = one(rows("openb", OPENB + f"p0,6000,12288,1,460,,LS,{status},10,20,{start}\n"))
    assert (row.phase, row.submit, row.start, row.end) == (phase, 10 * SECOND, start * SECOND, 20 * SECOND)
    assert (row.queue, row.user, row.reason) == ("LS", "", "DeletedWhileRunning" if status == "Running" else None)
    assert list(row.pods) == [Requests(cpu_milli=6000, memory_bytes=12288 * 2**20, gpu=1, gpu_share_milli=460)]


def test_openb_pending_pod_never_started(rows):
    row = one(rows("openb", OPENB + "p0,1,1,0,0,,,Pending,10,20,\n"))
    assert (row.phase, row.start, row.end, row.queue) == ("Terminated", None, 20 * SECOND, "default")


def test_openb_whole_devices_have_no_share(rows):
    row = one(rows("openb", OPENB + "p0,1,1,8,1000,V100M16|V100M32,BE,Failed,1,3,2\n"))
    assert row.pods[0] == Requests(cpu_milli=1, memory_bytes=2**20, gpu=8)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("p0,1,1,1,1000,,LS,Evicted,1,3,2", "pod_phase is none of Succeeded, Failed, Running, Pending, Unknown: 'Evicted'"),
        ("p0,-1,1,1,1000,,LS,Failed,1,3,2", "cpu_milli is -1, less than 0"),
        ("p0,1,1,1,1001,,LS,Failed,1,3,2", "gpu_milli is 1001, more than a whole device (1000)"),
        ("p0,1,1,1,1000,,LS,Failed,1,3,", "scheduled_time is empty"),
        ("p0,1,1,1,1000,,LS,Failed,4,3,5", "it ends before it starts"),
        ("p0,1,1,1,1000,,LS,Failed,4,9,3", "it starts before it is submitted"),
        ("p0,1,1,1,1000,,LS,Pending,4,3,", "it ends before it starts"),
        ("p0,x,1,1,1000,,LS,Failed,1,3,2", "cpu_milli is not a number: 'x'"),
        ("p0,1e30,1,1,1000,,LS,Failed,1,3,2", "cpu_milli is more than any cluster has: 1e30"),
        ("p0,1.5,1,1,1000,,LS,Failed,1,3,2", "cpu_milli is not a whole number: '1.5'"),
        (",1,1,1,1000,,LS,Failed,1,3,2", "name is empty"),
        ("p0,1,1,1,1000,,LS,Failed,1,3", "10 fields where the header has 11"),
        ("p0,1,1,1,1000,,LS,Failed,1,3,2,", "12 fields where the header has 11"),
        ('"p0,1,1,1,1000,,LS,Failed,1,3,2', "the line is not CSV: unexpected end of data"),
        ("p0,1,1,1,1000,,LS,Failed,1,999999999999,2", "end lies outside the years 1970 to 9999"),
        ("p0,1,1,1,1000,,LS,Failed,nan,3,2", "creation_time is not a number: 'nan'"),
        ("p0,1,1,1,1000,,LS,Failed,-1,3,2", "creation_time is negative: -1"),
    ],
)
def test_openb_row_that_makes_no_sense(rows, line, reason):
    """Such a row is named with its line and spoils no other."""
    found = rows("openb", f"{OPENB}{line}\np1,1,1,1,1000,,LS,Failed,1,3,2\n")
    assert faults(found) == [(2, reason)]
    assert isinstance(found[1], TraceRow)


def test_second_row_of_a_key_is_rejected(rows):
    found = rows("openb", OPENB + "p0,1,1,0,0,,,Failed,1,3,2\n\np0,1,1,0,0,,,Failed,1,3,2\n")
    assert faults(found) == [(4, "row key 'p0' was used before, in line 2")]


def test_philly_status_shares_devices_among_nodes(rows):
    """Where devices or cores do not divide, the first pods take one more."""
    row = one(rows("philly-status", STATUS + "7,3,8,4,3,5,2951,0,Pass\n"))
    assert [pod.gpu for pod in row.pods] == [3, 3, 2]
    assert [pod.cpu_milli for pod in row.pods] == [2000, 1000, 1000]
    assert (row.key, row.user, row.queue, row.phase) == ("7", "3", "default", "Completed")
    assert (row.submit, row.start, row.end) == (5 * SECOND, 5 * SECOND, 2956 * SECOND)


@pytest.mark.parametrize(("status", "phase"), [("Pass", "Completed"), ("Failed", "Failed"), ("Killed", "Terminated")])
def test_philly_status_outcomes(rows, status, phase):
    assert one(rows("philly-status", STATUS + f"7,3,1,0,1,0,1,0,{status}\n")).phase == phase


def test_philly_status_clock_is_the_running_sum_of_intervals(rows):
    """A row that is rejected for another reason than its interval still moves the clock; a bad interval does not."""
    found = rows(
        "philly-status", STATUS + "0,1,1,0,1,10,1,0,Pass\n1,1,1,0,0,5,1,0,Pass\n2,1,1,0,1,-5,1,0,Pass\n3,1,1,0,1,7,1,0,Pass\n"
    )
    assert faults(found) == [(3, "node_num is 0, less than 1"), (4, "interval is negative: -5")]
    assert [row.time if isinstance(row, BadRow) else row.submit for row in found] == [
        10 * SECOND,
        15 * SECOND,
        15 * SECOND,
        22 * SECOND,
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("7,3,1,0,1000001,0,1,0,Pass", "node_num is 1000001, more than any cluster has"),
        ("7,3,1,0,1,0,-1,0,Pass", "run_time is negative: -1"),
        ("7,3,1,0,1,0,,0,Pass", "run_time is empty"),
        ("7,3,1,0,1,0,1,0,", "new_status is none of Pass, Failed, Killed: ''"),
        (",3,1,0,1,0,1,0,Pass", "u_id is empty"),
        ("7,3,-2,0,1,0,1,0,Pass", "gpu_num is -2, less than 0"),
    ],
)
def test_philly_status_row_that_makes_no_sense(rows, line, reason):
    assert faults(rows("philly-status", f"{STATUS}{line}\n")) == [(2, reason)]


@pytest.mark.parametrize(("gpus", "pods"), [(1, [1]), (8, [8]), (12, [8, 4]), (16, [8, 8]), (17, [8, 8, 1])])
def test_philly_pods_have_at_most_eight_devices(rows, gpus, pods):
    row = one(rows("philly", PHILLY + f"2017-10-09 07:01:55,66.0,{gpus},66.0,11cb48\n"))
    assert [pod.gpu for pod in row.pods] == pods


def test_philly_row(rows):
    first, second = rows("philly", PHILLY + "2017-10-09 07:01:55,66.5,1,66.5,11cb48\n\n2017-10-09 06:00:00,1,1,1,\n")
    start = parse_time("2017-10-09T07:01:55Z")
    assert (first.key, first.submit, first.start, first.end) == ("1", start, start, start + 66_500_000)
    assert (first.phase, first.queue, first.user) == ("Completed", "11cb48", "")
    assert (second.key, second.line, second.queue) == ("2", 4, "default")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("yesterday,1,1,1,c", "timestamp is not a time: 'yesterday'"),
        ("1969-10-09 07:01:55,1,1,1,c", "submit time lies outside the years 1970 to 9999"),
        ("2017-10-09 07:01:55,1,0,1,c", "num_gpus is 0, less than 1"),
        ("2017-10-09 07:01:55,1,900000000,1,c", "num_gpus is 900000000, more than any cluster has"),
    ],
)
def test_philly_row_that_makes_no_sense(rows, line, reason):
    assert faults(rows("philly", f"{PHILLY}{line}\n")) == [(2, reason)]


def test_swf_row(rows):
    row = one(rows("swf", "; Version: 2.2\n;UnixStartTime: 1000\n" + swf(4, 50, 10, 600, 30, 1, 3, 2)))
    assert (row.key, row.submit, row.start, row.end) == ("4", 1050 * SECOND, 1060 * SECOND, 1660 * SECOND)
    assert (row.user, row.queue, row.phase, list(row.pods)) == ("3", "2", "Completed", [Requests(cpu_milli=30_000)])


@pytest.mark.parametrize(
    ("status", "phase", "reason"),
    [
        (0, "Failed", None),
        (1, "Completed", None),
        (2, "Terminated", "ToBeContinued"),
        (3, "Completed", None),
        (4, "Failed", None),
        (5, "Terminated", "Cancelled"),
        (-1, "Terminated", "OutcomeUnknown"),
        (7, "Terminated", "Status7"),
    ],
)
def test_swf_outcomes(rows, status, phase, reason):
    """An outcome that the status does not record is unknown, never a success."""
    row = one(rows("swf", swf(4, 50, 10, 600, 30, status, 3, 2)))
    assert (row.phase, row.reason, row.exit_unknown) == (phase, reason, status in {2, -1, 7})


@pytest.mark.parametrize(("status", "end"), [(3, ("Completed", "Succeeded", None)), (4, ("Failed", "Failed", "AppFailed"))])
def test_partial_runs_of_a_job_without_a_summary_are_its_attempts(events, status, end):
    """Each run is billed from its start to its end; the time between them is not."""
    trace = swf(4, 50, 10, 600, 30, 2, 3, 2) + swf(4, -1, 100, 200, 30, status, 3, 2)
    facts = [event.data for event in events("swf", trace)]
    pods = [pod for pod in facts if isinstance(pod, PodObserved)]
    ends = [(pod.running, pod.ended, pod.phase, pod.reason) for pod in pods if pod.ended is not None]
    assert ends == [(60 * SECOND, 660 * SECOND, "Lost", "ExitUnknown"), (760 * SECOND, 960 * SECOND, *end[1:])]
    assert {pod.index for pod in pods} == {0}
    assert (facts[-1].phase, facts[-1].ended) == (end[0], 960 * SECOND)


def test_partial_runs_that_another_line_sums_up_are_left_out(rows):
    trace = swf(4, 50, 10, 800, 30, 1, 3, 2) + swf(4, 50, 10, 600, 30, 2, 3, 2) + swf(4, -1, 100, 200, 30, 3, 3, 2)
    found = rows("swf", trace + swf(5, 60, 0, 1, 1, 1, 3, 2))
    assert faults(found) == [(line, "partial run of job 4, which line 1 sums up") for line in (2, 3)]
    assert [(row.key, row.phase) for row in found if isinstance(row, TraceRow)] == [("4", "Completed"), ("5", "Completed")]


def test_openb_pod_of_a_silent_node_has_no_outcome(rows):
    row = one(rows("openb", OPENB + "p0,1,1,0,0,,,Unknown,10,20,12\n"))
    assert (row.phase, row.reason, row.exit_unknown) == ("Terminated", "DeletedWhileUnknown", True)


def test_a_file_may_have_other_names_for_the_columns(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("gpus,submitted,duration,cluster,note\n12,2017-10-09 07:01:55,5,vc1,x\n")
    (row,) = read_trace(path, "philly", {"timestamp": "submitted", "num_gpus": "gpus"})
    assert isinstance(row, TraceRow)
    assert ([pod.gpu for pod in row.pods], row.queue, row.end - row.submit) == ([8, 4], "vc1", 5 * SECOND)


@pytest.mark.parametrize(
    ("source_format", "columns", "fault"),
    [
        ("philly", {"gpus": "n"}, "format philly has no column 'gpus'; it has timestamp, duration, num_gpus, cluster"),
        ("philly", {"timestamp": "submitted"}, "no column submitted; the header of format philly names submitted,duration,"),
        ("swf", {"status": "x"}, "an swf trace has no header"),
    ],
)
def test_other_names_that_do_not_fit(tmp_path, source_format, columns, fault):
    path = tmp_path / "jobs.csv"
    path.write_text(PHILLY)
    with pytest.raises(TraceError, match=fault):
        read_trace(path, source_format, columns)


def test_swf_unknown_run_time_is_a_job_without_end(rows):
    row = one(rows("swf", swf(4, 50, 10, -1, 30, 1, -1, -1)))
    assert (row.without_end, row.phase, row.start, row.end) == (True, "Terminated", 60 * SECOND, 60 * SECOND)
    assert (row.user, row.queue) == ("", "default")


def test_swf_columns_behind_the_eighteenth_are_ignored(rows):
    assert one(rows("swf", swf(4, 50, 10, 600, 30, 1, 3, 2).rstrip() + " 7 x\n")).key == "4"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (swf(4, 50, -1, 600, 30, 1, 3, 2), "wait time is negative: -1"),
        (swf(4, -1, 1, 600, 30, 1, 3, 2), "submit time is negative: -1"),
        (swf(4, 50, 1, -2, 30, 1, 3, 2), "run time is negative: -2"),
        (swf(4, 50, 1, 600, 0, 1, 3, 2), "allocated processors is 0, less than 1"),
        (swf(4, 50, 1, 600, -1, 1, 3, 2), "allocated processors is -1, less than 1"),
        (swf(4, 50, 1, 600, 1, "x", 3, 2), "status is not a number: 'x'"),
        ("5 6 7\n", "3 columns, fewer than 18"),
    ],
)
def test_swf_row_that_makes_no_sense(rows, line, reason):
    assert faults(rows("swf", swf(3, 5, 1, 6, 1, 1, 1, 1) + line)) == [(2, reason)]


def test_swf_may_begin_with_a_row_that_makes_no_sense(rows):
    """One short row does not make a trace another format, wherever it stands."""
    assert faults(rows("swf", "5 6 7\n" + swf(3, 5, 1, 6, 1, 1, 1, 1))) == [(1, "3 columns, fewer than 18")]
