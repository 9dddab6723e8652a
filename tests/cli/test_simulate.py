"""`lahar simulate`, as a user sees it."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.log.sqlite import SqliteLog
from engine.scheduling.preemption import backoff

Lahar = Callable[..., Any]

HEAD = "timestamp,duration,num_gpus,gpu_time,cluster\n"
ROWS = """\
2017-10-09 07:00:00,600,4,2400,a
2017-10-09 07:00:00,60,8,480,b
2017-10-09 07:10:00,120,12,1440,a
2017-10-09 07:20:00,0,1,0,a
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,32000,262144,8,G2\nn2,32000,262144,8,G2\n"
GOLDEN = Path(__file__).parent / "golden" / "simulate"
FILES = ("results.json", "jobs.csv", "report.html")


@pytest.fixture
def simulate(lahar: Lahar, folder: Path) -> Lahar:
    """Simulate the rows above on the nodes above, unless told otherwise."""
    (folder / "trace.csv").write_text(HEAD + ROWS)
    (folder / "nodes.csv").write_text(NODES)

    def run(*options: str, code: int = 0) -> Any:
        given = {"--trace": "trace.csv", "--format": "philly", "--nodes": "nodes.csv"}
        missing = [part for option, value in given.items() if option not in options for part in (option, value)]
        return lahar("simulate", *missing, *options, code=code)

    return run


def test_results_are_files_and_an_answer_in_json(simulate: Lahar, folder: Path) -> None:
    answer = simulate("--json").record
    assert answer == json.loads((folder / "simulation" / "results.json").read_text())
    assert answer["totals"] == {
        "jobs": 4,
        "finished": 4,
        "rejected": 0,
        "waiting": 0,
        "nodes": 2,
        "gpus": 16,
        "preemptions": 0,
    }
    assert answer["summary"]["gpu_seconds"] == 4 * 600 + 8 * 60 + 12 * 120
    jobs = list(csv.DictReader((folder / "simulation" / "jobs.csv").read_text().splitlines()))
    assert [(job["name"], job["gpus"], job["phase"], job["run_seconds"]) for job in jobs] == [
        ("philly-1", "4", "Completed", "600"),
        ("philly-2", "8", "Completed", "60"),
        ("philly-3", "12", "Completed", "120"),
        ("philly-4", "1", "Completed", "0"),
    ]


def test_the_files_are_what_they_were(simulate: Lahar, folder: Path) -> None:
    """After a wanted change: LAHAR_WRITE_GOLDEN=1 writes them anew."""
    (folder / "lost.csv").write_text("seconds,what,name,replicas\n100,lose,n1,\n400,restore,n1,\n")
    simulate("--incidents", "lost.csv", "--out", "found")
    for name in FILES:
        found = (folder / "found" / name).read_text()
        if os.environ.get("LAHAR_WRITE_GOLDEN"):
            GOLDEN.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(found)
        assert found == (GOLDEN / name).read_text(), name


def test_the_history_stays_in_a_log(simulate: Lahar, lahar: Lahar, folder: Path) -> None:
    simulate("--out", "without")
    simulate("--log", "sqlite:simulated.db", "--out", "kept")
    assert [(folder / "kept" / name).read_bytes() for name in FILES] == [(folder / "without" / name).read_bytes() for name in FILES]
    assert (
        lahar("--log", "sqlite:simulated.db", "summary", "--json").record
        == json.loads((folder / "kept" / "results.json").read_text())["summary"]
    )
    assert all(record["ok"] for record in lahar("--log", "sqlite:simulated.db", "verify", "--json").records)
    again = simulate("--log", "sqlite:simulated.db", code=2)
    assert "the log is not empty; a simulation begins a new one" in again.err
    log = SqliteLog("simulated.db", readonly=True)
    times = [record.message.recordedtime for record in log.scan(("pods",))]
    log.close()
    assert times == sorted(times)


