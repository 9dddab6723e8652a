"""Jobs, bills and lists of pods whose owners change, are pods, or are of kinds that Lahar does not know."""

from __future__ import annotations

import json

import pytest

JOB = {"apiVersion": "batch/v1", "kind": "Job"}


def owner(name: str, kind: str = "Job", api: str = "batch/v1", **fields: object) -> dict[str, object]:
    return {"apiVersion": api, "kind": kind, "name": name, "uid": f"u-{name}", "controller": True, **fields}


def pod(
    name: str,
    *owners: dict[str, object],
    version: int = 1,
    began: str = "08:00:05",
    ended: str = "",
    at: str = "",
    spec: dict[str, object] | None = None,
) -> dict[str, object]:
    """A pod of one core since `began`, running or succeeded; `at`: another time that it shows."""
    state = {"terminated": {"exitCode": 0, "startedAt": day(began), "finishedAt": day(ended)}} if ended else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": f"u-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": day("08:00:00"),
            "ownerReferences": list(owners),
        },
        "spec": {
            "restartPolicy": "Never",
            "nodeName": "n1",
            "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
            **(spec or {}),
        },
        "status": {
            "phase": "Succeeded" if ended else "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": day(at)}] if at else [],
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": state or {"running": {"startedAt": day(began)}}}],
        },
    }


def job(name: str, created: str, version: int, status: dict[str, object]) -> dict[str, object]:
    metadata = {
        "name": name,
        "namespace": "lab",
        "uid": f"u-{name}",
        "creationTimestamp": day(created),
        "resourceVersion": str(version),
    }
    return {**JOB, "metadata": metadata, "spec": {"completions": 1, "parallelism": 1}, "status": status}


def ray_job(version: int, **status: object) -> dict[str, object]:
    metadata = {"name": "rj", "namespace": "lab", "uid": "u-rj", "creationTimestamp": day("08:00:00")}
    metadata["resourceVersion"] = str(version)
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "status": status}


def day(time: str) -> str:
    return f"2026-04-01T{time}Z"


def lines(*objects: dict[str, object]) -> str:
    """Watch events; an object with the key `gone` was deleted."""
    return "".join(json.dumps({"type": "DELETED" if "gone" in one else "MODIFIED", "object": one}) + "\n" for one in objects)


def billed(lahar):
    """Core seconds by id of the job."""
    found: dict[str, float] = {}
    for record in lahar("billing", "export", "--format", "jsonl", "--all").records:
        if record["meter"] == "cpu_seconds":
            found[record["job"]] = found.get(record["job"], 0) + float(record["quantity"])
    return found


@pytest.mark.parametrize("recorded", [(), ("--recorded",)])
def test_an_orphaned_and_adopted_pod_is_billed_once_with_its_full_run_time(lahar, recorded):
    stream = lines(
        job("old", "08:00:00", 1, {"active": 1, "startTime": day("08:00:00")}),
        pod("p", owner("old"), version=2),
        {**job("old", "08:00:00", 3, {"active": 1, "startTime": day("08:00:00")}), "gone": 1},
        pod("p", version=4),
        job("new", "08:30:00", 5, {"active": 1, "startTime": day("08:30:00")}),
        pod("p", owner("new"), version=6, at="09:00:00"),
        pod("p", owner("new"), version=7, ended="10:00:05"),
    )
    lahar("ingest", *recorded, given=stream)
    (of_old,) = {line["id"]: line for line in lahar("job", "list", "--all", "--json").records if line["attempts"]}.values()
    assert of_old["name"] == "old"
    assert sum(billed(lahar).values()) == 7200
    assert "verify: ok" in lahar("billing", "verify", code=0).out
    shown = lahar("job", "list", "--all").out
    assert "Running" not in shown.splitlines()[1]
    assert "-1 d" not in shown


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_service_that_adopts_a_pod_is_named_by_its_kind(lahar, kind):
    adopted = pod("p", owner("web", kind, "apps/v1"), version=3, at="08:10:00")
    lahar("ingest", "--recorded", given=lines(pod("p", owner("old"), version=2), adopted))
    assert f"its pod now belongs to {kind}/web" in lahar("events").out


