"""Questions about the past: summary, history, as-of, diff, why, timeline, events."""

from __future__ import annotations

import itertools
import json

import pytest

from engine.events.times import parse_time

JOBS = """\
u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status
1,7,2,4,1,0,60,0,Pass
2,8,4,8,2,30,90,0,Failed
"""
FAILED = "default/philly-2"


@pytest.fixture
def past(lahar, folder):
    """A log with two jobs: one ran from 0 to 60 s, one on two nodes from 30 to 120 s."""
    (folder / "seren.csv").write_text(JOBS)
    lahar("import-trace", "seren.csv")
    return lahar


def at(seconds):
    return f"1970-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"


class TestHistory:
    def test_for_a_person_and_for_a_program(self, past):
        told = past("history", FAILED).out.splitlines()
        events = past("history", FAILED, "--json").records
        assert len(told) == len(events)
        assert "the job went from Running to Failed" in "".join(told)
        assert [event["specversion"] for event in events] == ["1.0"] * len(events)
        assert [int(event["sequence"]) for event in events] == list(range(1, len(events) + 1))

    def test_of_a_job_that_is_not_there(self, past):
        for command in ("history", "timeline", "why"):
            done = past(command, "ml/nobody", code=3)
            assert done.out == ""
            assert done.err.count("\n") == 1
            assert "`lahar job list --all` lists" in done.err

    def test_of_a_prefix_that_means_several(self, lahar, files):
        lahar("apply", files["queue"])
        for number in range(20):
            lahar("job", "submit", files["job"], "--id", str(number), "--no-process")
        lahar("run", "--once")
        found = sorted(record["id"] for record in lahar("job", "list", "--json").records)
        prefix = next(one[0] for one, two in itertools.pairwise(found) if one[0] == two[0])
        assert "give more of the id" in lahar("history", prefix, code=2).err


class TestSummary:
    def test_for_a_person_and_for_a_program(self, past):
        assert past("summary", "--json").record["jobs_by_phase"] == {"Completed": 1, "Failed": 1}
        shown = past("--json", "summary").record
        assert shown["run_seconds"]["max"] == 90
        page = past("summary").out
        for text in ("In the log", "Completed", "AppFailed", "GPU hours", "default"):
            assert text in page

    def test_of_an_empty_log(self, lahar, files):
        lahar("apply", files["queue"])
        assert lahar("summary", "--json").record["jobs"] == 0
        assert "jobs" in lahar("summary").out


class TestAsOf:
    @pytest.mark.parametrize(("seconds", "phase"), [(30, "Running"), (119, "Running"), (120, "Failed")])
    def test_a_job(self, past, seconds, phase):
        assert past("as-of", at(seconds), FAILED, "--json").record["phase"] == phase
        assert f" {phase} " in past("as-of", at(seconds), FAILED).out

    def test_the_cluster_and_a_queue(self, past):
        assert past("as-of", at(40), "--json").record["jobs_by_phase"] == {"Running": 2}
        assert past("as-of", at(70), "--json").record["jobs_by_phase"] == {"Completed": 1, "Running": 1}
        assert past("as-of", at(70), "--queue", "default", "--json").record["allocated"]["gpu"] == 4
        assert "1 Completed, 1 Running    4" in past("as-of", at(70), "--queue", "default").out

    def test_what_was_known_differs_from_what_was_so(self, lahar, files):
        lahar("apply", files["queue"], files["job"], "--at", "2026-03-01T12:00:00Z")
        pod = {
            "kind": "Pod",
            "metadata": {"name": "late", "namespace": "ml", "uid": "late", "creationTimestamp": "2026-03-01T12:00:00Z"},
            "spec": {"containers": [{"name": "m"}]},
        }
        lahar("ingest", given=json.dumps(pod))
        assert lahar("as-of", "2026-03-01T13:00:00Z", "ml/late", "--json").record["phase"] == "Pending"
        assert "it was opened later" in lahar("as-of", "2026-03-01T13:00:00Z", "ml/late", "--known", code=3).err

    @pytest.mark.parametrize("given", ["now", "-1h", "1h", "1d12h", "-2w"])
    def test_a_time_before_now(self, lahar, monkeypatch, given):
        """By the clock of the terminal, which no stage reads."""
        pod = {
            "kind": "Pod",
            "metadata": {"name": "early", "namespace": "ml", "uid": "early", "creationTimestamp": "2026-03-01T12:00:00Z"},
            "spec": {"containers": [{"name": "m"}]},
        }
        lahar("ingest", "--recorded", given=json.dumps(pod))
        begin = parse_time("2026-03-01T12:00:00Z")
        length = {"now": 0, "-1h": 3_600, "1h": 3_600, "1d12h": 129_600, "-2w": 1_209_600}[given] * 1_000_000
        for late, code in ((0, 0), (-1, 3)):
            monkeypatch.setattr("engine.cli.arguments.now", lambda late=late: begin + length + late)
            lahar("as-of", given, "ml/early", code=code)
            lahar("diff", "--json", given, given, "ml/early", code=0)
            found = lahar("events", "--from", given, "--json").records if given != "now" else []
            assert given == "now" or len(found) > 1

    @pytest.mark.parametrize("given", ["-1", "1y", "h", "--", "-", "5 h", "1h-2h", "-" + "1" * 10 + "h", "٣h"])
    def test_what_is_no_time_before_now(self, past, given):
        past("as-of", given, code=2)

    def test_what_is_not_there(self, past):
        assert "it was opened later" in past("as-of", at(0), FAILED, code=3).err
        assert "shows those of that moment" in past("as-of", at(0), "--queue", "nobody", code=3).err
        assert "is no time: write" in past("as-of", "someday", code=2).err
        assert "not both" in past("as-of", at(0), FAILED, "--queue", "default", code=2).err

    def test_what_cannot_be_read_in_the_cluster_topic_is_passed_over(self, lahar):
        lahar("ingest", given='{"kind": "Node", "metadata": {}}\n', code=1)
        assert lahar("as-of", "2100-01-01", "--json").record["nodes"] == {}


