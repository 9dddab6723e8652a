"""One log, two clusters: what has the same name in both is told apart, and shown with its cluster."""

from __future__ import annotations

import json
from shutil import copytree

import pytest
import yaml
from watched_pods import JOB, pod, watched

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
QUEUE = {"apiVersion": "lahar.dev/v1", "kind": "Queue", "metadata": {"name": "shared"}, "spec": {"weight": 1}}


def node(version, ready):
    condition = {"type": "Ready", "status": ready}
    metadata = {"name": "n1", "uid": f"node-{version}", "resourceVersion": str(version)}
    return json.dumps({**NODE, "metadata": metadata, "status": {"conditions": [condition]}})


def manifest(**spec):
    changed = yaml.safe_load(JOB)
    changed["spec"] |= spec
    return json.dumps(changed)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where the log of `both` is kept for the next test."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def both(lahar, folder, kept):
    """The same queue, node, job and pod in two clusters; ids of the jobs by cluster."""
    if any(kept.iterdir()):
        copytree(kept, folder, dirs_exist_ok=True)
    else:
        for cluster in ("alpha", "beta"):
            (folder / "lahar.toml").write_text(f'cluster = "{cluster}"\n')
            for given in (json.dumps(NODE), json.dumps(QUEUE), manifest(queue="shared")):
                lahar("apply", "-", given=given)
            lahar("ingest", "-", given=watched(pod("same", listed(lahar)[cluster], "Running")))
        copytree(folder, kept, dirs_exist_ok=True)
    return listed(lahar)


def listed(lahar):
    return {line["cluster"]: line["id"] for line in lahar("job", "list", "--json").records}


def reasons(lahar, both):
    shown = {cluster: lahar("job", "show", job, "--json").record["attempts"] for cluster, job in both.items()}
    return {cluster: attempts["worker[0]#1"]["reason"] for cluster, attempts in shown.items()}


def test_a_node_that_is_not_ready_concerns_only_its_cluster(lahar, both):
    lahar("ingest", "--cluster", "beta", "-", given=node(9, "Unknown"))
    assert reasons(lahar, both) == {"alpha": None, "beta": "Suspect"}
    lahar("ingest", "--cluster", "alpha", "-", given=node(7, "True"))
    assert reasons(lahar, both) == {"alpha": None, "beta": "Suspect"}
    assert "1 processed" in lahar("ingest", "--cluster", "beta", "-", given=node(10, "True")).out
    assert reasons(lahar, both) == {"alpha": None, "beta": None}
    assert [found["ok"] for found in lahar("verify", "--json").records] == [True] * 4


def test_nodes_and_queues_are_shown_with_their_cluster(lahar, both):
    shown = lahar("as-of", "2100-01-01", "--json").record
    assert set(shown["nodes"]) == {"alpha/n1", "beta/n1"}
    assert set(shown["queues"]) == {"alpha/shared", "beta/shared"}
    assert [node["attempts"] for node in shown["nodes"].values()] == [1, 1]
    assert lahar("as-of", "2100-01-01", "--queue", "beta/shared", "--json").record["jobs_by_phase"] == {"Running": 1}


def test_a_queue_is_named_without_its_cluster_where_one_alone_has_it(lahar, both):
    assert "--queue alpha/shared or beta/shared" in lahar("as-of", "2100-01-01", "--queue", "shared", code=2).err
    lahar("apply", "-", given=json.dumps(QUEUE | {"metadata": {"name": "own"}}))
    other = json.loads(manifest(queue="own"))
    other["metadata"] = {"name": "other", "namespace": "ml"}
    lahar("apply", "-", given=json.dumps(other))
    shown = lahar("as-of", "2100-01-01", "--queue", "own", "--json").record
    assert (shown["queue"], shown["jobs_by_phase"]) == ("beta/own", {"Pending": 1})
    assert "no queue 'ow'" in lahar("as-of", "2100-01-01", "--queue", "ow", code=3).err


def test_the_summary_has_each_cluster(lahar, both):
    summed = lahar("summary", "--json").record
    assert summed["by_queue"]["shared"]["jobs"] == 2
    assert {name: group["by_queue"]["shared"]["jobs"] for name, group in summed["by_cluster"].items()} == {"alpha": 1, "beta": 1}
    one = lahar("summary", "--cluster", "beta", "--json").record
    assert (one["jobs"], "by_cluster" in one) == (1, False)
    assert "beta" in lahar("summary").out


def test_jobs_are_listed_by_cluster(lahar, both):
    assert "CLUSTER" in lahar("job", "list").out
    (line,) = lahar("job", "list", "--cluster", "beta", "--json").records
    assert line["id"] == both["beta"]
    assert "CLUSTER" not in lahar("job", "list", "--cluster", "beta").out


def test_a_name_of_two_clusters_is_not_guessed(lahar, both):
    said = lahar("job", "command", "research/train", "AbortJob", code=2).err
    assert "'research/train' matches 2 jobs: alpha/research/train, beta/research/train; give the cluster" in said
    lahar("job", "command", "beta/research/train", "AbortJob")
    phases = {line["cluster"]: line["phase"] for line in lahar("job", "list", "--json").records}
    assert phases == {"alpha": "Running", "beta": "Aborting"}


def test_a_job_is_updated_in_its_own_cluster(lahar, both, folder):
    (folder / "lahar.toml").write_text('cluster = "alpha"\n')
    grown = yaml.safe_load(manifest(queue="shared"))
    grown["spec"]["tasks"][0]["replicas"] = 3
    lahar("apply", "-", given=json.dumps(grown))
    replicas = {cluster: lahar("job", "show", job, "--json").record["tasks"]["worker"]["replicas"] for cluster, job in both.items()}
    assert replicas == {"alpha": 3, "beta": 1}