def test_a_pod_that_runs_on_behind_its_deleted_job_runs_so_far(lahar):
    stream = lines(
        job("old", "08:00:00", 1, {"active": 1, "startTime": day("08:00:00")}),
        pod("p", owner("old"), version=2),
        {**job("old", "08:00:00", 3, {"active": 1, "startTime": day("08:00:00")}), "gone": 1},
        pod("p", version=4, at="08:01:00"),
        pod("p", version=5, at="09:00:05"),
    )
    lahar("ingest", "--recorded", given=stream)
    assert lahar("job", "list").out.splitlines()[1].split()[-5:] == ["s", "1", "h", "so", "far"]
    assert "has no owner any more" in lahar("events").out


def test_a_command_that_reads_less_of_a_chain_changes_no_owner_and_no_bill(lahar):
    cluster = middle("RayCluster", "rj-c", owner("rj", "RayJob", "ray.io/v1"))
    head = owner("rj-c", "RayCluster", "ray.io/v1")
    running = ray_job(1, jobDeploymentStatus="Running", jobStatus="RUNNING", startTime=day("08:00:00"))
    ended = ray_job(9, jobDeploymentStatus="Complete", jobStatus="SUCCEEDED", endTime=day("08:30:00"))
    lahar("ingest", "--recorded", given=lines(cluster, running, pod("head", head, version=2)))
    lahar("ingest", "--recorded", given=lines(pod("head", head, version=3, at="08:10:00")))
    lahar("ingest", "--recorded", given=lines(ended, pod("late", began="20:00:00", version=10)))
    shown = {line["name"]: line for line in lahar("job", "list", "--all", "--json").records}
    assert shown["rj"]["phase"] == "Completed"
    assert "now belongs to" not in lahar("events").out
    assert billed(lahar).get("u-rj", 0) < 3600  # it was last seen ten minutes after it began
    assert "so far" not in next(line for line in lahar("job", "list").out.splitlines() if "lab/rj" in line)


@pytest.mark.parametrize(
    ("owners", "kind"),
    [
        ([owner("dask", "DaskWorkerGroup", "kubernetes.dask.org/v1")], "DaskWorkerGroup"),
        ([owner("trial", "Trial", "kubeflow.org/v1beta1")], "Trial"),
        ([], "Pod"),
    ],
)
def test_a_pod_of_a_kind_that_nobody_knows_is_a_job_and_billed(lahar, owners, kind):
    lahar("ingest", "--recorded", given=lines(pod("p", *owners, ended="09:00:05")))
    (line,) = lahar("job", "list", "--json").records
    assert (line["kind"], line["phase"], line["name"]) == (kind, "Completed", owners[0]["name"] if owners else "p")
    assert "1.00      0  open" in lahar("billing", "invoice").out


def test_the_pods_of_services_are_shown_and_billed_on_request_only(lahar):
    service = pod("always", spec={"restartPolicy": "Always"})
    lahar("ingest", "--recorded", given=lines(pod("web", owner("web-5d", "ReplicaSet", "apps/v1"), ended="09:00:05"), service))
    assert lahar("job", "list", "--json").records == []
    assert {line["kind"] for line in lahar("job", "list", "--all", "--json").records} == {"Other"}
    assert "1.00      0  open" in lahar("billing", "invoice", "--all").out


def driver(ended: str = "09:00:05"):
    return pod("agg-driver", owner("agg", "SparkApplication", "sparkoperator.k8s.io/v1beta2"), ended=ended)


def executor(number: int, *owners: dict[str, object], ended: str = "08:20:00"):
    return pod(f"agg-exec-{number}", *owners, owner("agg-driver", "Pod", "v1"), began="08:00:15", ended=ended)


@pytest.mark.parametrize("recorded", [(), ("--recorded",)])
@pytest.mark.parametrize("stream", ["driver first", "executors first", "list", "in two commands"])
def test_the_executors_of_a_driver_are_attempts_of_its_application(lahar, recorded, stream):
    executors = [executor(1), executor(2)]
    pods = [driver(), *executors] if stream in {"driver first", "in two commands"} else [*executors, driver()]
    if stream == "list":
        lahar("ingest", *recorded, given=json.dumps({"kind": "List", "apiVersion": "v1", "items": pods}))
    elif stream == "in two commands":
        lahar("ingest", *recorded, given=lines(*pods[:1]))
        lahar("ingest", *recorded, given=lines(*pods[1:]))
    else:
        lahar("ingest", *recorded, given=lines(*pods))
    (line,) = lahar("job", "list", "--json").records
    assert (line["kind"], line["name"], line["attempts"], line["phase"]) == ("SparkApplication", "agg", 3, "Completed")
    assert sum(billed(lahar).values()) == 3600 + 2 * (19 * 60 + 45)


