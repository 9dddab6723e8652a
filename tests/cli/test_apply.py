"""`lahar apply` and `lahar job …`: what is given to Lahar, and what it says became of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.application.known_jobs import KnownJobs
from engine.events import Event, encode
from engine.events.inputs import JobSubmitted
from engine.events.outcomes import Fault, JobRejected
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog

PAPER = """\
# Run a job

```
yaml

apiVersion: batch/v1

kind: Job

metadata:

  name: PaddlePaddle-cluster-job

spec:

  parallelism: 3

  completions: 3

  template:

    metadata:

      name: PaddlePaddle-cluster-job

    spec:

      containers:

      - name: trainer

        image: your\\_repo/paddle:mypaddle

      restartPolicy: Never
```
"""


@pytest.fixture
def known(lahar, files):
    """A log that knows the queue and the job."""
    lahar("apply", files["queue"], files["job"])
    return lahar


def events(lahar, job="ml/train"):
    return [(record["type"], record["data"]) for record in lahar("history", job, "--json").records]


class TestApply:
    def test_a_new_job_is_submitted(self, lahar, files):
        done = lahar("apply", files["queue"], files["job"])
        assert done.out.splitlines()[0] == "Queue research: created"
        assert "the job ml/train with 2 replicas was submitted to queue research" in done.out
        assert lahar("job", "list", "--json").record["phase"] == "Pending"

    def test_the_same_again_changes_nothing(self, known, files):
        *before, _ = known("export").records
        assert known("apply", files["queue"], files["job"]).out == "Queue research: unchanged\nml/train: unchanged\n"
        assert known("apply", files["job"], "--json").record["outcome"] == "unchanged"
        assert len(known("history", "ml/train").out.splitlines()) == 5
        assert known("export").records[: len(before)] == before

    def test_a_changed_job_is_updated_and_may_be_changed_back_and_forth(self, known, files):
        for name in ("changed", "job", "changed"):
            assert "the specification of the job changed" in known("apply", files[name]).out
        assert known("job", "show", "ml/train", "--json").record["min_available"] == 2
        assert [kind for kind, _ in events(known)].count("lahar.job.revised.v1") == 3

    def test_an_update_that_is_not_allowed_is_refused_with_its_path(self, known, files):
        files["job"].write_text(files["job"].read_text().replace("minAvailable: 1", "maxRetry: 9"))
        done = known("apply", files["job"], code=2)
        assert done.err.startswith("lahar: ")
        assert "job.yaml: line 6, column 3: spec.maxRetry: " in done.err

    def test_every_path_that_cannot_change_is_named_and_nothing_is_applied(self, known, files, folder):
        before = known("export").out
        text = files["job"].read_text().replace("image: train", "image: other")
        files["job"].write_text(text.replace("spec:\n", "spec:\n  plugins: {env: [--off]}\n", 1))
        done = known("apply", files["changed"], files["job"], code=2)
        assert f"lahar: {files['job']}: line " in done.err
        for path in ("spec.plugins", "spec.tasks[0].template.spec.containers[0].image"):
            assert f" {path}: cannot change: an update may change minAvailable" in done.err
        assert known("export").out == before

    def test_what_cannot_change_is_refused_also_where_the_submission_is_gone(self, known, files, monkeypatch):
        monkeypatch.setattr(KnownJobs, "submitted", lambda self, job: None)
        files["job"].write_text(files["job"].read_text().replace("image: train", "image: other"))
        done = known("apply", files["job"], code=2)
        assert "job.yaml: line 5, column 1: spec: a pod template, a volume" in done.err

    def test_labels_are_said_not_to_be_taken_over(self, known, files):
        files["job"].write_text(files["job"].read_text().replace("metadata: {", "metadata: {labels: {a: b}, ", 1))
        done = known("apply", files["job"])
        assert done.out == "ml/train: unchanged\n"
        assert "are ignored while it runs" in done.err

    def test_one_job_twice_in_the_files_is_submitted_and_updated(self, lahar, files):
        outcomes = [
            record.get("outcome") for record in lahar("apply", *map(files.get, ("queue", "job", "changed")), "--json").records
        ]
        assert outcomes == ["created", "applied", "applied"]
        assert lahar("job", "show", "ml/train", "--json").record["min_available"] == 2

    def test_a_rejected_job_names_file_place_and_path(self, lahar, files):
        done = lahar("apply", files["queue"], files["wrong"], code=2)
        assert f"lahar: {files['wrong']}: line 10, column 5: spec.tasks[0].replicas: must be at least 0\n" in done.err
        record = lahar("apply", files["wrong"], "--json", code=2).record
        assert (record["outcome"], record["name"]) == ("rejected", "ml/wrong")
        assert {"path": "spec.tasks[0].replicas", "message": "must be at least 0"} in record["faults"]
        assert lahar("job", "list").out.splitlines()[1:] == []

    @pytest.mark.parametrize("command", [("apply",), ("job", "submit")])
    def test_a_rejected_job_is_told_with_its_warnings(self, known, files, folder, command):
        """So that both are corrected at once; with --strict each stands there once."""
        file = folder / "both.yaml"
        file.write_text(files["odd"].read_text().replace("replicas: 2", "replicas: -2"))
        done = known(*command, file, code=2)
        assert f"lahar: {file}: line 11, column 5: spec.tasks[0].replicas: must be at least 0\n" in done.err
        assert f"warning: {file}: line 7, column 3: spec.colour: unknown field\n" in done.err
        assert known(*command, file, "--strict", code=2).err.count("spec.colour") == 1

    def test_a_job_that_was_rejected_is_judged_anew(self, lahar, files):
        assert "there is no queue 'research'" in lahar("apply", files["job"], code=2).err
        assert "there is no queue 'research'" in lahar("apply", files["job"], code=2).err
        lahar("apply", files["queue"])
        assert "was submitted" in lahar("apply", files["job"]).out
        assert "unchanged" in lahar("apply", files["job"]).out

    def test_an_unknown_field_is_a_warning_and_with_strict_an_error(self, known, files):
        assert "spec.colour: unknown field" in known("apply", files["odd"], "--strict", code=2).err
        done = known("apply", files["odd"])
        assert done.err == f"warning: {files['odd']}: line 7, column 3: spec.colour: unknown field\n"
        assert "was submitted" in done.out
        assert "spec.colour" in known("apply", files["odd"]).err
        assert "spec.colour" in known("apply", files["odd"], "--strict", code=2).err

    def test_objects_of_the_cluster(self, lahar, folder):
        file = folder / "objects.yaml"
        file.write_text(
            "{kind: Queue, metadata: {name: q}, spec: {weight: 1}}\n---\n"
            "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {capacity: {cpu: 4}, allocatable: {cpu: 4}}}\n---\n"
            "{apiVersion: lahar.dev/v1, kind: Tenant, metadata: {name: t}, spec: {}}\n---\n"
            "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}"
        )
        assert lahar("apply", file).out == "Queue q: created\nNode n: created\nTenant t: created\nPriorityClass high: created\n"
        assert {record["outcome"] for record in lahar("apply", file, "--json").records} == {"unchanged"}
        file.write_text(file.read_text().replace("cpu: 4", "cpu: 8"))
        assert lahar("apply", file).out.splitlines()[1] == "Node n: changed"
        assert lahar("as-of", "2100-01-01", "--json").record["nodes"]["n"]["capacity"]["cpu_milli"] == 8000

    def test_a_queue_is_judged_among_all_that_there_will_be(self, lahar, folder):
        file = folder / "queues.yaml"
        child, parent = "{kind: Queue, metadata: {name: a}, spec: {parent: p}}", "{kind: Queue, metadata: {name: p}}"
        file.write_text(child)
        assert (
            "line 1, column 43: spec.parent: failed to get parent queue of queue a: there is no queue 'p'"
            in lahar("apply", file, code=2).err
        )
        file.write_text(f"{child}\n---\n{parent}")
        assert lahar("apply", file).out == "Queue a: created\nQueue p: created\n"
        file.write_text("{kind: Queue, metadata: {name: p}, spec: {parent: a}}")
        assert "queue p stands above itself: p → a → p" in lahar("apply", file, code=2).err

    def test_quotas_and_budgets(self, lahar, folder):
        file = folder / "quota.yaml"
        file.write_text(
            "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: ml}, spec: {hard: {requests.cpu: 4}}}\n---\n"
            "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: ml}, spec: {minAvailable: 1}}"
        )
        assert lahar("apply", file).out == "ResourceQuota ml/q: created\nPodDisruptionBudget ml/b: created\n"
        assert {record["outcome"] for record in lahar("apply", file, "--json").records} == {"unchanged"}

    def test_a_deleted_object_is_applied_again_from_its_saved_file(self, lahar, folder):
        """Such a file holds the version of then."""
        saved = folder / "queue.yaml"
        metadata = {"name": "q", "resourceVersion": "500", "uid": "u"}
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata, "spec": {"weight": 2}}
        saved.write_text(json.dumps(queue))
        gone = folder / "gone.json"
        later = {**queue, "metadata": {**metadata, "resourceVersion": "501"}}
        gone.write_text(json.dumps({"type": "DELETED", "object": later}))
        for outcome in ("created", "unchanged"):
            assert f"Queue q: {outcome}" in lahar("apply", saved).out
        lahar("ingest", gone)
        assert "Queue q: created" in lahar("apply", saved).out
        assert "q" in lahar("as-of", "2100-01-01T00:00:00Z", "--json").record["queues"]

    def test_a_job_in_a_markdown_page(self, lahar, folder):
        (folder / "page.md").write_text(PAPER)
        assert "metadata.name" in lahar("apply", "page.md", "--strict", code=2).err
        done = lahar("apply", "page.md")
        assert "default/PaddlePaddle-cluster-job with 3 replicas" in done.out
        assert "warning: page.md: line 1: metadata.name" in done.err

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "kind: ConfigMap\nmetadata: {name: x}",
                "ConfigMap cannot be applied; Lahar takes Job, Node, Queue, Tenant, PriorityClass, Grant, PriceBook, Resource",
            ),
            ("metadata: {name: x}", "an object without `kind` cannot be applied"),
            ("", "x.yaml: holds no object"),
            ("{kind: Queue, metadata: {name: q}, spec: {weight: -1}}", "x.yaml: line 1, column 43: Queue: spec.weight: should be"),
        ],
    )
    def test_what_cannot_be_applied(self, lahar, folder, files, text, message):
        (folder / "x.yaml").write_text(text)
        assert message in lahar("apply", files["queue"], "x.yaml", code=2).err
        assert not (folder / "lahar.db").exists()

    def test_of_a_file_with_broken_parts_nothing_is_applied(self, lahar, folder, files):
        (folder / "x.yaml").write_text(f"{files['queue'].read_text()}---\na: [1\n---\n3\n")
        done = lahar("apply", files["job"], "x.yaml", code=2)
        assert done.err.startswith("lahar: 2 of 3 objects could not be read; the first: x.yaml: line 6: not YAML")
        assert done.err.endswith("; nothing is applied\n")
        assert not (folder / "lahar.db").exists()

    @pytest.mark.parametrize(
        "text",
        [
            "kind: PriceBook\nspec:\n  currency: EUR\n  currency: USD\n",
            "{kind: PriceBook,\n spec: {\n  currency: EUR,\n  currency: USD}}\n",
            '{"kind": "PriceBook",\n "spec": {\n  "currency": "EUR",\n  "currency": "USD"}}\n',
        ],
    )
    def test_a_key_that_stands_twice_is_refused_in_any_notation(self, lahar, folder, text):
        (folder / "x").write_text(text)
        for command in (("apply",), ("job", "submit")):
            done = lahar(*command, "x", code=2)
            assert "x: line 4: the key 'currency' stands there twice;" in done.err
        assert not (folder / "lahar.db").exists()

    def test_a_file_that_is_not_there(self, lahar, folder):
        assert lahar("apply", "nowhere.yaml", code=2).err == "lahar: nowhere.yaml: No such file or directory\n"
        assert "Is a directory" in lahar("apply", folder, code=2).err

    def test_from_standard_input(self, lahar, files):
        assert lahar("apply", "-", given=files["queue"].read_bytes()).out == "Queue research: created\n"

    def test_only_appended(self, lahar, files):
        assert lahar("apply", files["queue"], files["job"], "--no-process").out == "Queue research: created\nml/train: appended\n"
        assert lahar("status", "--json").lifecycle["lag"] == 2
        assert lahar("run", "--once").out == "2 inputs and timers processed\n"
        assert lahar("run", "--once", "--json").record == {"processed": 0}
        assert lahar("job", "list", "--json").record["name"] == "train"

    def test_recorded_at_another_time(self, lahar, files):
        lahar("apply", files["queue"], files["job"], "--at", "2026-03-01T12:00:00Z")
        assert lahar("job", "list", "--json").record["submitted"] == "2026-03-01T12:00:00.000000Z"
        assert "is no time: write" in lahar("apply", files["job"], "--at", "noon", code=2).err


class TestApplyBesideWhatWaits:
    """Nobody has processed what was applied before, as on a log that workers process."""

    @pytest.fixture
    def queued(self, lahar, files):
        def call(*names):
            return lahar("apply", *map(files.get, names), "--no-process", "--json").records

        return call

    @pytest.fixture
    def jobs(self, lahar):
        def processed():
            lahar("run", "--once")
            listed = lahar("job", "list", "--json").records
            return [lahar("job", "show", job["id"], "--json").record for job in listed]

        return processed

    def test_a_job_whose_submission_waits_is_updated(self, queued, jobs):
        (_, submitted), (updated,) = queued("queue", "job"), queued("changed")
        assert submitted["job"] == updated["job"]
        assert [job["min_available"] for job in jobs()] == [2]

    def test_one_job_twice_in_the_files_is_submitted_and_updated(self, queued, jobs):
        queued("queue", "job", "changed")
        assert [job["min_available"] for job in jobs()] == [2]

    @pytest.mark.parametrize("known", [False, True])
    def test_the_last_manifest_counts(self, queued, jobs, known):
        queued("queue", "job")
        if known:
            jobs()
        for name in ("changed", "job", "changed", "changed"):
            queued(name)
        assert [job["min_available"] for job in jobs()] == [2]
        queued("job")
        assert [job["min_available"] for job in jobs()] == [1]

    def test_one_that_will_be_rejected_leaves_its_name_free(self, queued, jobs, files):
        files["wrong"].write_text(files["job"].read_text().replace("replicas: 2", "replicas: -2"))
        files["elsewhere"] = files["odd"]
        files["elsewhere"].write_text(files["job"].read_text().replace("queue: research", "queue: default"))
        queued("wrong")
        queued("job")  # there is no such queue
        queued("elsewhere")
        assert [job["queue"] for job in jobs()] == ["default"]

    def test_one_whose_queue_has_come_since_will_be_accepted(self, queued, jobs):
        queued("job")
        queued("queue", "changed")
        assert [(job["queue"], job["min_available"]) for job in jobs()] == [("research", 2)]

    def test_one_that_was_rejected_is_judged_anew(self, queued, jobs):
        queued("job")
        assert jobs() == []
        queued("queue", "job")
        queued("job")
        queued("changed")
        assert [job["min_available"] for job in jobs()] == [2]

    def test_names_that_are_generated_are_of_different_jobs(self, queued, jobs, files):
        for name in ("job", "changed"):
            files[name].write_text(files[name].read_text().replace("name: train,", "generateName: train-,"))
        queued("queue", "job", "changed", "job")
        assert sorted(job["min_available"] for job in jobs()) == [1, 2]


class TestSubmit:
    def test_every_call_submits_anew_unless_it_says_that_it_is_the_same(self, known, files):
        for _ in range(2):
            assert "was submitted" in known("job", "submit", files["job"], "--allow-same-name").out
        assert "was submitted" in known("job", "submit", files["job"], "--id", "one").out
        assert known("job", "submit", files["job"], "--id", "one").out.endswith("  ml/train: unchanged, it was applied before\n")
        assert len(known("job", "list", "--json").records) == 4

    def test_only_jobs(self, known, files, folder):
        assert "Queue is not a Job; use `lahar apply`" in known("job", "submit", files["queue"], code=2).err
        assert "must be at least 0" in known("job", "submit", files["wrong"], code=2).err


class TestCommands:
    def test_a_command_is_carried_out_once(self, known):
        done = known("job", "command", "ml/train", "AbortJob", "--by", "ann", "--reason", "wrong data", "--id", "c1")
        assert "AbortJob by ann was carried out" in done.out
        again = known("job", "command", "ml/train", "AbortJob", "--id", "c1").out
        assert again.endswith("  ml/train: unchanged, it was applied before\n")
        assert known("job", "list", "--json").record["phase"] == "Aborting"  # its pods were asked for, and may come

    def test_what_does_not_fit_is_refused(self, known):
        assert "one of AbortJob" in known("job", "command", "ml/train", "Explode", code=2).err
        assert "lahar: ml/train: " in known("job", "command", "ml/train", "RestartTask", "--task", "nobody", code=2).err
        assert known("job", "command", "ml/train", "ResumeJob", "--json", code=2).record["outcome"] == "refused"
        assert "`lahar job list --all` lists" in known("job", "command", "ml/nobody", "AbortJob", code=3).err

    def test_custom_events(self, known):
        known("job", "raise", "ml/train", "Checkpointed", "--data", '{"step": 3}', "--by", "ann")
        assert any(data.get("event") == "Checkpointed" and data.get("data") == {"step": 3} for _, data in events(known))
        assert "does not declare the event 'Other'" in known("job", "raise", "ml/train", "Other", code=2).err
        assert "--data is not JSON" in known("job", "raise", "ml/train", "Checkpointed", "--data", "{", code=2).err
        assert 'write {"name": value}' in known("job", "raise", "ml/train", "Checkpointed", "--data", "[1]", code=2).err

    def test_a_parked_job_goes_on_when_it_is_told_to(self, known, monkeypatch):
        def fail(*_):
            raise RuntimeError("a rule is broken")
            yield

        with monkeypatch.context() as broken:
            broken.setattr(LifecycleStage, "decide", fail)
            known("job", "command", "ml/train", "AbortJob")
        assert known("status", "--json").lifecycle["parked_jobs"] == 1
        assert "(parked)" in known("job", "list").out
        assert "`lahar job unpark" in known("job", "show", "ml/train").out
        assert known("job", "unpark", "ml/train", "--json").record["outcome"] == "applied"
        assert known("status", "--json").lifecycle["parked_jobs"] == 0
        assert known("job", "show", "ml/train", "--json").record["phase"] == "Aborting"  # its pods were asked for, and may come
        assert "is not parked" in known("job", "unpark", "ml/train", code=2).err


class TestShowing:
    def test_the_list_can_be_narrowed(self, known, files):
        known("apply", files["odd"])
        known("job", "command", "ml/odd", "AbortJob")
        assert [record["name"] for record in known("job", "list", "--json").records] == ["train", "odd"]
        assert [record["name"] for record in known("job", "list", "--phase", "Aborting", "--json").records] == ["odd"]
        assert [record["name"] for record in known("job", "list", "--limit", 1, "--json").records] == ["odd"]
        assert known("job", "list", "--queue", "default", "--json").records == []
        assert known("job", "list", "--tenant", "nobody", "--json").records == []
        assert known("job", "list", "--user", "nobody", "--json").records == []
        assert "Aborted" in known("job", "list", "--phase", "Dreaming", code=2).err

    def test_a_job_in_full(self, known):
        shown = known("job", "show", "ml/train").out
        for text in ("ml/train", "VCJob, managed, queue research", "Pending", "TASK", "worker", "worker[1]#1", "Queued"):
            assert text in shown
        assert list(known("job", "show", "ml/train", "--json").record["attempts"]) == ["worker[0]#1", "worker[1]#1"]

    def test_a_job_may_be_named_in_four_ways(self, known):
        identity = known("job", "list", "--json").record["id"]
        for given in (identity, identity[:6], "ml/train", f"ml/train@{identity[:4]}"):
            assert known("job", "show", given, "--json").record["id"] == identity
        assert known("job", "show", "ml/none", code=3).out == ""

    def test_names_are_shown_as_they_stand(self, lahar, folder):
        pod = {
            "kind": "Pod",
            "metadata": {"name": "[red]x[/]", "namespace": ":smile:", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "m"}]},
        }
        Path("pod.json").write_text(json.dumps(pod))
        lahar("ingest", "pod.json")
        assert ":smile:/[red]x[/]" in lahar("job", "list", "--all").out
        assert "[red]x[/]" in lahar("inspect", "pod", "pod.json").out


def test_a_submission_rejected_on_release_is_not_the_jobs_submission():
    """An update is compared with what the job was submitted with."""
    log = MemoryLog()
    for ident, name in (("wrong", "a"), ("right", "b")):
        submission = JobSubmitted({"metadata": {"name": name}})
        log.append("jobs", [encode(Event(ident, "test", submission.TYPE, "j1", 1, 1, 0, "j1", "", "c1", submission))])
    rejected = JobRejected("a", [Fault("spec", "wrong")], input="wrong")
    log.append("job-events", [encode(Event("1", "test", rejected.TYPE, "j1", 1, 1, 1, "j1", "unpark", "c1", rejected))])
    assert KnownJobs(log, "c1", [], []).submitted("j1") == {"metadata": {"name": "b"}}