@pytest.mark.parametrize("name", FILES)
def test_unwritable_files_are_reported_before_the_simulation(simulate: Lahar, folder: Path, name: str) -> None:
    (folder / "found" / name).mkdir(parents=True)
    refused = simulate("--log", "sqlite:simulated.db", "--out", "found", code=2)
    assert refused.err == f"lahar: found/{name}: Is a directory\n"
    assert [path.name for path in (folder / "found").iterdir()] == [name]
    (folder / "taken").touch()
    assert simulate("--log", "sqlite:simulated.db", "--out", "taken/found", code=2).err == "lahar: taken: Not a directory\n"
    assert not (folder / "simulated.db").exists()


LITTLE_ROOM = """
import resource, sys
from engine.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
main()
"""


def test_of_files_that_do_not_fit_on_the_disk_none_is_written(simulate: Lahar, folder: Path) -> None:
    """The report has no room, the others have; what was there stays."""
    simulate()
    before = {name: (folder / "simulation" / name).read_bytes() for name in FILES}
    assert max(len(before["jobs.csv"]), len(before["results.json"])) < 20_000 < len(before["report.html"])
    options = ("--trace", "trace.csv", "--format", "philly", "--nodes", "nodes.csv", "--jobs", "2")
    done = subprocess.run([sys.executable, "-c", LITTLE_ROOM, "simulate", *options], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "lahar: simulation: File too large\n")
    assert {path.name: path.read_bytes() for path in (folder / "simulation").iterdir()} == before


def test_submissions_follow_each_other_faster(simulate: Lahar) -> None:
    slow, fast = simulate("--json").record, simulate("--speed-up", "10", "--json").record
    assert fast["simulated_seconds"] < slow["simulated_seconds"]
    assert fast["summary"]["gpu_seconds"] == slow["summary"]["gpu_seconds"]


QUEUES = """{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: a}, spec: {preemption: notice}}
---
{apiVersion: lahar.dev/v1, kind: Tenant, metadata: {name: tenant-1}, spec: {priority: 10, mayPreempt: true}}
"""
PREEMPTING = """2017-10-09 07:00:00,3600,8,1,a
2017-10-09 07:00:00,3600,8,1,a
2017-10-09 07:05:00,1,8,1,a
2017-10-09 07:10:00,120,8,1,a
"""


@pytest.fixture
def preempting(simulate: Lahar, folder: Path) -> Lahar:
    """Simulate two jobs that fill the nodes, and two that come later, the last of a tenant with the right to preempt."""
    (folder / "trace.csv").write_text(HEAD + PREEMPTING)
    (folder / "queues.yaml").write_text(QUEUES)
    (folder / "scheduler.yaml").write_text(
        'actions: "enqueue, allocate, preempt"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n'
    )
    return lambda *more, code=0: simulate(
        *("--queues", "queues.yaml", "--scheduler", "scheduler.yaml", "--tenants", "2", "--log", "sqlite:s.db", *more), code=code
    )


def test_a_job_that_acknowledges_a_notice_resumes_its_remaining_work(preempting: Lahar, lahar: Lahar, folder: Path) -> None:
    preempting("--privileged", "philly-4", "--acknowledge", "60")
    (notice,) = lahar("--log", "sqlite:s.db", "preemptions", "list", "--all", "--json").records
    assert (notice["state"], notice["change"], notice["preemptor"]["name"]) == ("Executed", "Acknowledged", "default/philly-4")
    jobs = {job["name"]: job for job in csv.DictReader((folder / "simulation" / "jobs.csv").read_text().splitlines())}
    (victim,) = [job for job in jobs.values() if job["preempted"] == "1"]
    assert {job["phase"] for job in jobs.values()} == {"Completed"}
    assert float(jobs["philly-4"]["wait_seconds"]) < 90
    assert 0 < float(victim["run_seconds"]) - 3600 - 120 < 15  # it waits for the privileged job, and does the rest


def test_a_job_that_ignores_its_notice_is_stopped_at_the_deadline(preempting: Lahar, lahar: Lahar, folder: Path) -> None:
    preempting("--privileged", "philly-4")
    (notice,) = lahar("--log", "sqlite:s.db", "preemptions", "list", "--all", "--json").records
    assert (notice["state"], notice["change"]) == ("Executed", "DeadlinePassed")
    jobs = {job["name"]: job for job in csv.DictReader((folder / "simulation" / "jobs.csv").read_text().splitlines())}
    assert {job["phase"] for job in jobs.values()} == {"Completed"}
    (victim,) = [job for job in jobs.values() if job["preempted"] == "1"]
    assert float(victim["run_seconds"]) > 3600 + 600 + 300  # all that it had done is done again