class TestDiff:
    def test_a_job_that_changed(self, past):
        changes = {
            change["path"]: (change["before"], change["after"])
            for change in past("diff", at(40), at(200), FAILED, "--json", code=1).records
        }
        assert changes["phase"] == ("Running", "Failed")
        assert changes["attempts.main[1]#1.phase"] == ("Running", "Failed")
        assert "phase" in past("diff", at(40), at(200), FAILED, code=1).out

    def test_the_cluster(self, past):
        paths = [change["path"] for change in past("diff", at(40), at(70), "--json", code=1).records]
        assert "jobs_by_phase.Completed" in paths
        assert any(path.startswith("jobs.") and path.endswith(".phase") for path in paths)
        assert {"as_of", "by"}.isdisjoint(paths)

    def test_the_cluster_between_two_moments_at_which_nothing_happened(self, past):
        assert past("diff", at(40), at(50)).out == "nothing changed\n"
        assert past("diff", at(40), at(50), "--known", "--json").out == ""

    def test_nothing(self, past):
        assert past("diff", at(40), at(50), FAILED).out == "nothing changed\n"
        assert past("diff", at(40), at(50), FAILED, "--known", "--json").out == ""


class TestWhy:
    def test_a_job(self, past):
        assert past("why", FAILED).out.startswith(f"{FAILED} is Failed since 1970-01-01 00:02:00Z")
        assert past("why", FAILED, "--json").record["causes"][-1]["type"] == "lahar.job.observed.v1"

    def test_an_event_by_its_id_or_the_beginning_of_it(self, past):
        event = next(event for event in past("history", FAILED, "--json").records if event["type"] == "lahar.attempt.ended.v1")
        whole = past("why", event["id"]).out
        assert "failed" in whole
        assert past("why", event["id"][:12]).out == whole

    def test_nothing_known(self, past):
        assert "no job 'zzz' in this log" in past("why", "zzz", code=3).err


class TestTimeline:
    def test_three_levels(self, past):
        drawn = past("timeline", FAILED, COLUMNS="100").out
        for text in ("job", "└ main", "main[0]#1", "main[1]#1", "Failed AppFailed", "█ Running"):
            assert text in drawn
        assert max(map(len, drawn.splitlines())) <= 100
        assert {track["level"] for track in past("timeline", FAILED, "--json").record["tracks"]} == {"job", "task", "replica"}


