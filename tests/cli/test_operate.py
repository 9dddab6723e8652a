"""`lahar verify`, `status`, `dead-letters`, `log`, `export`, `import`."""

from __future__ import annotations

import sqlite3
from zlib import crc32

import pytest

from engine.events import encode
from engine.lifecycle.stage import LifecycleStage
from engine.log.lock import RunLock
from engine.log.port import Commit, Output, Partition, ShardId
from engine.log.sqlite import SqliteLog
from engine.processor.dead_letters import too_large
from engine.processor.partitions import input_partitions

READING = [
    ["summary"],
    ["job", "list"],
    ["job", "show", "x"],
    ["history", "x"],
    ["timeline", "x"],
    ["why", "x"],
    ["as-of", "2026-01-01"],
    ["diff", "2026-01-01", "2026-01-02"],
    ["events"],
    ["verify"],
    ["status"],
    ["export"],
    ["dead-letters", "list"],
    ["dead-letters", "redrive"],
    ["dead-letters", "discard", "x"],
    ["log", "backup", "copy.db"],
    ["log", "compact"],
    ["job", "command", "x", "AbortJob"],
    ["job", "raise", "x", "Y"],
    ["job", "unpark", "x"],
]


@pytest.fixture
def filled(lahar, files):
    """A log with a queue, a job and a dead letter."""
    lahar("apply", files["queue"], files["job"])
    lahar("ingest", given="garbage {{{\n", code=1)
    return lahar


