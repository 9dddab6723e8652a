"""`lahar inspect` on files, and completion of arguments."""

from __future__ import annotations

import json

import pytest

WHO = ["kind", "namespace", "name", "uid"]
POD_KEYS = ["phase", "state", "reason", "exit_code", "node", "ready", "restarts", "init_restarts", "deleting", "owners", "requests"]
JOB_KEYS = ["phase", "reason", "queue", "min_available", "tasks", "total_requests"]

POD = {
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "x", "uid": "u", "ownerReferences": [{"kind": "Job", "name": "j"}]},
    "spec": {"nodeName": "n", "containers": [{"name": "m", "resources": {"limits": {"cpu": "100.5m", "nvidia.com/gpu": 2}}}]},
    "status": {
        "phase": "Failed",
        "containerStatuses": [{"name": "m", "restartCount": 2, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}],
    },
}


class TestInspect:
    def test_a_pod(self, lahar, folder):
        (folder / "pod.json").write_text(json.dumps(POD))
        record = lahar("inspect", "pod", "pod.json", "--json").record
        assert [key for key in (*WHO, *POD_KEYS) if key not in record] == []
        assert (record["state"], record["reason"], record["exit_code"], record["restarts"]) == ("Failed", "OomKilled", 137, 2)
        assert (record["owners"], record["node"], record["ready"], record["deleting"]) == (["Job/j"], "n", False, False)
        assert record["requests"] == {"cpu_milli": 101, "memory_bytes": 0, "gpu": 2}
        shown = lahar("inspect", "pod", "pod.json").out
        assert "KIND" in shown
        assert "OomKilled" in shown

    def test_lists_arrays_and_documents_are_flattened_in_order(self, lahar, folder):
        (folder / "many.yaml").write_text(
            f"{json.dumps({'kind': 'List', 'items': [POD, {**POD, 'kind': None}]})}\n---\nkind: ConfigMap\nmetadata: {{name: c}}\n"
        )
        records = lahar("--json", "inspect", "pod", "many.yaml").records
        assert [record["kind"] for record in records] == ["Pod", "Pod", "ConfigMap"]
        assert {records[2][key] for key in POD_KEYS} == {None}
        (folder / "versions.json").write_text(json.dumps([POD, POD]))
        assert len(lahar("inspect", "pod", "versions.json", "--json").records) == 2

    def test_a_job(self, lahar, files):
        record = lahar("inspect", "job", files["job"], "--json").record
        assert [key for key in (*WHO, *JOB_KEYS) if key not in record] == []
        assert (record["queue"], record["min_available"], record["supported"]) == ("research", 1, True)
        assert record["tasks"] == [
            {"name": "worker", "replicas": 2, "min_available": None, "requests": {"cpu_milli": 1000, "memory_bytes": 0, "gpu": 0}}
        ]
        assert record["total_requests"]["cpu_milli"] == 2000
        assert lahar("inspect", "job", files["queue"], "--json").record["supported"] is False

    def test_from_standard_input(self, lahar):
        assert lahar("inspect", "pod", "-", "--json", given=json.dumps(POD)).record["name"] == "p"

    @pytest.mark.parametrize("level", ["pod", "job"])
    def test_what_cannot_be_read(self, lahar, folder, level):
        (folder / "x.yaml").write_text("a: [1")
        assert lahar("inspect", level, "x.yaml", code=1).err.startswith("lahar: x.yaml: line 1: ")
        assert "No such file" in lahar("inspect", level, "nowhere", code=2).err

    @pytest.mark.parametrize("arguments", [(), ("--json",)])
    def test_what_can_be_read_beside_it_is_shown(self, lahar, folder, arguments):
        (folder / "some.yaml").write_text(f"{json.dumps(POD)}\n---\na: [1\n---\n{json.dumps(POD)}\n")
        done = lahar("inspect", "pod", "some.yaml", *arguments, code=1)
        assert done.out.count("OomKilled") == 2
        assert done.err.startswith("lahar: some.yaml: line ")
        assert "lahar: 1 of 3 objects could not be read; the first: some.yaml: line 3: " in done.err
        assert done.err.count("\n") == 2


class TestCompletion:
    def complete(self, lahar, words):
        return lahar(
            code=0, _LAHAR_COMPLETE="complete_bash", COMP_WORDS=f"lahar {words}", COMP_CWORD=str(len(words.split(" ")))
        ).out.split()

    def test_jobs_are_offered_by_name_and_by_id(self, lahar, files):
        lahar("apply", files["queue"], files["job"], files["odd"])
        assert self.complete(lahar, "history ml/") == ["ml/train", "ml/odd"]
        assert self.complete(lahar, "job show ml/t") == ["ml/train"]
        identity = lahar("job", "list", "--json").records[0]["id"]
        assert identity in self.complete(lahar, f"why {identity[:5]}") or self.complete(lahar, f"timeline {identity[:5]}") == [
            identity
        ]
        assert self.complete(lahar, "as-of 2026-01-01 ml/o") == ["ml/odd"]

    def test_without_a_log_none_are_offered(self, lahar, folder):
        assert self.complete(lahar, "history ml/") == []
        assert list(folder.iterdir()) == []
        (folder / "lahar.toml").write_text("broken")
        assert self.complete(lahar, "history ml/") == []

    def test_commands_and_options(self, lahar):
        assert self.complete(lahar, "imp") == ["import-trace", "import"]
        assert "--follow" in self.complete(lahar, "events --f")