def test_privileged_jobs_and_their_answers_make_sense(preempting: Lahar) -> None:
    assert "the simulation has no job 'philly-9' that could be privileged" in preempting("--privileged", "philly-9", code=2).err
    for seconds in ("-1", "nan", "1e12", "1e300"):
        assert "it must be 0 to 316,224,000, ten years" in preempting("--acknowledge", seconds, code=2).err


def test_an_answer_that_comes_too_late_changes_nothing(preempting: Lahar, folder: Path) -> None:
    preempting("--privileged", "philly-4")
    ignored = [(folder / "simulation" / name).read_bytes() for name in ("results.json", "jobs.csv")]
    preempting("--privileged", "philly-4", "--acknowledge", "9000000", "--log", "memory:")
    assert [(folder / "simulation" / name).read_bytes() for name in ("results.json", "jobs.csv")] == ignored


@pytest.mark.parametrize("given", ["0", "-2", "nan", "inf"])
def test_a_speed_up_is_more_than_nothing(simulate: Lahar, given: str) -> None:
    assert "it must be more than 0" in simulate("--speed-up", given, code=2).err


def test_a_speed_up_leaves_jobs_in_the_calendar(simulate: Lahar) -> None:
    refused = simulate("--speed-up", "1e-200", code=2)
    assert "line 4: with a speed-up of 1e-200, philly-3 ends after the year 9999; give more" in refused.err


def test_rows_that_make_no_sense_are_left_out_and_the_first_is_named(simulate: Lahar, folder: Path) -> None:
    (folder / "trace.csv").write_text(HEAD + "2017-10-09 07:00:00,,1,0,a\n" + ROWS + "2017-10-09 07:00:00,5,x,0,a\n")
    done = simulate()
    assert "2 rows make no simulated job; the first: line 2: duration is empty" in done.err
    (folder / "trace.csv").write_text(HEAD + "2017-10-09 07:00:00,,1,0,a\n")
    assert "the trace has no job to simulate: line 2: duration is empty" in simulate(code=2).err


def test_jobs_that_fit_no_node_are_named_before_anything_is_simulated(simulate: Lahar, folder: Path) -> None:
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,32000,262144,0,\n")
    assert (
        "the cluster takes none of the 4 jobs; the first: line 2: philly-1 fits no node: a pod asks for 4 GPUs; no node has a GPU"
        in simulate(code=2).err
    )
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,32000,262144,4,\n")
    done = simulate(code=1)
    assert "2 of 4 jobs will wait for ever; the first: line 3: philly-2 fits no node: a pod asks for 8 GPUs" in done.err
    assert "philly-2 (line 3) waits: It waits for the scheduler since" in done.out


OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
my job,1000,1024,1,1000,,LS,Succeeded,0,60,1
"""
CLOSED = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a}\nspec: {state: Closed}\n"


def test_a_simulation_with_every_job_rejected_is_refused_before_writing(simulate: Lahar, folder: Path) -> None:
    (folder / "queues.yaml").write_text(f"{CLOSED}---\n{CLOSED.replace('name: a', 'name: b')}")
    refused = simulate("--queues", "queues.yaml", "--log", "sqlite:simulated.db", code=2).err
    assert "lahar: the cluster takes none of the 4 jobs; the first: line 2: philly-1 is rejected: spec.queue: " in refused
    assert "queue `a` status is `Closed`" in refused
    (folder / "trace.csv").write_text(OPENB)
    refused = simulate("--format", "openb", code=2).err
    assert "the cluster takes none of the 1 jobs; the first: line 2: my job is rejected: " in refused
    assert not (folder / "simulation").exists()
    assert not (folder / "simulated.db").exists()


def test_jobs_that_do_not_fit_and_rejected_ones_leave_nothing_to_simulate(simulate: Lahar, folder: Path) -> None:
    (folder / "queues.yaml").write_text(CLOSED)
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,32000,262144,4,\n")
    refused = simulate("--queues", "queues.yaml", code=2).err  # queue a is closed, the only job of queue b is too large
    assert "the cluster takes none of the 4 jobs; the first: line 2: philly-1 is rejected: spec.queue: " in refused


def test_queues_count_the_jobs_that_were_rejected_as_the_totals_do(simulate: Lahar, folder: Path) -> None:
    (folder / "queues.yaml").write_text(CLOSED)
    done = simulate("--queues", "queues.yaml")
    assert "3 jobs were rejected; the first: line 2: spec.queue: " in done.err
    assert "4 jobs, 2 nodes" in done.out
    found = {line.split()[0]: line.split()[1:3] for line in done.out.splitlines()[2:]}
    assert (found["a"], found["b"]) == (["3", "0"], ["1", "1"])


def test_rows_of_a_table_of_nodes_are_named(simulate: Lahar, folder: Path) -> None:
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,32000,262144,8,G2\nn2,32000,,8,G2\n")
    assert "nodes.csv: line 3: memory_mib is empty" in simulate(code=2).err


def test_a_configuration_that_places_nothing_ends_with_what_jobs_wait_for(simulate: Lahar, folder: Path) -> None:
    for actions, named in (("enqueue", "enqueue"), ("", "none")):
        (folder / "scheduler.yaml").write_text(f'actions: "{actions}"\ntiers: [{{plugins: [{{name: gang}}]}}]\n')
        done, why = (
            simulate("--scheduler", "scheduler.yaml", code=1),
            f"no action gives pods nodes, they are: {named}; add allocate",
        )
        assert f"scheduler.yaml: {why}. The first job that waits: line 2: philly-1" in done.err
        assert f"philly-1 (line 2) waits: {why}\n" in done.out
        document = json.loads((folder / "simulation" / "results.json").read_text())
        assert {job["why"] for job in document["waiting"]} == {why}
    (folder / "scheduler.yaml").write_text('actions: "sleep"\n')
    assert "scheduler.yaml: unknown action 'sleep'" in simulate("--scheduler", "scheduler.yaml", code=2).err


CIRCLING = """2017-10-09 07:00:00,600,16,1,a
2017-10-09 07:00:05,600,16,1,b
2017-10-19 07:00:00,60,1,1,b
"""
EVICTING = """actions: "enqueue, allocate, reclaim"
tiers: [{plugins: [{name: gang, enableReclaimable: false}, {name: conformance}, {name: drf}, {name: predicates}]}]
"""


def test_jobs_that_only_stop_each_other_end_the_simulation(simulate: Lahar, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two gangs take both nodes from each other for ever: without `proportion` nobody says whose they are."""
    monkeypatch.setattr(backoff, "_LONGEST_PAUSE", 6)
    (folder / "trace.csv").write_text(HEAD + CIRCLING)
    (folder / "scheduler.yaml").write_text(EVICTING)
    done = simulate("--scheduler", "scheduler.yaml", code=1)
    assert "2 jobs only stop each other: each pod that runs was stopped 100 times before, and none got further" in done.err
    for job in ("philly-1 (line 2)", "philly-2 (line 3)"):
        assert f"{job} waits: it was stopped for others " in done.out
    assert "philly-3 (line 4) waits: the simulation ended before its submission" in done.out
    rows = csv.DictReader((folder / "simulation" / "jobs.csv").read_text().splitlines())
    assert {row["name"]: row["phase"] for row in rows}["philly-3"] == "Unsubmitted"


def test_incidents_name_what_is_there(simulate: Lahar, folder: Path) -> None:
    (folder / "incidents.csv").write_text("seconds,what,name,replicas\n1,lose,n1,\n2,lose,n9,\n")
    done = simulate("--incidents", "incidents.csv", code=2)
    assert "incidents: line 3: the simulation has no node 'n9'" in done.err
    (folder / "incidents.csv").write_text("seconds,what,name,replicas\n1,explode,n1,\n")
    done = simulate("--incidents", "incidents.csv", code=2)
    assert "incidents.csv: line 2: what is none of lose, drain, restore, resize, stop, fail: 'explode'" in done.err


