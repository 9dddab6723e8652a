"""`lahar whatif`, as a user sees it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from engine.scheduling.preemption import backoff

Lahar = Callable[..., Any]

DAY = "2026-03-01T"
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
TRACE = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:00:00,600,8,2400,a
2017-10-09 07:00:10,60,8,480,b
2017-10-09 07:01:00,120,4,1440,a
2017-10-09 07:20:00,5,1,0,a
"""
PRICES = """\
kind: PriceBook
metadata: {name: prices}
spec:
  currency: USD
  versions:
    - version: v1
      from: "2017-01-01"
      prices: {gpu_seconds: {"*": "0.01"}}
"""


def node(name: str, gpu: int) -> dict[str, Any]:
    allocatable = {"cpu": "32", "memory": "64Gi", "pods": "20", "nvidia.com/gpu": str(gpu)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def pod(job: str, gpu: int, times: tuple[str, str, str, str], code: int = 0) -> dict[str, Any]:
    """The pod of a batch Job that somebody else's scheduler has placed on node n1: when it was made, placed, begun, ended."""
    made, placed, begun, ended = (f"{DAY}{time}Z" for time in times)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
    resources = {"limits": {"nvidia.com/gpu": str(gpu)}}
    state = {"terminated": {"exitCode": code, "startedAt": begun, "finishedAt": ended}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job}-0",
            "namespace": "default",
            "uid": f"pod-{job}",
            "creationTimestamp": made,
            "resourceVersion": "9",
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "busybox", "resources": resources}]},
        "status": {
            "phase": "Failed" if code else "Succeeded",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": placed}],
            "containerStatuses": [{"name": "c", "image": "busybox", "restartCount": 0, "ready": False, "state": state}],
        },
    }


@pytest.fixture
def of_others(lahar: Lahar, folder: Path) -> Lahar:
    """A history that somebody else scheduled: two jobs of 4 GPUs each, one after the other on a node with 4."""
    objects = [
        node("n1", 4),
        pod("first", 4, ("10:00:00", "10:00:30", "10:00:35", "10:10:35")),
        pod("second", 4, ("10:01:00", "10:11:00", "10:11:05", "10:16:05")),
    ]
    lahar("ingest", given="\n".join(json.dumps(one) for one in objects))
    (folder / "nodes.csv").write_text(NODES + "n1,32000,65536,8,\n")
    return lahar


@pytest.fixture
def simulated(lahar: Lahar, folder: Path) -> Lahar:
    """The history of a simulation, with prices, by Volcano's default rules."""
    (folder / "trace.csv").write_text(TRACE)
    (folder / "nodes.csv").write_text(NODES + "n1,32000,65536,8,\n")
    (folder / "prices.yaml").write_text(PRICES)
    (folder / "more.csv").write_text(NODES + "n1,32000,65536,8,\nn2,32000,65536,8,\n")
    (folder / "bad.yaml").write_text("kind: [Queue\n")
    (folder / "idle.yaml").write_text('actions: "enqueue"\n')
    options = ("--trace", "trace.csv", "--format", "philly", "--nodes", "nodes.csv", "--queues", "prices.yaml")
    lahar("simulate", *options, "--log", "sqlite:lahar.db")
    return lahar


def test_a_job_that_waited_for_a_full_node_does_not_wait_for_a_larger_one(of_others: Lahar) -> None:
    """A start takes 5 seconds, as recorded; a round comes within two."""
    answer = of_others("whatif", "--nodes", "nodes.csv", "--job", "default/second", "--json").record
    wait = answer["jobs"]["default/second"]["wait_seconds"]
    assert wait["recorded"] == 605
    assert 600 - 60 < wait["as_it_was"] < 605
    assert wait["model_error"] == wait["as_it_was"] - 605
    assert 5 <= wait["what_if"] <= 8
    assert wait["difference"] == wait["what_if"] - wait["as_it_was"]
    assert answer["total"]["gpu_seconds_held"]["recorded"] == 4 * (605 + 305)
    assert answer["total"]["gpu_seconds_held"]["what_if"] == 4 * (605 + 305)
    assert answer["total"]["mean_wait_seconds"]["recorded"] == (35 + 605) / 2


def test_other_nodes_have_the_gpus_that_the_operators_rows_say(simulated: Lahar, folder: Path) -> None:
    offered = "{cpu: 32, memory: 64Gi, pods: 20, nvidia.com/gpu: 8, example.com/card: 32}"
    (folder / "other.yaml").write_text(f"kind: Node\nmetadata: {{name: n1}}\nstatus: {{allocatable: {offered}}}\n")
    plain = simulated("whatif", "--nodes", "other.yaml", "--json").record["total"]["utilisation"]["what_if"]
    (folder / "lahar.toml").write_text('[accelerators]\n"example.com/card" = "1/4"\n')
    assert simulated("whatif", "--nodes", "other.yaml", "--json").record["total"]["utilisation"]["what_if"] == plain / 2