def test_an_owner_beside_the_driver_is_the_job_of_a_lone_executor(lahar):
    application = {**owner("agg", "SparkApplication", "sparkoperator.k8s.io/v1beta2"), "controller": False}
    lahar("ingest", given=lines(executor(1, application)))
    (line,) = lahar("job", "list", "--json").records
    assert (line["kind"], line["name"], line["id"]) == ("SparkApplication", "agg", "u-agg")


def late_driver(lahar, *recorded: str):
    """Executors are read first, then their driver's pod, then the executors again: three commands. The driver waits in vain."""
    spark = owner("agg", "SparkApplication", "sparkoperator.k8s.io/v1beta2")
    controlled = owner("agg-driver", "Pod", "v1")
    first = [pod(f"agg-exec-{number}", controlled, began="08:00:15", at="08:00:20") for number in (1, 2)]
    lahar("ingest", *recorded, given=lines(*first, pod("other", ended="09:30:00")))  # the hour marks of an hour and a half
    lahar("ingest", *recorded, given=lines(pod("agg-driver", spark, version=5, at="09:40:00")))
    again = [pod(f"agg-exec-{number}", controlled, version=9, began="08:00:15", at="09:45:00") for number in (1, 2)]
    lahar("ingest", *recorded, given=lines(*again))
    return lines(*first, *again)


def jobs_of(lahar):
    return {line["id"]: line for line in lahar("job", "list", "--all", "--json").records}


def test_executors_move_to_the_job_of_their_driver_that_came_later(lahar):
    streams = late_driver(lahar, "--recorded")
    found = jobs_of(lahar)
    assert (found["u-agg"]["kind"], found["u-agg"]["attempts"], found["u-agg"]["live"]) == ("SparkApplication", 3, 3)
    below = found["u-agg-driver"]
    assert (below["phase"], below["reason"], below["attempts"], below["live"]) == ("Terminated", "Moved", 0, 0)
    assert "2 of its pods moved to SparkApplication/agg, job u-agg, of which it is a part." in lahar("why", "u-agg-driver").out
    assert "2 of its pods came from job u-agg-driver, which is a part of it." in lahar("why", "u-agg").out
    assert "main[1] has no pod any more." in lahar("why", "u-agg-driver", "main[1]").out
    told = lahar("events").out
    assert told.count("attempt.moved.v1") == 2
    lahar("ingest", "--recorded", given=streams)  # both again
    more = lahar("events").out.removeprefix(told).splitlines()
    assert [line.split(": ")[1] for line in more] == ["4 duplicate"]


def test_what_executors_used_is_billed_once_when_they_move(lahar):
    late_driver(lahar, "--recorded")
    ends = [pod(f"agg-exec-{number}", version=30, began="08:00:15", ended="10:00:15") for number in (1, 2)]
    for one in ends:
        one["metadata"]["ownerReferences"] = [owner("agg-driver", "Pod", "v1")]
    last = {**driver("10:00:20"), "metadata": {**driver()["metadata"], "resourceVersion": "31"}}
    lahar("ingest", "--recorded", given=lines(*ends, last))
    assert {job: used for job, used in billed(lahar).items() if used and job != "u-other"} == {"u-agg": 2 * 7200 + 7215}
    assert jobs_of(lahar)["u-agg"]["phase"] == "Completed"
    assert "verify: ok" in lahar("billing", "verify", code=0).out
    assert all("agree" in line for line in lahar("verify", code=0).out.splitlines() if line)