@pytest.mark.parametrize("what", ["stop,philly-3,", "fail,philly-3,1", "resize,philly-3,2"])
def test_nothing_happens_to_a_job_before_its_submission(simulate: Lahar, folder: Path, what: str) -> None:
    (folder / "incidents.csv").write_text(f"seconds,what,name,replicas\n1,{what}\n")
    refused = simulate("--incidents", "incidents.csv", code=2).err
    said = "philly-3 comes before the job is submitted; its seconds are "
    assert f"incidents: line 2: {what.partition(',')[0]} {said}" in refused
    least = int(refused.split(said)[1].split()[0].replace(",", ""))
    (folder / "incidents.csv").write_text(f"seconds,what,name,replicas\n{least},{what}\n")
    simulate("--incidents", "incidents.csv")


def test_incidents_lie_in_the_calendar(simulate: Lahar, folder: Path) -> None:
    (folder / "incidents.csv").write_text("seconds,what,name,replicas\n1e12,lose,n1,\n")
    assert "line 2: lose n1 comes after the year 9999" in simulate("--incidents", "incidents.csv", code=2).err


def test_a_node_is_there_once(simulate: Lahar, folder: Path) -> None:
    node = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 8, memory: 8Gi, pods: 9}}}"
    (folder / "nodes.yaml").write_text(f"{node}\n---\n{node}\n")
    assert "nodes.yaml: node a is there 2 times; leave one" in simulate("--nodes", "nodes.yaml", code=2).err


def test_queues_and_nodes_are_given_as_objects(simulate: Lahar, folder: Path) -> None:
    (folder / "nodes.yaml").write_text(
        "kind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 32, memory: 64Gi, pods: 20, nvidia.com/gpu: 16}}\n"
    )
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a}\nspec: {weight: 3}\n"
    (folder / "queues.yaml").write_text(queue)
    answer = simulate("--nodes", "nodes.yaml", "--queues", "queues.yaml", "--json").record
    assert {name: found["weight"] for name, found in answer["queues"].items()} == {"a": 3.0, "b": 1.0}


def test_nodes_have_the_gpus_that_the_operators_rows_say(simulate: Lahar, folder: Path) -> None:
    offered = "{cpu: 32, memory: 64Gi, pods: 20, nvidia.com/gpu: 16, example.com/card: 8}"
    (folder / "nodes.yaml").write_text(f"kind: Node\nmetadata: {{name: n1}}\nstatus: {{allocatable: {offered}}}\n")
    (folder / "lahar.toml").write_text('[accelerators]\n"example.com/card" = "1/4"\n')
    assert simulate("--nodes", "nodes.yaml", "--json").record["totals"]["gpus"] == 18


@pytest.mark.parametrize("option", ["--queues", "--nodes"])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"kind: [Queue\n", "1 of 1 objects could not be read; the first: bad.yaml: line 1: not YAML: "),
        (b"kind: Queue\nmetadata: {name: a}\nspec: {weight: .inf}\n", "bad.yaml: line 3: not YAML: a number that is not finite"),
        (gzip.compress(b"kind: Queue\n", mtime=0)[:-9], "bad.yaml: the compressed content is damaged"),
    ],
)
def test_objects_that_cannot_be_read_are_bad_input(simulate: Lahar, folder: Path, option: str, content: bytes, why: str) -> None:
    (folder / "bad.yaml").write_bytes(content)
    refused = simulate(option, "bad.yaml", code=2).err
    assert why in refused
    assert "applied" not in refused  # nothing was to be


@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("scheduler.yaml", "allocate, preempt", "allocate", "the configuration of scheduling does not name action preempt"),
        ("queues.yaml", "preemption: notice", "preemption: immediate", "queue a does not have `preemption: notice`"),
        ("queues.yaml", "mayPreempt: true", "mayPreempt: false", "tenant tenant-1 does not have `mayPreempt: true`"),
        ("queues.yaml", "name: tenant-1", "name: tenant-0", "tenant tenant-1 does not have `mayPreempt: true`"),
    ],
)
def test_it_says_why_nobody_is_given_notice(preempting: Lahar, folder: Path, file: str, old: str, new: str, why: str) -> None:
    (folder / file).write_text((folder / file).read_text().replace(old, new))
    told = preempting("--privileged", "philly-4").err
    assert told.count("\n") == 1
    assert f"nobody is given notice for 1 of 1 privileged jobs; the first: philly-4: {why}" in told