def test_the_log_is_only_read_and_the_answer_is_the_same_again(simulated: Lahar, folder: Path) -> None:
    before = simulated("export").out
    first = simulated("whatif", "--nodes", "more.csv", "--json").out
    assert simulated("whatif", "--nodes", "more.csv", "--json").out == first
    assert simulated("export").out == before


def test_simulated_as_it_was_a_simulation_is_what_it_was(simulated: Lahar) -> None:
    answer = simulated("whatif", "--scheduler", "idle.yaml", "--job", "default/philly-2", "--json").record
    figures = [figure for group in (answer["total"], *answer["queues"].values()) for figure in group.values()]
    assert all(figure["model_error"] == 0 for figure in figures)
    assert answer["total"]["began"]["what_if"] == 0
    assert answer["jobs"]["default/philly-2"]["wait_seconds"]["what_if"] is None
    assert (answer["left_out"], answer["rejected"], answer["open_ended"]) == ({}, {}, [])


def test_a_history_is_simulated_with_its_recorded_scheduler(lahar: Lahar, folder: Path) -> None:
    """The second job waits for an hour of the first one's by proportion; by a scheduler without it, it would not be asked for."""
    (folder / "trace.csv").write_text(TRACE)
    (folder / "nodes.csv").write_text(NODES + "n1,32000,65536,8,\n")
    (folder / "more.csv").write_text(NODES + "n1,32000,65536,8,\nn2,32000,65536,8,\n")
    plugins = "[{name: gang}, {name: predicates}, {name: sla, arguments: {sla-waiting-time: 9s}}]"
    (folder / "own.yaml").write_text(f'actions: "enqueue, allocate"\ntiers: [{{plugins: {plugins}}}]\n')
    (folder / "idle.yaml").write_text('actions: "enqueue"\n')
    options = ("--trace", "trace.csv", "--format", "philly", "--nodes", "nodes.csv", "--scheduler", "own.yaml")
    lahar("simulate", *options, "--log", "sqlite:lahar.db")
    done = lahar("whatif", "--nodes", "more.csv", "--json", LAHAR_SCHEDULER_CONFIG="idle.yaml")
    assert (done.record["scheduler"], done.err) == ("recorded", "")
    assert all(figure["model_error"] == 0 for figure in done.record["total"].values() if figure["model_error"] is not None)
    given = lahar("whatif", "--nodes", "more.csv", "--recorded", "idle.yaml", "--json").record
    assert (given["scheduler"], given["total"]["began"]["as_it_was"]) == ("given", 0)


def test_a_history_that_records_no_scheduler_gets_a_warning_with_the_error(of_others: Lahar) -> None:
    done = of_others("whatif", "--nodes", "nodes.csv", "--json")
    waits = done.record["total"]["mean_wait_seconds"]
    assert done.record["scheduler"] == "assumed"
    assert f"Jobs wait {waits['as_it_was']:,.0f} s in the mean with it, {waits['recorded']:,.0f} s as recorded" in done.err


def test_more_nodes_like_one_are_as_a_file_that_has_them(simulated: Lahar) -> None:
    by_file = simulated("whatif", "--nodes", "more.csv", "--json").record
    assert simulated("whatif", "--add-nodes", "1", "--like", "n1", "--json").record["total"] == by_file["total"]
    assert "go together" in simulated("whatif", "--add-nodes", "1", code=2).err


def test_costs_are_those_of_the_bill(simulated: Lahar) -> None:
    cost = simulated("whatif", "--scheduler", "idle.yaml", "--json").record["total"]["cost"]
    lines = simulated("billing", "export", "--format", "jsonl").records
    assert Decimal(str(cost["recorded"])) == sum(Decimal(line["amount"]) for line in lines) > 0
    assert (cost["model_error"], cost["what_if"]) == (0, 0)


def test_people_read_a_table(simulated: Lahar) -> None:
    done = simulated("whatif", "--nodes", "more.csv", "--job", "default/philly-2")
    head, names, *rows = done.out.splitlines()
    assert head == "cluster trace, from 2017-10-09T07:00:00.000000Z to the end of the jobs"
    assert [name.strip() for name in names.split("  ") if name] == ["RECORDED", "AS IT WAS", "MODEL ERROR", "WHAT IF", "DIFFERENCE"]
    titles = [row.strip() for row in rows if not row.startswith("  ")]
    assert titles == ["all jobs", "queue a", "queue b", "job default/philly-2"]
    waits = [row.split() for row in rows if row.split()[0] == "wait"]
    assert waits == [["wait", "722", "s", "722", "s", "0", "4", "s", "-718", "s"]]
    assert any(row.split()[:2] == ["cost,", "USD"] for row in rows)