class TestLogs:
    @pytest.mark.parametrize("arguments", READING, ids=" ".join)
    def test_asking_makes_no_log(self, lahar, folder, arguments):
        done = lahar(*arguments, code=4)
        assert done.out == ""
        assert done.err == "lahar: lahar.db does not exist; `lahar apply`, `ingest` and `import-trace` make a log\n"
        assert list(folder.iterdir()) == []

    @pytest.mark.parametrize("arguments", [["summary"], ["verify"], ["run", "--once"], ["ingest"]], ids=" ".join)
    def test_a_file_that_is_something_else(self, lahar, folder, arguments):
        (folder / "lahar.db").write_text("dear diary\n" * 100)
        assert "lahar.db is no Lahar log; name another file" in lahar(*arguments, code=4, given="").err
        assert (folder / "lahar.db").read_text().startswith("dear diary")

    def test_a_damaged_file(self, filled, folder):
        content = (folder / "lahar.db").read_bytes()
        (folder / "lahar.db").write_bytes(content[: len(content) // 2])
        done = filled("summary", code=4)
        assert "is damaged" in done.err
        assert done.err.count("\n") == 1

    def test_a_log_of_another_kind(self, lahar):
        assert "Kafka at 127.0.0.1:1 cannot be reached" in lahar("summary", "--log", "kafka://127.0.0.1:1", code=4).err
        assert "write sqlite:PATH" in lahar("summary", "--log", "postgres:x", code=2).err
        assert lahar("job", "list", "--log", "memory:", "--json").out == ""

    def test_a_folder_that_does_not_exist(self, lahar):
        assert (
            "check that the folder exists"
            in lahar("apply", "-", "--log", "sqlite:no/where.db", code=4, given="kind: Queue\nmetadata: {name: q}").err
        )

    def test_a_wrong_configuration(self, lahar, folder):
        (folder / "lahar.toml").write_text("logs = 'x'")
        assert "lahar.toml: logs: Extra inputs" in lahar("status", code=2).err

    def test_a_foreign_folder_that_asks_for_a_login(self, lahar, folder):
        (folder / "lahar.toml").write_text('log = "kafka://127.0.0.1:1"')
        login = {"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_USERNAME": "ann", "KAFKA_SASL_PASSWORD": "hunter2"}
        told = lahar("status", code=2, **login).err
        assert len(told.splitlines()) == 1
        assert "KAFKA_SASL_PASSWORD, KAFKA_SASL_USERNAME would be sent" in told
        assert "hunter2" not in told


class TestVerify:
    def test_a_sound_log(self, filled):
        assert filled("verify").out.count("history and snapshot agree") == 4
        record = filled("verify", "--json").lifecycle
        assert (record["ok"], record["parts"]) == (True, [])
        assert record["from_history"] == record["from_snapshot"]

    def test_a_snapshot_that_is_not_what_the_history_says(self, filled, folder):
        job = filled("job", "list", "--json").record["id"]
        with sqlite3.connect(folder / "lahar.db") as file:
            ours = "shard = (SELECT id FROM shards WHERE name = 'lifecycle/0')"
            query = f"SELECT subject, state FROM subjects WHERE {ours} AND subject LIKE 'job/%'"  # noqa: S608  of this test's own
            subject, state = file.execute(query).fetchone()
            forged = state.replace(b"train", b"brain")
            assert forged != state
            file.execute(
                f"UPDATE subjects SET state = ?, crc = ? WHERE {ours} AND subject = ?",  # noqa: S608  as above
                (forged, crc32(forged, crc32(subject.encode())), subject),
            )
        file.close()
        done = filled("verify", code=1)
        assert f"job/{job}" in done.out
        record = filled("verify", "--json", code=1).lifecycle
        assert [part["subject"] for part in record["parts"]] == [f"job/{job}"]

    def test_a_record_that_was_changed(self, filled, folder):
        with sqlite3.connect(folder / "lahar.db") as file:
            file.execute("""UPDATE "job-events/0" SET data = replace(data, 'train', 'brain')""")
        file.close()
        assert "does not match its checksum" in filled("verify", code=4).err

    def test_an_input_that_was_changed(self, filled, folder):
        with sqlite3.connect(folder / "lahar.db") as file:
            file.execute("""UPDATE "pods/0" SET data = data || 'x'""")
        file.close()
        first, *others = filled("verify", code=1).out.splitlines()
        assert first == "lifecycle/0: 1 fault in the inputs; pods/0 at 0: it does not match its checksum"
        assert [line.partition(",")[0] for line in others] == ["scheduling/0: ok", "billing/0: ok", "budgets/0: ok"]
        record = filled("verify", "--json", code=1).lifecycle
        assert (record["ok"], record["inputs"]) == (False, None)


class TestStatus:
    def test_for_a_person_and_for_a_program(self, filled):
        record = filled("status", "--json").lifecycle
        assert record["shard"] == "lifecycle/0"
        assert (record["lag"], record["dead_letters"], record["parked_jobs"], record["running"]) == (0, 1, 0, False)
        assert record["inputs"]["jobs/0"] == {"taken": 1, "end": 1}
        assert record["received"] == sum(record["outcomes"].values()) == 3
        page = filled("status").out
        for text in ("no engine runs it", "jobs/0", "1 of 1 taken", "1 dead", "next timer", "records, "):
            assert text in page


class TestDeadLetters:
    def test_are_listed_with_reason_and_origin(self, filled):
        record = filled("dead-letters", "list", "--json").record
        assert (record["topic"], record["partition"], record["offset"]) == ("pods", 0, 0)
        assert "no object" in record["reason"]
        assert "pods/0 @0" in filled("dead-letters", "list").out

    def test_are_put_in_again_and_stay_dead_if_they_must(self, filled):
        identity = filled("dead-letters", "list", "--json").record["id"]
        assert filled("dead-letters", "redrive", identity[:8], "--json").record == {"redriven": 1}
        again = filled("dead-letters", "list", "--json").record
        assert (again["tries"], again["id"] == identity, again["offset"]) == (2, False, 1)
        assert filled("dead-letters", "list").err == "1 dead letter(s)\n"
        assert filled("dead-letters", "redrive").out == "1 dead letter(s) redriven\n"
        assert filled("dead-letters", "list", "--json").record["tries"] == 3
        assert "`lahar dead-letters list --all` lists" in filled("dead-letters", "redrive", "zzz", code=3).err

    def test_that_are_discarded_are_open_no_longer_and_nothing_of_them_is_lost(self, filled):
        before = filled("dead-letters", "list", "--json").record
        done = filled("dead-letters", "discard", before["id"][:8], "--by", "ann", "--reason", "a probe")
        assert done.out.startswith(f"{before['id']}  ann discarded the dead letter ")
        assert done.out.endswith(" (a probe)\n")
        assert filled("dead-letters", "list").err == "0 dead letter(s)\n"
        listed = filled("dead-letters", "list", "--all", "--json").record
        discarded = listed.pop("discarded")
        assert listed == before
        assert (discarded["by"], discarded["reason"], bool(discarded["principal"])) == ("ann", "a probe", True)
        assert f"by ann {discarded['recordedtime'][:19]} a probe" in filled("dead-letters", "list", "--all", COLUMNS="200").out
        assert [found["ok"] for found in filled("verify", "--json").records] == [True] * 4

    def test_that_are_discarded_twice_are_discarded_once(self, filled):
        identity = filled("dead-letters", "list", "--json").record["id"]
        filled("dead-letters", "discard", identity, "--by", "ann")
        events = filled("export").out
        assert f"{identity[:12]} was discarded before: by ann" in filled("dead-letters", "discard", identity, "--by", "ben").err
        assert filled("export").out == events
        assert "no dead letter 'zzz'" in filled("dead-letters", "discard", "zzz", code=3).err

    def test_that_are_discarded_are_put_in_again_only_by_name_and_then_open(self, filled):
        identity = filled("dead-letters", "list", "--json").record["id"]
        filled("dead-letters", "discard", identity)
        assert filled("dead-letters", "redrive", "--json").record == {"redriven": 0}
        assert filled("dead-letters", "redrive", identity, "--json").record == {"redriven": 1}
        again = filled("dead-letters", "list", "--json").record
        assert (again["tries"], again["id"] == identity) == (2, False)

    def test_that_are_discarded_stay_so_in_another_log(self, filled, folder):
        filled("dead-letters", "discard", filled("dead-letters", "list", "--json").record["id"])
        (folder / "all.jsonl").write_text(filled("export").out)
        filled("import", "all.jsonl", "--log", "sqlite:new.db")
        for arguments in (["--all"], []):
            there = filled("dead-letters", "list", *arguments, "--json", "--log", "sqlite:new.db").out
            assert there == filled("dead-letters", "list", *arguments, "--json").out
        assert [found["ok"] for found in filled("verify", "--json", "--log", "sqlite:new.db").records] == [True] * 4

    def test_are_discarded_by_nobody_who_may_not(self, filled):
        spec = "{principals: [ann], namespaces: ['*']}"
        filled("apply", "-", given=f"{{apiVersion: lahar.dev/v1, kind: Grant, metadata: {{name: g}}, spec: {spec}}}")
        identity = filled("dead-letters", "list", "--json").record["id"]
        done = filled("dead-letters", "discard", identity, code=2)
        assert "may not speak for namespace *: no Grant of cluster default says so" in done.err
        assert filled("dead-letters", "list", "--json").record["id"] == identity

    def test_that_were_too_large_to_be_kept_are_told_and_not_put_in_again(self, filled, folder):
        log, stage, shard = SqliteLog(folder / "lahar.db"), LifecycleStage(), ShardId("lifecycle", 0)
        (record,) = log.read(Partition("jobs", 0), 0, 1)
        held = log.open(shard, input_partitions(log, stage, 0))
        letter = encode(too_large(shard, record, "a record of 9 bytes: too many", 0, 2))
        held.commit(Commit(held.position.vector, held.position.now, [Output("dead-letters", letter, held.position.vector)]))
        log.close()
        listed = filled("dead-letters", "list", "--json").records[-1]
        assert (listed["content"], len(listed["digest"])) == ("", 64)
        done = filled("dead-letters", "redrive", listed["id"], "--json")
        assert done.record == {"redriven": 0}
        assert "jobs/0 @0 was too large to be kept, and is not redriven" in done.err

    def test_live_again_once_they_can_be_read(self, lahar, monkeypatch):
        from engine.kubernetes import edge
        from engine.kubernetes.errors import ProjectionError

        def refuse(*_):
            raise ProjectionError("status", "a field of the future")

        metadata = '{"name": "p", "namespace": "x", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}'
        pod = f'{{"kind": "Pod", "metadata": {metadata}, "spec": {{"containers": []}}}}'
        with monkeypatch.context() as old:
            old.setattr(edge, "observe_pod", refuse)
            assert "a field of the future" in lahar("ingest", given=pod, code=1).err
        lahar("dead-letters", "redrive")
        assert lahar("job", "list", "--all", "--json").record["id"] == "u"


class TestFile:
    def test_backup(self, filled, folder):
        assert filled("log", "backup", "copy.db").out.startswith("copy.db: ")
        assert filled("export", "--log", "sqlite:copy.db").out == filled("export").out
        assert filled("log", "backup", "copy.db", code=2).err == "lahar: copy.db exists; name a new file for the backup\n"
        assert filled("log", "backup", "more.db", "--json").record["file"] == "more.db"

    def test_compact(self, filled):
        before = filled("export").out
        assert "lahar.db: " in filled("log", "compact").out
        assert set(filled("log", "compact", "--json").record) == {"file", "before", "after"}
        assert filled("export").out == before

    def test_only_files(self, lahar):
        for command in (["backup", "x.db"], ["compact"]):
            assert "only a log in a file" in lahar("log", *command, "--log", "memory:", code=4).err


class TestTransfer:
    def test_everything(self, filled, folder):
        exported = filled("export").out
        (folder / "all.jsonl").write_text(exported)
        assert "records restored into sqlite:new.db" in filled("import", "all.jsonl", "--log", "sqlite:new.db").out
        assert filled("export", "--log", "sqlite:new.db").out == exported
        assert [found["ok"] for found in filled("verify", "--log", "sqlite:new.db", "--json").records] == [True] * 4
        filled("job", "command", "ml/train", "AbortJob", "--log", "sqlite:new.db")
        assert filled("job", "list", "--log", "sqlite:new.db", "--json").record["phase"] == "Aborting"

    def test_one_job(self, filled, folder):
        exported = filled("export", "--job", "ml/train", "--json").out
        assert filled("import", "-", "--json", "--log", "sqlite:new.db", given=exported).record["records"] == 6
        assert filled("history", "ml/train", "--log", "sqlite:new.db").out == filled("history", "ml/train").out

    def test_a_range(self, filled):
        assert len(filled("export", "--last", "2026-01-01").records) == len(["begin", "end"])
        assert len(filled("export", "--first", "2020-01-01").records) == len(filled("export").records)
        assert "a job is exported whole" in filled("export", "--job", "ml/train", "--first", "2020-01-01", code=2).err

    def test_into_a_log_that_is_not_empty(self, filled, folder):
        exported = filled("export").out
        assert "the log is not empty; import into a new one" in filled("import", given=exported, code=2).err

    def test_into_a_log_that_an_engine_runs(self, filled, folder):
        """Also an empty one: the engine would write into what is being restored."""
        exported = filled("export").out
        SqliteLog("new.db").close()
        with RunLock(folder / "new.db").hold():
            done = filled("import", "--log", "sqlite:new.db", given=exported, code=4)
        assert "which runs this log" in done.err
        assert "records restored" in filled("import", "--log", "sqlite:new.db", given=exported).out

    @pytest.mark.parametrize(("text", "made"), [("", False), ("a: 1\n", False), ("{}\n", False)])
    def test_what_is_no_export(self, lahar, folder, text, made):
        assert "the first line is not that of an export" in lahar("import", given=text, code=2).err
        assert (folder / "lahar.db").exists() is made

    def test_a_line_that_cannot_be_read(self, filled):
        lines = filled("export").out.splitlines()
        done = filled("import", "--log", "sqlite:new.db", given="\n".join([*lines[:3], "{", *lines[3:]]), code=2)
        assert "line 4 cannot be read" in done.err
        assert "nothing is restored" in done.err

    def test_an_export_that_was_cut_off_leaves_the_log_as_it_was(self, filled):
        exported = filled("export").out
        cut = "".join(exported.splitlines(keepends=True)[:-3])
        done = filled("import", "--log", "sqlite:new.db", given=cut, code=2)
        assert "the export is incomplete, its last line is missing" in done.err
        assert filled("events", "--log", "sqlite:new.db").out == ""
        filled("import", "--log", "sqlite:new.db", given=exported)
        assert filled("export", "--log", "sqlite:new.db").out == exported

    def test_the_number_of_partitions_is_kept(self, lahar, files, folder):
        SqliteLog("wide.db", 3).close()
        lahar("apply", files["queue"], files["job"], "--log", "sqlite:wide.db")
        each = {stage: [f"{stage}/{number}" for number in range(3)] for stage in ("lifecycle", "billing")}
        shards = [*each["lifecycle"], "scheduling/0", *each["billing"], "budgets/0"]
        assert [record["shard"] for record in lahar("status", "--json", "--log", "sqlite:wide.db").records] == shards
        exported = lahar("export", "--log", "sqlite:wide.db").out
        lahar("import", "--log", "sqlite:again.db", given=exported)
        assert lahar("export", "--log", "sqlite:again.db").out == exported
        assert [found["shard"] for found in lahar("verify", "--json", "--log", "sqlite:again.db").records] == shards


def test_a_line_of_an_export_is_bounded(lahar, folder):
    (folder / "export.jsonl").write_bytes(b"x" * ((32 << 20) + 1))
    assert "line 1 has more than 33,554,432 bytes" in lahar("import", "export.jsonl", code=2).err
