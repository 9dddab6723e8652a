"""Some records of a log are damaged: `export` saves all others, as the error advises, and `import` takes them."""

from __future__ import annotations

import json
import sqlite3

import pytest
from test_feed import pod


@pytest.fixture
def filled(lahar, files):
    """A log with a queue, a job and a dead letter."""
    lahar("apply", files["queue"], files["job"])
    lahar("ingest", given="garbage {{{\n", code=1)
    return lahar


def damage(path, table, offset):
    """Change a byte of a record behind the engine's back."""
    with sqlite3.connect(path) as file:
        file.execute(f"""UPDATE "{table}" SET data = data || x'20' WHERE "offset" = ?""", (offset,))  # noqa: S608 - ours
    file.close()


class TestDamagedRecords:
    @pytest.mark.parametrize(("topic", "offset"), [("pods", 0), ("jobs", 0), ("job-events", 1), ("dead-letters", 0)])
    def test_an_export_goes_on_behind_them_and_can_be_imported(self, filled, folder, topic, offset):
        """What the error advises."""
        whole = filled("export").out.splitlines()
        damage(folder / "lahar.db", f"{topic}/0", offset)
        done = filled("export", code=1)
        assert f"warning: left out: {topic}/0 at {offset}: it does not match its checksum\n" in done.err
        assert done.err.endswith("lahar: 1 records are damaged and left out; `lahar import` continues without them\n")
        kept = [line for line in done.out.splitlines() if "lahar.record.left_out.v1" not in line]
        (gone,) = set(whole[:-1]) - set(kept)
        assert f'"topic":"{topic}","partition":0,"offset":{offset}' in gone
        assert len(kept) == len(whole) - 1
        (folder / "saved.jsonl").write_text(done.out)
        filled("import", "saved.jsonl", "--log", "sqlite:new.db")
        filled("job", "list", "--log", "sqlite:new.db")
        assert len(filled("export", "--log", "sqlite:new.db").out.splitlines()) == len(whole) - 1
        filled("run", "--once", "--log", "sqlite:new.db")

    def test_of_one_job_too(self, filled, folder):
        damage(folder / "lahar.db", "job-events/0", 2)
        job = filled("export", code=1).out
        ident = next(json.loads(line)["subject"] for line in job.splitlines() if "lahar.job.opened" in line)
        assert "left out: job-events/0 at 2" in filled("export", "--job", ident, code=1).err

    def test_an_output_that_is_missing_and_was_not_left_out_is_refused(self, filled, folder):
        lines = filled("export").out.splitlines()
        number = next(number for number, line in enumerate(lines) if "lahar.job.opened" in line)
        (folder / "cut.jsonl").write_text("\n".join(lines[:number] + lines[number + 1 :]))
        assert "is missing" in filled("import", "cut.jsonl", "--log", "sqlite:new.db", code=2).err

    def test_records_before_a_damaged_one_in_the_same_chunk_are_there(self, lahar, folder):
        lahar("ingest", given="\n".join(json.dumps(pod(f"p{number}")) for number in range(50)))
        for offset in (0, 17, 18, 49):
            damage(folder / "lahar.db", "pods/0", offset)
        done = lahar("export", code=1)
        assert done.err.count("left out") == 5
        assert done.out.count('"topic":"pods"') == 46 + 4