class TestEvents:
    def test_from_the_beginning_and_on_from_the_token(self, past, lahar, files):
        *first, mark = past("events", "--json").records
        assert mark["caught_up"] is True
        assert next(event["type"] for event in first) == "lahar.job.opened.v1"
        assert past("events", "--from", mark["token"], "--json").records == [mark]
        lahar("apply", files["queue"], files["job"])
        *later, end = past("events", "--from", mark["token"], "--json").records
        assert past("events", "--json").records == [*first, *later, end]

    def test_for_a_person(self, past):
        done = past("events")
        assert done.out.startswith("default/philly-1              1  1970-01-01T00:00:00.000  job.opened.v1 ")
        assert done.err.startswith("caught up; --from ")

    def test_from_now_and_from_a_time(self, past):
        assert [list(record) for record in past("events", "--from", "now", "--json").records] == [["caught_up", "token"]]
        *late, _ = past("events", "--from", at(120), "--json").records
        assert late
        assert {event["recordedtime"] >= "1970-01-01T00:02:00.000000Z" for event in late} == {True}

    @pytest.mark.parametrize(
        ("arguments", "wanted"),
        [
            (["--job", FAILED], lambda event: event["time"] and "philly" not in event["type"]),
            (["--level", "task"], lambda event: event["type"].startswith("lahar.task.")),
            (["--level", "replica"], lambda event: event["type"].startswith("lahar.attempt.")),
            (
                ["--type", "lahar.job.opened.v1", "--type", "lahar.attempt.e*"],
                lambda event: event["type"].split(".")[2] in {"opened", "ended"},
            ),
            (["--queue", "default"], lambda _: True),
            (["--tenant", "default"], lambda _: True),
        ],
    )
    def test_filters(self, past, arguments, wanted):
        *found, _ = past("events", *arguments, "--json").records
        assert found
        assert all(map(wanted, found))

    @pytest.mark.parametrize(
        "given",
        ["job.phase_changed", "lahar.job.phase_changed", "lahar.job.phase_changed.v1", "job.phase_changed.v1", "job.phase_c*"],
    )
    def test_a_type_is_taken_in_both_spellings(self, past, given):
        *found, _ = past("events", "--type", given, "--json").records
        assert {event["type"] for event in found} == {"lahar.job.phase_changed.v1"}

    @pytest.mark.parametrize(
        ("arguments", "wanted"),
        [
            (["--namespace", "default"], lambda _: True),
            (["--phase", "Failed,Lost", "--level", "job"], lambda event: event["data"]["phase"] in {"Failed", "Lost"}),
            (
                ["--phase", "Failed", "--phase", "Running"],
                lambda event: event["data"].get("phase", "Running") in {"Failed", "Running"},
            ),
            (["--reason", "AppFailed"], lambda event: event["data"]["reason"] == "AppFailed"),
        ],
    )
    def test_what_events_and_history_filter_alike(self, past, arguments, wanted):
        *found, _ = past("events", *arguments, "--json").records
        assert found
        assert all(map(wanted, found))
        if arguments[0] != "--namespace":
            told = past("history", FAILED, *arguments[: -2 if "--level" in arguments else None], "--json").records
            assert told
            assert all(map(wanted, told))

    def test_events_and_history_since(self, past):
        everything = past("history", FAILED, "--json").records
        middle = everything[-1]["time"]
        told = past("history", FAILED, "--since", middle, "--json").records
        assert told == [event for event in everything if event["time"] >= middle]
        assert 0 < len(told) < len(everything)
        recorded = everything[-1]["recordedtime"]
        *found, _ = past("events", "--since", recorded, "--json").records
        assert {event["recordedtime"] >= recorded for event in found} == {True}
        assert "not both" in past("events", "--since", recorded, "--from", "now", code=2).err
        assert past("history", FAILED, "--since", "1h", "--json").records == []
        assert past("history", FAILED, "--node", "nowhere", "--json").records == []
        assert "did you mean Failed?" in past("history", FAILED, "--phase", "failed", code=2).err

    @pytest.mark.parametrize(
        "arguments",
        [["--queue", "q"], ["--tenant", "q"], ["--label", "a=b"], ["--namespace", "q"], ["--node", "q"]],
    )
    def test_filters_that_nothing_passes(self, past, arguments):
        assert len(past("events", *arguments, "--json").records) == 1

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--from", "zzz"], "not a subscription token"),
            (["--from", "2026-99-01"], "is no time"),
            (["--label", "x"], "write NAME=VALUE"),
            (["--level", "pod"], "'pod'"),
        ],
    )
    def test_what_makes_no_sense(self, past, arguments, message):
        assert message in past("events", *arguments, code=2).err

    def test_a_token_of_another_log_is_refused(self, past, lahar, files):
        *_, mark = past("events", "--json").records
        lahar("apply", files["queue"], files["job"], "--log", "sqlite:other.db")
        assert "belongs to another log" in lahar("events", "--from", mark["token"], "--log", "sqlite:other.db", code=2).err


def test_a_cluster_diff_keeps_jobs_of_one_name_in_two_clusters_apart(lahar, folder):
    for cluster in ("east", "west"):
        (folder / "lahar.toml").write_text(f'cluster = "{cluster}"\n')
        pod = {"metadata": {"name": "etl", "namespace": "ml", "uid": f"p-{cluster}", "creationTimestamp": "2026-05-01T12:00:00Z"}}
        lahar(
            "ingest",
            "--recorded",
            given=json.dumps({"kind": "Pod", **pod, "spec": {"restartPolicy": "Never"}, "status": {"phase": "Pending"}}),
        )
    changes = lahar("diff", "2026-05-01 11:00", "2026-05-01 13:00", "--json", code=1).records
    assert len([change for change in changes if change["path"].startswith("jobs.") and change["path"].endswith(".phase")]) == 2


def test_a_cluster_diff_names_a_job_alike_after_another_of_its_name_comes(lahar, folder):
    for minute, uid in ((0, "first"), (30, "second")):
        times = {"creationTimestamp": f"2026-05-01T12:{minute:02}:00Z"}
        pod = {"kind": "Pod", "metadata": {"name": "etl", "namespace": "ml", "uid": uid, **times}, "status": {"phase": "Pending"}}
        lahar("ingest", "--recorded", given=json.dumps({**pod, "spec": {"restartPolicy": "Never"}}))

    def paths(before: str, after: str) -> list[str]:
        changes = lahar("diff", f"2026-05-01 {before}", f"2026-05-01 {after}", "--json", code=1).records
        return [change["path"] for change in changes if change["path"].endswith(".phase")]

    assert paths("11:00", "12:15") == ["jobs.ml/etl@first.phase"]
    assert paths("12:15", "13:00") == ["jobs.ml/etl@second.phase"]
    assert lahar("job", "show", "ml/etl@first", "--json").records[0]["id"] == "first"