def test_other_queues_take_the_place_of_those_of_their_names(simulated: Lahar, folder: Path) -> None:
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: NAME}\nspec: {weight: 1, state: Closed}\n"
    (folder / "closed.yaml").write_text(queue.replace("NAME", "b"))
    answer = simulated("whatif", "--queues", "closed.yaml", "--json").record
    assert answer["queues"]["b"]["began"]["as_it_was"] == 1
    assert answer["queues"]["b"]["began"]["what_if"] == 0
    assert answer["queues"]["a"]["began"]["difference"] == 0
    (folder / "closed.yaml").write_text(queue.replace("NAME", "c"))
    assert (
        "closed.yaml: queue 'c' is none of the history; it has a, b" in simulated("whatif", "--queues", "closed.yaml", code=2).err
    )


def test_a_window_begins_with_what_was_there(simulated: Lahar) -> None:
    """At 07:05 philly-1 runs, and the two others wait for it."""
    options = ("--from", "2017-10-09T07:05:00", "--to", "2017-10-09T07:15:00", "--nodes", "more.csv", "--json")
    total = simulated("whatif", *options).record["total"]
    assert all(figure["model_error"] == 0 for figure in total.values())
    assert total["jobs"]["recorded"] == 3
    assert total["began"] == {"recorded": 2, "as_it_was": 2, "model_error": 0, "what_if": 2, "difference": 0}
    assert total["seconds"]["what_if"] == 600
    assert total["mean_wait_seconds"]["difference"] < -200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "nothing is to be different: give --scheduler, --queues, --nodes or --add-nodes"),
        (("--add-nodes", "2", "--like", "n9"), "there is no node 'n9'; there are n1"),
        (("--nodes", "none.csv"), "none.csv"),
        (("--nodes", "bad.yaml"), "1 of 1 objects could not be read; the first: bad.yaml: line 1: not YAML"),
        (("--queues", "bad.yaml"), "; correct the file"),
        (("--scheduler", "none.yaml"), "none.yaml: No such file"),
        (("--scheduler", "trace.csv"), "trace.csv: must be one mapping"),
        (("--recorded", "none.yaml", "--nodes", "more.csv"), "none.yaml: No such file"),
        (
            ("--nodes", "more.csv", "--from", "2016-01-01"),
            "2016-01-01T00:00:00.000000Z lies outside the history: it goes from 2017",
        ),
        (("--nodes", "more.csv", "--to", "2030-01-01"), "2030-01-01T00:00:00.000000Z lies outside the history"),
        (("--nodes", "more.csv", "--from", "2017-10-09T07:12", "--to", "2017-10-09T07:11"), "not after its begin"),
        (("--nodes", "more.csv", "--from", "2017-10-09T07:15", "--to", "2017-10-09T07:19"), "no job can be simulated between"),
        (("--nodes", "more.csv", "--from", "soon"), "'soon' is no time"),
        (("--nodes", "more.csv", "--cluster", "mars"), "the history has no job of cluster mars"),
        (
            ("--nodes", "more.csv", "--from", "2017-10-09T07:18", "--job", "default/philly-1"),
            "job default/philly-1 is not simulated: it has no part in the window",
        ),
    ],
)
def test_what_cannot_be_answered_is_one_clear_line(simulated: Lahar, options: tuple[str, ...], said: str) -> None:
    done = simulated("whatif", *options, code=2)
    assert said in done.err
    assert done.out == ""
    assert len(done.err.splitlines()) == 1


def test_a_history_without_nodes_needs_some(lahar: Lahar, folder: Path) -> None:
    (folder / "trace.csv").write_text(TRACE)
    (folder / "nodes.csv").write_text(NODES + "n1,32000,65536,8,\n")
    (folder / "idle.yaml").write_text('actions: "enqueue"\n')
    lahar("import-trace", "--format", "philly", "trace.csv")
    assert "the history has no nodes; give --nodes FILE" in lahar("whatif", "--scheduler", "idle.yaml", code=2).err
    total = lahar("whatif", "--nodes", "nodes.csv", "--json").record["total"]
    assert total["utilisation"]["recorded"] is None
    assert total["mean_wait_seconds"]["recorded"] == 0  # rows of this format start when they are submitted
    assert total["mean_wait_seconds"]["model_error"] > 100
    assert total["mean_wait_seconds"]["difference"] == 0


def test_an_empty_log_has_nothing_to_ask(lahar: Lahar, folder: Path) -> None:
    (folder / "nodes.csv").write_text(NODES + "n1,32000,65536,8,\n")
    lahar("ingest", given=json.dumps(node("n1", 4)))
    assert "the history has no job" in lahar("whatif", "--nodes", "nodes.csv", code=2).err


