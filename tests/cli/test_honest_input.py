"""Whoever puts something in learns what of it was not taken, and why: in words, in JSON and by the exit code."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest
from test_feed import names, pod, watch

from engine.cli import feed
from engine.kubernetes import ingest_report
from engine.kubernetes.reading import documents, object_files

EXPIRED = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "message": "too old resource version: 10 (200)",
    "reason": "Expired",
    "code": 410,
}
ERROR = "too old resource version: 10 (200) (reason Expired, code 410)"


def listed(*items, **more):
    return json.dumps({"apiVersion": "v1", "items": list(items), "kind": "List", **more}, indent=4)


class TestWhatCannotBeRead:
    def test_a_part(self, lahar, folder):
        (folder / "a.json").write_text(json.dumps(pod("a")) + "\n" + json.dumps(pod("b", uid=None)) + "\nwhat\n")
        done = lahar("ingest", "a.json", code=1)
        assert done.out == "1 taken, 2 unreadable; 3 processed\n"
        reason = "a.json: line 2: metadata.uid: missing: only an API server sets it, so this is not an observed pod"
        assert done.err.splitlines()[-1] == f"lahar: 2 of 3 objects could not be read; the first: {reason}"
        assert names(lahar) == ["a"]
        record = lahar("ingest", "a.json", "--json", code=1).record
        assert (record["objects"], record["unreadable"], record["first_unreadable"]) == (3, 2, reason)

    def test_all_of_it(self, lahar):
        done = lahar("ingest", given="<html>not a cluster</html>\n", code=1)
        assert done.out == "0 taken, 1 unreadable; 1 processed\n"
        assert "1 of 1 objects could not be read; the first: line 1: text is no object" in done.err

    @pytest.mark.parametrize("indent", [None, 4])
    @pytest.mark.parametrize(
        ("command", "code"),
        [(("ingest",), 1), (("inspect", "pod"), 1), (("inspect", "job"), 1), (("apply",), 2), (("job", "submit"), 2)],
    )
    def test_json_that_breaks_off_says_so(self, lahar, folder, command, code, indent):
        """A finding where the rest is taken; bad input where nothing is."""
        (folder / "a.json").write_text(json.dumps(pod("a"), indent=indent)[:-30])
        assert "a.json: line 1: ends in the middle of an object" in lahar(*command, "a.json", code=code).err

    @pytest.mark.parametrize("tasks", [["t" * 600], ["t" * 600, "a", "t" * 600]])
    def test_a_pod_of_a_list_that_is_beyond_a_bound_costs_only_itself(self, lahar, tasks):
        """Any tenant can write such an annotation; it is a dead letter as it is where it stands by itself."""
        pods = [pod(f"p{at}", annotations={"volcano.sh/task-spec": task}) for at, task in enumerate(tasks)]
        lahar("ingest", given=listed(pod("before"), *pods, pod("behind")))
        assert names(lahar) == ["p1", "before", "behind"][len(tasks) == 1 :]
        letters = lahar("dead-letters", "list", "--json").records
        assert [letter["reason"] for letter in letters] == [
            "lahar.pod.observed.v1: task: String should have at most 512 characters"
        ] * tasks.count("t" * 600)

    def test_of_a_list_that_breaks_off_the_rest_is_taken(self, lahar, folder):
        whole = listed(pod("a"), pod("b"), pod("c"))
        (folder / "a.json").write_text(whole[: whole.index('"c"') + 30])
        done = lahar("ingest", "a.json", code=1)
        line = whole[: whole.index('"c"')].count("\n") - 3
        place = f"a.json: line {line}, items[2]"
        assert f"1 of 3 objects could not be read; the first: {place}: ends in the middle of an object" in done.err
        assert names(lahar) == ["a", "b"]

    def test_rows_of_a_trace_are_rejected_as_before(self, lahar, folder):
        head = "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\n"
        (folder / "t.csv").write_text(head + "1,u,1,1,1,x,1,1,Pass\n")
        assert lahar("import-trace", "t.csv", code=1).out.startswith("1 rows of t, 1 rejected")


class TestWhatIsIgnored:
    def test_kinds_are_named_and_counted(self, lahar):
        other = [{"kind": "ConfigMap", "metadata": {}}] * 4 + [{"kind": "Service", "metadata": {}}] * 2
        given = listed(*other, pod("a")) + "\n" + watch("BOOKMARK", pod("x"))
        assert lahar("ingest", given=given).out == "1 taken, 7 ignored; 1 processed\nignored: 4 ConfigMap, 2 Service\n"
        assert lahar("ingest", "--json", given=given).record["ignored_kinds"] == {"ConfigMap": 4, "Service": 2}

    def test_kinds_without_number_are_counted_together(self, lahar, monkeypatch):
        monkeypatch.setattr(ingest_report, "_KINDS", 2)
        given = listed(*({"kind": f"K{number}" * 100, "metadata": {}} for number in range(5)))
        assert list(lahar("ingest", "--json", given=given).record["ignored_kinds"].values()) == [3, 1, 1]


class TestErrorsOfServers:
    @pytest.mark.parametrize("given", [json.dumps({"type": "ERROR", "object": EXPIRED}), json.dumps(EXPIRED)])
    def test_what_the_server_says_is_shown(self, lahar, given):
        done = lahar("ingest", given=json.dumps(pod("a")) + "\n" + given, code=1)
        assert done.out == "1 taken, 1 ignored; 1 processed\n"
        assert f"reports an error: {ERROR}" in done.err
        record = lahar("ingest", "--json", given=given, code=1).record
        assert record["errors"] == 1
        assert record["first_error"].endswith(ERROR)

    def test_one_that_says_nothing(self, lahar):
        assert "line 1, object: the watch reports an error: no message" in lahar("ingest", given=watch("ERROR", {}), code=1).err

    def test_success_is_none(self, lahar):
        done = lahar("ingest", given=json.dumps({"kind": "Status", "status": "Success"}))
        assert done.out == "0 taken, 1 ignored; 0 processed\nignored: 1 Status\n"


class TestFiles:
    def test_several_plain_and_compressed(self, lahar, folder):
        (folder / "a.json").write_text(listed(pod("a"), pod("b")))
        (folder / "b.json.gz").write_bytes(gzip.compress(listed(pod("c")).encode()))
        done = lahar("ingest", "a.json", "b.json.gz", "-", given=json.dumps(pod("d")))
        assert (done.out, done.err) == ("4 taken; 4 processed\n", "")
        assert names(lahar) == ["a", "b", "c", "d"]

    @pytest.mark.parametrize("command", [("inspect", "pod"), ("apply",)])
    def test_every_command_unpacks(self, lahar, folder, files, command):
        (folder / "q.gz").write_bytes(gzip.compress(files["queue"].read_bytes()))
        assert "research" in lahar(*command, "q.gz").out

    @pytest.mark.parametrize("command", [("ingest",), ("inspect", "pod"), ("apply",)])
    @pytest.mark.parametrize("damage", ["cut", "altered"])
    def test_one_that_is_damaged(self, lahar, folder, command, damage):
        packed = bytearray(gzip.compress(b"".join(json.dumps(pod(f"p{number}")).encode() + b"\n" for number in range(2000))))
        packed = packed[:-100] if damage == "cut" else packed[:-5] + b"12345"
        (folder / "a.gz").write_bytes(packed)
        done = lahar(*command, "a.gz", code=1)
        assert "a.gz: the compressed content is damaged" in done.err
        if command == ("ingest",):
            assert int(done.out.split()[0]) > 1000

    def test_of_a_few_bytes_that_unpack_to_very_many_no_more_is_read(self, lahar, folder, monkeypatch):
        """What is no object is cut every 64 MiB; a file that holds nothing else has no end worth waiting for."""
        monkeypatch.setattr(feed, "OBJECT_BYTES", 1 << 20)
        monkeypatch.setattr(documents.DocumentReader.__init__, "__defaults__", (1 << 20,))
        (folder / "a.gz").write_bytes(gzip.compress(json.dumps(pod("a")).encode() + b"\n{" + b" " * (32 << 20)))
        read: list[int] = []
        monkeypatch.setattr(object_files.gzip.GzipFile, "read1", _counting(object_files.gzip.GzipFile.read1, read))
        done = lahar("ingest", "a.gz", code=1)
        assert "a.gz: the rest is not read: a few bytes may unpack to very many" in done.err
        assert sum(read) < 2 << 20
        assert names(lahar) == ["a"]


def _counting(read1, read):
    def counted(self, size=-1):
        data = read1(self, size)
        read.append(len(data))
        return data

    return counted


def test_a_pipe_with_a_name(lahar, folder: Path):
    """`lahar ingest <(kubectl …)` cannot be read from its beginning a second time."""
    os.mkfifo(folder / "pipe")
    writer = threading.Thread(target=lambda: (folder / "pipe").write_text(json.dumps(pod("a"))))
    writer.start()
    assert lahar("ingest", "pipe").out == "1 taken; 1 processed\n"
    writer.join()
