"""`lahar ingest` and `lahar import-trace`."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

HEAD = "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\n"


def pod(name, version=1, phase="Running", **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "i"}]},
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:05Z"},
    }


def watch(change, obj):
    return json.dumps({"type": change, "object": obj}, indent=2) + "\n"


def names(lahar):
    return [record["name"] for record in lahar("job", "list", "--all", "--json").records]


class TestIngest:
    def test_a_watch_as_kubectl_prints_it(self, lahar):
        stream = watch("ADDED", pod("a")) + watch("ADDED", pod("b")) + watch("DELETED", pod("a", 9)) + watch("BOOKMARK", pod("x"))
        done = lahar("ingest", "-", given=stream)
        assert (done.out, done.err) == ("3 taken, 1 ignored; 3 processed\n", "")
        assert names(lahar) == ["a", "b"]
        assert lahar("job", "show", "ml/b", "--json").record["phase"] == "Running"
        assert [attempt["phase"] for attempt in lahar("job", "show", "ml/a", "--json").record["attempts"].values()] == ["Failed"]

    def test_the_same_again_changes_nothing(self, lahar):
        stream = watch("ADDED", pod("a")) + watch("MODIFIED", pod("a", 2, "Succeeded"))
        for _ in range(2):
            assert lahar("ingest", given=stream, code=0).out.startswith("2 taken")
        status = lahar("status", "--json").lifecycle
        assert status["outcomes"]["duplicate"] == 2
        assert status["received"] == sum(status["outcomes"].values()) == 4

    def test_garbage_in_the_middle_becomes_a_dead_letter_and_the_rest_goes_on(self, lahar):
        stream = watch("ADDED", pod("a")) + "garbage {{{\n" + json.dumps(pod("nobody", uid=None)) + "\n" + watch("ADDED", pod("b"))
        done = lahar("ingest", "-", given=stream, code=1)
        assert done.out == "2 taken, 2 unreadable; 4 processed\n"
        assert (
            f"warning: line {len(watch('', pod('')).splitlines()) + 1}: text is no object; kept as a dead letter"
            in done.err.splitlines()
        )
        assert "metadata.uid" in done.err
        assert names(lahar) == ["a", "b"]
        assert len(lahar("dead-letters", "list", "--json").records) == 2

    def test_bytes_that_are_no_text(self, lahar):
        done = lahar("ingest", "-", "--json", given=b"\x00\xff\xfe\n" + watch("ADDED", pod("a")).encode(), code=1)
        assert done.record["taken"] == 1
        assert done.record["unreadable"] >= 1

    def test_a_list_in_a_file(self, lahar, folder):
        (folder / "list.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [pod("a"), pod("b")]}))
        record = lahar("ingest", "list.json", "--json").record
        assert {key: record[key] for key in ("taken", "ignored", "unreadable", "processed")} == {
            "taken": 2,
            "ignored": 0,
            "unreadable": 0,
            "processed": 2,
        }
        assert names(lahar) == ["a", "b"]

    @pytest.mark.parametrize("recorded", [(), ("--recorded",)])
    def test_a_list_is_one_moment_whatever_its_order(self, lahar, recorded):
        """Three pods of a job have succeeded, and the fourth runs, whether they stand before it or behind."""
        owner = [{"kind": "Job", "apiVersion": "batch/v1", "name": "train", "uid": "u-train", "controller": True}]
        created = {f"p{number}": f"2026-01-01T00:0{number}:00Z" for number in range(4)}
        pods = [
            pod(name, 1, "Running" if name == "p3" else "Succeeded", creationTimestamp=time, ownerReferences=owner)
            for name, time in created.items()
        ]
        told = []
        for number, items in enumerate([pods, pods[::-1], [pods[1], pods[3], pods[0], {"kind": "Nonsense"}, pods[2]]]):
            log = ("--log", f"sqlite:{number}.db")
            lahar("ingest", *recorded, *log, given=json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
            events = lahar("history", "ml/train", "--json", *log).records
            told.append([(event["id"], event["type"], event["time"], event["data"]) for event in events])
            phases = [event["data"]["phase"] for event in events if event["type"] == "lahar.job.phase_changed.v1"]
            assert phases == ["Running"]
            seen = [
                record for record in map(json.loads, lahar("export", *log).out.splitlines()) if "pod.observed" in record["type"]
            ]
            assert len({record["recordedtime"] for record in seen}) == 1
        assert told[0] == told[1] == told[2]

    def test_what_runs_is_counted_so_far(self, lahar):
        """Up to the time of the log: two hours after the start, by another pod's object."""
        first = pod("a")
        first["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
        lahar("ingest", "--recorded", given=json.dumps(first) + json.dumps(pod("b", creationTimestamp="2026-01-01T02:00:05Z")))
        assert "2 h so far" in lahar("job", "list", "--all").out
        shown = lahar("summary", "--all").out
        assert "open attempts" in shown
        assert [shown.partition(group)[2].split()[:6] for group in ("default ", "(none) ")] == [
            ["2", "2", "0.0", "0.0", "0.0", "4.0"]
        ] * 2
        assert lahar("summary", "--all", "--json").record["so_far_until"] == "2026-01-01T02:00:05.000000Z"
        assert [line["run_seconds_so_far"] for line in lahar("job", "list", "--all", "--json").records] == [7200, 0]

    def test_a_job_is_shown_with_the_names_of_its_pods(self, lahar):
        """A long one is shortened in the middle, no other column is."""
        for name, columns in (("short", "120"), ("a" * 100 + "b" * 100, "100")):
            lahar("ingest", given=json.dumps(pod(name)))
            (job,) = lahar("job", "list", "--all", "--json").records[-1:]
            shown = lahar("job", "show", job["id"], COLUMNS=columns).out.splitlines()
            assert ", cluster default" in shown[1]
            heading, attempt = (line.split() for line in shown[-2:])
            assert (heading[0], heading[-1], attempt[1]) == ("ATTEMPT", "POD", "Running")
            start, _, end = attempt[-1].partition("…")
            assert name.startswith(start)
            assert name.endswith(end)

    @pytest.mark.parametrize("columns", [60, 80, 200])
    def test_the_phase_of_a_job_is_shown_whatever_names_are_like(self, lahar, columns):
        """And in the first line of a narrow terminal."""
        label = {"lahar/user": "u" * 200, "lahar/tenant": "t"}
        lahar(
            "ingest", given=json.dumps(pod("a" * 100 + "b" * 100, labels=label, annotations={"volcano.sh/queue-name": "q" * 200}))
        )
        lahar("ingest", given=json.dumps(pod("short")))
        heading, *lines = lahar("job", "list", "--all", COLUMNS=str(columns)).out.splitlines()
        assert len(lines) == 2
        for line in lines:
            assert line[heading.index("PHASE") :].startswith("Running ")
            assert heading.index("PHASE") + len("Running") <= 60
            assert len(line) <= max(columns, 145)
        assert lines[1].startswith("ml/aaaa")
        assert "bbbb  uid-aaaa  Running" in lines[1]

    def test_names_are_whole_where_there_is_room(self, lahar):
        lahar("ingest", given=json.dumps(pod("a" * 60)))
        assert f"ml/{'a' * 60}  uid-aaaa  Running" in lahar("job", "list", "--all").out

    def test_filters_of_the_list(self, lahar):
        failed = pod("c", phase="Failed", namespace="other")
        failed["status"]["reason"] = "Evicted"
        lahar("ingest", given="\n".join(json.dumps(one) for one in (pod("a"), pod("b", phase="Succeeded"), failed)))

        def listed(*arguments):
            return [record["name"] for record in lahar("job", "list", "--all", "--json", *arguments).records]

        assert listed("--namespace", "ml") == ["a", "b"]
        assert listed("--phase", "Running,Failed") == listed("--phase", "Running", "--phase", "Failed") == ["a", "c"]
        assert listed("--reason", "EvictedByNode,OomKilled") == ["c"]
        assert listed("--node", "n1") == ["a", "b", "c"]
        assert listed("--node", "n2") == listed("--since", "1h") == []
        assert listed("--since", "2026-01-01") == ["a", "b", "c"]
        assert "no job phase 'Lost'; write one of Aborted" in lahar("job", "list", "--phase", "Lost", code=2).err

    def test_two_lists_are_two_moments(self, lahar):
        lists = [{"kind": "PodList", "items": [pod("a", 1, "Running")]}, {"kind": "PodList", "items": [pod("a", 2, "Succeeded")]}]
        lahar("ingest", given="".join(json.dumps(one) for one in lists) + "\n" + json.dumps(pod("b")))
        assert lahar("job", "show", "ml/a", "--json").record["phase"] == "Completed"
        assert names(lahar) == ["a", "b"]

    def test_cloudevents_of_an_export(self, lahar, folder):
        lahar("ingest", "-", given=watch("ADDED", pod("a")))
        lines = lahar("export").out.splitlines()
        inputs = [line for line in lines if json.loads(line)["type"] == "lahar.pod.observed.v1"]
        assert lahar("ingest", "-", "--log", "sqlite:other.db", given="\n".join(inputs)).out == "1 taken; 1 processed\n"
        assert lahar("job", "show", "ml/a", "--json", "--log", "sqlite:other.db").record["phase"] == "Running"

    def test_the_cluster_that_objects_come_from(self, lahar, folder):
        lahar("ingest", "-", "--cluster", "seren", given=json.dumps(pod("a")))
        (folder / "lahar.toml").write_text('cluster = "kalos"')
        lahar("ingest", "-", given=json.dumps(pod("b")))
        assert [record["cluster"] for record in lahar("job", "list", "--all", "--json").records] == ["seren", "kalos"]

    def test_a_recorded_stream_counts_by_its_own_times(self, lahar):
        lahar("ingest", "--recorded", given=json.dumps(pod("a")))
        assert lahar("status", "--json").lifecycle["now"].startswith("2026-01-01T00:00:")

    @pytest.mark.parametrize("way", ["an event", "a recorded object", "an import"])
    def test_an_input_from_the_next_century_fires_nobodys_timer(self, lahar, files, folder, way):
        """On one tenant's word every deadline would be over, and ended jobs be forgotten, for good."""
        files["job"].write_text(files["job"].read_text().replace("lahar: {", "lahar: {activeDeadlineSeconds: 86400, "))
        lahar("apply", files["queue"], files["job"])
        ahead = json.dumps(pod("b", creationTimestamp="2126-01-01T00:00:00Z"))
        if way == "an event":
            lahar("ingest", "--no-process", "--log", "sqlite:other.db", given=json.dumps(pod("b")))
            (event,) = (line for line in lahar("export", "--log", "sqlite:other.db").out.splitlines() if "pod.observed" in line)
            lahar("ingest", given=json.dumps(json.loads(event) | {"recordedtime": "2126-01-01T00:00:00Z"}))
        elif way == "a recorded object":
            lahar("ingest", "--recorded", given=ahead)
        else:
            lahar("ingest", "--no-process", given=json.dumps(pod("b")))
            lines = [json.loads(line) for line in lahar("export").out.splitlines()]
            lines[-2]["recordedtime"] = "2126-01-01T00:00:00Z"
            (folder / "forged.jsonl").write_text("\n".join(map(json.dumps, lines)))
            (folder / "lahar.db").unlink()
            lahar("import", "forged.jsonl")
            lahar("run", "--once")
        status = lahar("status", "--json").lifecycle
        assert (status["now"][:4], status["lag"]) == (f"{datetime.now(UTC):%Y}", 0)
        assert sorted(names(lahar)) == ["b", "train"]
        assert lahar("job", "show", "ml/train", "--json").record["phase"] == "Pending"

    def test_a_clock_that_is_an_hour_ahead_fires_nobodys_timer(self, lahar, files):
        files["job"].write_text(files["job"].read_text().replace("lahar: {", "lahar: {activeDeadlineSeconds: 60, "))
        lahar("apply", files["queue"], files["job"])
        soon = f"{datetime.now(UTC) + timedelta(minutes=59):%Y-%m-%dT%H:%M:%SZ}"
        lahar("ingest", "--recorded", given=json.dumps(pod("b", creationTimestamp=soon)))
        assert sorted(names(lahar)) == ["b", "train"]
        assert lahar("job", "show", "ml/train", "--json").record["phase"] == "Pending"

    def test_nothing(self, lahar, folder):
        assert lahar("ingest", given="").out == "0 taken; 0 processed\n"
        assert "No such file" in lahar("ingest", "nowhere.json", code=2).err

    def test_only_appended(self, lahar):
        assert lahar("ingest", "--no-process", given=json.dumps(pod("a"))).out == "1 taken; 0 processed\n"
        assert lahar("status", "--json").lifecycle["lag"] == 1


@pytest.fixture
def trace(folder: Path) -> Path:
    path = folder / "seren.csv.gz"
    rows = "1,7,2,4,1,0,60,0,Pass\n2,8,4,8,2,30,90,0,Failed\n3,8,1,1,1,x,90,0,Pass\n"
    path.write_bytes(gzip.compress((HEAD + rows).encode()))
    return path


class TestImportTrace:
    def test_a_file_becomes_history(self, lahar, trace):
        done = lahar("import-trace", "--format", "philly-status", trace, code=1)
        assert done.out.startswith("3 rows of seren, 1 rejected: ")
        assert done.err == "warning: line 4 is left out: interval is not a number: 'x'\n"
        summary = lahar("summary", "--json").record
        assert (summary["jobs"], summary["jobs_by_phase"], summary["rejected_rows"]) == (2, {"Completed": 1, "Failed": 1}, 1)
        assert summary["gpu_seconds"] == 2 * 60 + 4 * 90

    def test_importing_twice_changes_nothing(self, lahar, trace):
        first = lahar("import-trace", trace, "--json", code=1).record
        before = (
            lahar("summary", "--json").out,
            lahar("job", "list").out,
            lahar("status", "--json").lifecycle["outcomes"]["applied"],
        )
        assert lahar("import-trace", trace, "--json", code=1).record["facts"] == first["facts"]
        after = lahar("status", "--json").lifecycle
        assert (lahar("summary", "--json").out, lahar("job", "list").out, after["outcomes"]["applied"]) == before
        assert after["outcomes"]["duplicate"] == first["facts"]
        assert after["received"] == sum(after["outcomes"].values()) == 2 * first["facts"]

    def test_the_cluster_may_be_named(self, lahar, trace):
        assert lahar("import-trace", trace, "--cluster", "kalos", "--json", code=1).record["cluster"] == "kalos"

    def test_options_of_the_log_may_stand_anywhere(self, lahar, folder, trace):
        for number, arguments in enumerate(
            (["--log", "sqlite:0.db", "import-trace", trace], ["import-trace", trace, "--log", "sqlite:1.db"])
        ):
            lahar(*arguments, code=1)
            assert (folder / f"{number}.db").exists()
        lahar("import-trace", trace, code=1, LAHAR_LOG="sqlite:2.db")
        (folder / "lahar.toml").write_text('log = "sqlite:3.db"')
        lahar("import-trace", trace, code=1)
        for number in range(4):
            assert lahar("summary", "--json", "--log", f"sqlite:{number}.db").record["jobs"] == 2

    def test_the_columns_of_a_file_may_have_other_names(self, lahar, folder):
        (folder / "own.csv").write_text("gpus,submitted,duration,cluster\n2,2026-01-01 00:00:00,60,a\n")
        lahar("import-trace", "--format", "philly", "--columns", "timestamp=submitted,num_gpus=gpus", "own.csv")
        assert lahar("summary", "--json").record["gpu_seconds"] == 120

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ("timestamp", "--columns 'timestamp' is no pair"),
            ("timestamp=a,timestamp=b", "--columns gives timestamp two names, a and b"),
            ("time=a", "format philly-status has no column 'time'"),
        ],
    )
    def test_names_of_columns_that_make_no_sense(self, lahar, trace, columns, message):
        assert message in lahar("import-trace", "--columns", columns, trace, code=2).err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["nowhere.csv"], "nowhere.csv: no such file"),
            (["--format", "tea", "seren.csv.gz"], "unknown trace format 'tea'; known are"),
            (["--format", "openb", "seren.csv.gz"], "seren.csv.gz: "),
        ],
    )
    def test_what_cannot_be_imported(self, lahar, folder, trace, arguments, message):
        assert message in lahar("import-trace", *arguments, code=2).err
        assert not (folder / "lahar.db").exists()