def test_what_was_known_before_pods_moved_can_be_asked(lahar):
    late_driver(lahar, "--recorded")
    known = lahar("as-of", "2026-04-01T09:42:00Z", "u-agg-driver", "--known", "--json").record
    assert (known["phase"], len(known["attempts"])) == ("Running", 2)
    so = lahar("as-of", "2026-04-01T09:42:00Z", "u-agg-driver", "--json").record
    assert (so["phase"], so["reason"], so["attempts"]) == ("Terminated", "Moved", {})
    above = lahar("as-of", "2026-04-01T09:42:00Z", "u-agg", "--json").record
    assert len(above["attempts"]) == 3
    changed = lahar("diff", "--known", "2026-04-01T09:42:00Z", "2026-04-01T09:46:00Z", code=1).out
    assert "jobs.lab/agg-driver@u-agg-driver.live" in changed
    assert "jobs.lab/agg@u-agg.live" in changed
    assert "agg-exec" not in lahar("timeline", "u-agg-driver").out


def middle(kind: str, name: str, *owners: dict[str, object]):
    return {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": name, "uid": f"u-{name}", "ownerReferences": list(owners)}}


@pytest.mark.parametrize("listed", [True, False])
def test_the_top_of_a_chain_that_was_read_is_the_job(lahar, listed):
    """A Flink job manager: service kinds stand between it and what it belongs to."""
    chain = [
        middle("Deployment", "flink", owner("stream", "FlinkDeployment", "flink.apache.org/v1beta1")),
        middle("ReplicaSet", "flink-5d", owner("flink", "Deployment", "apps/v1")),
    ]
    manager = pod("flink-5d-x", owner("flink-5d", "ReplicaSet", "apps/v1"), ended="09:00:05")
    items = [manager, *chain]
    lahar("ingest", given=json.dumps({"kind": "List", "apiVersion": "v1", "items": items}) if listed else lines(*items))
    (line,) = lahar("job", "list", "--json").records
    assert (line["kind"], line["name"]) == ("FlinkDeployment", "stream")


def indexed(one):
    """A pod of an indexed Job, the first."""
    labels = {"batch.kubernetes.io/job-completion-index": "0"}
    return {**one, "metadata": {**one["metadata"], "labels": labels}}


RAY_JOB = owner("rj", "RayJob", "ray.io/v1")
TRAIN_JOB = owner("tj", "TrainJob", "trainer.kubeflow.org/v1alpha1")
MPI_JOB = owner("mpi", "MPIJob", "kubeflow.org/v2beta1")


def part(kind: str, api: str, name: str, above: dict[str, object], status: dict[str, object]):
    """A job object that another job controls."""
    return {**middle(kind, name, above), "apiVersion": api, "status": status}


CHAINS = {
    "RayJob": [
        {**middle("RayJob", "rj"), "apiVersion": "ray.io/v1"},
        part("Job", "batch/v1", "rj", RAY_JOB, {"succeeded": 1}),
        part("RayCluster", "ray.io/v1", "rj-c", RAY_JOB, {"state": "ready"}),
        pod("sub", owner("rj-sub"), ended="09:00:05"),
        pod("head", owner("rj-c", "RayCluster", "ray.io/v1"), ended="09:00:05"),
    ],
    "TrainJob": [
        {**middle("TrainJob", "tj"), "apiVersion": "trainer.kubeflow.org/v1alpha1"},
        part("JobSet", "jobset.x-k8s.io/v1alpha2", "tj-set", TRAIN_JOB, {"restarts": 0}),
        part("Job", "batch/v1", "tj-a", owner("tj-set", "JobSet", "jobset.x-k8s.io/v1alpha2"), {"active": 1}),
        part("Job", "batch/v1", "tj-b", owner("tj-set", "JobSet", "jobset.x-k8s.io/v1alpha2"), {"active": 1}),
        indexed(pod("a-0", owner("tj-a"), ended="09:00:05")),
        indexed(pod("b-0", owner("tj-b"), ended="09:00:05")),
    ],
    "MPIJob": [
        {**middle("MPIJob", "mpi"), "apiVersion": "kubeflow.org/v2beta1"},
        part("Job", "batch/v1", "mpi-launcher", MPI_JOB, {"active": 1}),
        pod("launcher", owner("mpi-launcher"), ended="09:00:05"),
        pod("worker", MPI_JOB, ended="09:00:05"),
    ],
}
CHAINS["RayJob"][1]["metadata"]["uid"] = "u-rj-sub"  # KubeRay: the submitter has the name of its RayJob


@pytest.mark.parametrize("turn", [0, 2, 4])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("kind", CHAINS)
def test_the_objects_between_a_job_and_its_pods_are_no_jobs(lahar, kind, listed, turn):
    items = CHAINS[kind][turn:] + CHAINS[kind][:turn]
    for item in items:
        item["metadata"]["namespace"] = "lab"
    items += [{**one, "gone": 1} for one in items if one["kind"] in {"Job", "JobSet"}]
    lahar("ingest", given=json.dumps({"kind": "List", "apiVersion": "v1", "items": items}) if listed else lines(*items))
    (line,) = lahar("job", "list", "--all", "--json").records
    assert (line["kind"], line["attempts"]) == (kind, 2)
    assert billed(lahar) == {line["id"]: 7200}
    assert "CommandRefused" not in lahar("events", "--json").out


def test_the_top_of_a_chain_is_the_job_whatever_its_kind(lahar):
    trial = middle("Trial", "trial", owner("tuning", "Experiment", "kubeflow.org/v1beta1"))
    training = part("PyTorchJob", "kubeflow.org/v1", "trial-1", owner("trial", "Trial", "kubeflow.org/v1beta1"), {})
    worker = pod("worker", owner("trial-1", "PyTorchJob", "kubeflow.org/v1"), ended="09:00:05")
    for item in (trial, training):
        item["metadata"]["namespace"] = "lab"
    lahar("ingest", given=lines(trial, training, worker))
    (line,) = lahar("job", "list", "--all", "--json").records
    assert (line["kind"], line["name"], line["attempts"]) == ("Experiment", "tuning", 1)


@pytest.mark.parametrize(("kind", "api"), [("CronJob", "batch/v1"), ("ScaledJob", "keda.sh/v1alpha1"), ("Deployment", "apps/v1")])
def test_a_job_of_a_schedule_or_of_a_service_is_a_job_of_its_own(lahar, kind, api):
    started = part("Job", "batch/v1", "j", owner("top", kind, api), {"active": 1})
    started["metadata"]["namespace"] = "lab"
    lahar("ingest", given=lines(started, pod("p", owner("j"), ended="09:00:05")))
    (line,) = lahar("job", "list", "--all", "--json").records
    assert (line["kind"], line["name"], line["attempts"]) == ("Job", "j", 1)


def test_a_schedule_of_jobs_is_no_job_and_services_stay_services(lahar):
    flow = middle("Workflow", "flow-1", owner("nightly", "CronWorkflow", "argoproj.io/v1alpha1"))
    web = middle("ReplicaSet", "web-5d", owner("web", "Deployment", "apps/v1"))
    step = pod("step", owner("flow-1", "Workflow", "argoproj.io/v1alpha1"), ended="09:00:05")
    served = pod("web-5d-x", owner("web-5d", "ReplicaSet", "apps/v1"), ended="09:00:05")
    lahar("ingest", given=lines(flow, web, step, served))
    shown = lahar("job", "list", "--all", "--json").records
    assert {(line["kind"], line["name"]) for line in shown} == {("Workflow", "flow-1"), ("Other", "web-5d")}


def test_a_ring_of_owners_ends(lahar):
    ring = [middle("A", "a", owner("b", "B", "x/v1")), middle("B", "b", owner("a", "A", "x/v1"))]
    lahar("ingest", given=lines(*ring, pod("p", owner("a", "A", "x/v1"), ended="09:00:05")))
    (line,) = lahar("job", "list", "--json").records
    assert line["attempts"] == 1


def test_the_configuration_says_which_kinds_are_no_jobs(lahar, folder):
    (folder / "lahar.toml").write_text('services = ["Notebook", "Pod"]\n')
    pods = [pod("n", owner("jupyter", "Notebook", "kubeflow.org/v1")), pod("alone"), pod("t", owner("train"))]
    lahar("ingest", "--recorded", given=lines(*pods))
    assert [line["name"] for line in lahar("job", "list", "--json").records] == ["train"]
    assert len(lahar("job", "list", "--all", "--json").records) == 3