def test_two_clusters_are_asked_about_one_by_one(lahar: Lahar, folder: Path) -> None:
    (folder / "nodes.csv").write_text(NODES + "n1,32000,65536,8,\n")
    for name in ("east", "west"):
        (folder / f"{name}.csv").write_text(TRACE)
        lahar("import-trace", "--format", "philly", f"{name}.csv")
    done = lahar("whatif", "--nodes", "nodes.csv", code=2)
    assert "the history has jobs of 2 clusters: give --cluster east or west" in done.err
    assert lahar("whatif", "--nodes", "nodes.csv", "--cluster", "west", "--json").record["total"]["jobs"]["recorded"] == 4


def test_pods_of_services_keep_their_places(of_others: Lahar, folder: Path) -> None:
    """A pod of nobody holds the whole new node until 10:20: both jobs wait for it."""
    service = pod("service", 8, ("09:50:00", "09:50:00", "09:50:00", "10:20:00"))
    del service["metadata"]["ownerReferences"]
    of_others("ingest", given=json.dumps(service))
    answer = of_others("whatif", "--nodes", "nodes.csv", "--job", "default/second", "--json").record
    assert answer["total"]["jobs"]["recorded"] == 2
    assert 19 * 60 < answer["jobs"]["default/second"]["wait_seconds"]["what_if"] < 19 * 60 + 10


@pytest.mark.parametrize("stays", [False, True])
def test_a_pod_moved_to_the_job_above_its_own_is_simulated_there_alone(of_others: Lahar, stays: bool) -> None:
    """Two pods of 2 GPUs each, of a RayCluster whose RayJob was read later; `stays`: one had ended before that."""

    def worker(name: str, version: str, ended: bool) -> dict[str, Any]:
        one = pod(name, 2, ("10:00:00", "10:00:30", "10:00:35", "10:10:35"))
        one["metadata"]["ownerReferences"] = [cluster_owner]
        one["metadata"]["resourceVersion"] = version
        if not ended:
            one["status"]["phase"] = "Running"
            one["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": f"{DAY}10:00:35Z"}}
        return one

    cluster_owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rc", "uid": "u-rc", "controller": True}
    job_owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "rj", "uid": "u-rj", "controller": True}
    metadata = {"name": "rc", "namespace": "default", "uid": "u-rc", "ownerReferences": [job_owner]}
    cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata}
    of_others("ingest", given="\n".join(json.dumps(one) for one in (worker("p", "1", ended=False), worker("q", "1", ended=stays))))
    later = [cluster, worker("p", "2", ended=True), worker("q", "2", ended=True)]
    of_others("ingest", given="\n".join(json.dumps(one) for one in later))
    done = of_others("whatif", "--nodes", "nodes.csv", "--json")
    assert "could not be simulated" not in done.err
    assert done.record["total"]["jobs"]["recorded"] == (4 if stays else 3)
    assert done.record["total"]["gpu_seconds_held"]["recorded"] == 4 * (605 + 305) + 2 * 2 * 605


def test_unreadable_inputs_are_passed_over(simulated: Lahar, folder: Path) -> None:
    simulated("ingest", given="garbage {{{\n", code=1)
    assert simulated("whatif", "--nodes", "more.csv", "--json").record["total"]["jobs"]["recorded"] == 4


def test_a_damaged_log_is_named(simulated: Lahar, folder: Path) -> None:
    with sqlite3.connect(folder / "lahar.db") as file:
        file.execute("""UPDATE "job-events/0" SET data = data || x'20' WHERE "offset" = 3""")
    file.close()
    done = simulated("whatif", "--nodes", "more.csv", code=4)
    assert "job-events/0" in done.err


def test_rules_with_which_jobs_only_stop_each_other_are_told(lahar: Lahar, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "_LONGEST_PAUSE", 6)
    rows = "2017-10-09 07:00:00,600,16,1,a\n2017-10-09 07:00:05,600,16,1,b\n"
    (folder / "trace.csv").write_text(TRACE.partition("\n")[0] + "\n" + rows)
    (folder / "nodes.csv").write_text(NODES + "n1,32000,65536,8,\nn2,32000,65536,8,\n")
    plugins = "{name: gang, enableReclaimable: false}, {name: conformance}, {name: predicates}"
    (folder / "evicting.yaml").write_text(f'actions: "enqueue, allocate, reclaim"\ntiers: [{{plugins: [{plugins}]}}]\n')
    lahar("simulate", "--trace", "trace.csv", "--format", "philly", "--nodes", "nodes.csv", "--log", "sqlite:lahar.db")
    done = lahar("whatif", "--scheduler", "evicting.yaml", "--json")
    assert "2 jobs only stopped each other in a simulation, which ended there" in done.err
    assert len(done.record["livelock"]) == 2
    assert (done.record["total"]["finished"]["as_it_was"], done.record["total"]["finished"]["what_if"]) == (2, 0)
