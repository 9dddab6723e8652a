"""Bills of whole real traces, by command, against sums that DuckDB makes of the raw files: to the microsecond."""

from __future__ import annotations

import gzip
import json
import os
from itertools import islice
from pathlib import Path
from typing import Final

import duckdb
import pytest

from engine.simulation import sample_trace

CSV: Final = "read_csv($raw, all_varchar = true)"
SWF: Final = """(
    SELECT word[12] AS user, word[5] AS processors, word[4] AS run_time FROM (
        SELECT regexp_split_to_array(trim(line), ' +') AS word FROM read_csv(
            $raw, columns = {'line': 'VARCHAR'}, header = false, delim = '\t', quote = '', comment = ';', auto_detect = false
        )
    )
)"""
"""Of the format's columns those that count."""

RAN: Final = {
    "philly-status": (CSV, "user, gpu_num, run_time"),
    "philly": (CSV, "cluster, num_gpus, duration"),
    "openb": (CSV, "qos, num_gpu, deletion_time::BIGINT - scheduled_time::BIGINT"),
    "swf": (SWF, "user, processors, run_time"),
}
"""What a trace says of each job: whose it is (user or queue), its devices (swf: processors), and how many seconds it ran."""
BILLED: Final = {
    "philly-status": ("user", "gpu_seconds"),
    "philly": ("queue", "gpu_seconds"),
    "openb": ("queue", "gpu_seconds"),
    "swf": ("user", "cpu_seconds"),
}
"""The same fields of an invoice's lines."""

PRODUCTS: Final = """
    SELECT owner, sum(size::DECIMAL(38, 0) * seconds::DECIMAL(38, 6)), count(*)
    FROM (SELECT {columns} FROM {table}) AS trace(owner, size, seconds)
    WHERE size::BIGINT > 0 AND seconds::DECIMAL(38, 6) > 0 GROUP BY owner ORDER BY owner
"""
NEVER: Final = "SELECT name FROM {table} WHERE scheduled_time IS NULL"
LINES: Final = """
    SELECT {owner}, sum({meter}::DECIMAL(38, 6)), count(DISTINCT job)
    FROM read_json('lines.jsonl', columns = {{{owner}: 'VARCHAR', {meter}: 'VARCHAR', job: 'VARCHAR'}})
    WHERE {meter} IS NOT NULL GROUP BY {owner} ORDER BY {owner}
"""


@pytest.fixture
def must_bill_what_the_file_says(lahar, folder):
    """Import a trace; returns what each user or queue is billed, with the number of their jobs, and what the import said."""

    def compare(raw, source_format):
        told = lahar("import-trace", "--format", source_format, raw, "--json").record
        lines = [line for invoice in lahar("billing", "invoice", "--json").records for line in invoice["lines"]]
        (folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        owner, meter = BILLED[source_format]
        billed = duckdb.sql(LINES.format(owner=owner, meter=meter)).fetchall()
        table, columns = RAN[source_format]
        assert billed == duckdb.sql(PRODUCTS.format(table=table, columns=columns), params={"raw": str(raw)}).fetchall()
        assert billed
        return billed, told

    return compare


@pytest.fixture
def shared(folder):
    """A full trace, or its first rows, where these are at hand."""

    def find(name, rows=None):
        path = Path(os.environ.get("LAHAR_SHARED", "")) / "traces" / name
        if not path.is_file():
            pytest.skip(f"no {name} in the folder traces of LAHAR_SHARED")
        if rows is None:
            return path
        with gzip.open(path, "rt") as lines:
            (folder / "first.csv").write_text("".join(islice(lines, rows + 1)))
        return folder / "first.csv"

    return find


@pytest.fixture
def pods_that_cost_nothing(lahar):
    """Of an openb trace that is imported: how many pods never got a node, and how many of these are on no invoice."""

    def count(raw):
        never = duckdb.sql(NEVER.format(table=CSV), params={"raw": str(raw)}).fetchall()
        billed = {line["name"] for invoice in lahar("billing", "invoice", "--json").records for line in invoice["lines"]}
        return len(never), sum(name not in billed for (name,) in never)

    return count


def test_the_first_rows_of_the_sample_of_philly_status(must_bill_what_the_file_says, folder):
    with sample_trace("philly-status") as raw, gzip.open(raw, "rt") as lines:
        (folder / "first.csv").write_text("".join(islice(lines, 301)))
    billed, told = must_bill_what_the_file_says(folder / "first.csv", "philly-status")
    assert len(billed) > 20
    assert (told["rows"], told["rejected"]) == (300, 0)


def test_the_sample_of_openb_whose_pods_without_a_node_cost_nothing(must_bill_what_the_file_says, pods_that_cost_nothing):
    with sample_trace("openb") as raw:
        must_bill_what_the_file_says(raw, "openb")
        never, free = pods_that_cost_nothing(raw)
    assert never == free > 100


def test_the_first_rows_of_philly(must_bill_what_the_file_says, shared):
    billed, _ = must_bill_what_the_file_says(shared("philly_gpu_jobs.csv.gz", 1_500), "philly")
    assert len(billed) > 5


def test_swf_whose_jobs_without_a_run_time_are_reported_and_not_billed(must_bill_what_the_file_says, shared, lahar):
    billed, told = must_bill_what_the_file_says(shared("hpc2n_sample.swf.gz"), "swf")
    assert (told["rows"], told["rejected"], sum(jobs for _, _, jobs in billed)) == (3_170, 0, 3_145)
    assert lahar("summary", "--json").record["without_end"] == 25


def test_a_run_time_that_is_none_is_reported_and_not_billed(lahar):
    """An unknown one gives a job of unknown end; a word, or one below zero, a rejected row."""
    row = "{} 0 10 {} 4 -1 -1 4 -1 -1 1 7 1 -1 1 1 -1 -1\n"
    Path("some.swf").write_text("".join(row.format(n, run) for n, run in enumerate(["90", "-1", "soon", "-5"], start=1)))
    assert lahar("import-trace", "--format", "swf", "some.swf", "--json", code=1).record["rejected"] == 2
    (invoice,) = lahar("billing", "invoice", "--json").records
    assert [(line["name"], line["cpu_seconds"]) for line in invoice["lines"]] == [("swf-1", "360")]
    summary = lahar("summary", "--json").record
    assert (summary["without_end"], summary["rejected_rows"]) == (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source_format", "rows", "published"),
    [
        ("philly_status_15k.csv.gz", "philly-status", 15_000, 2_756_749_794),
        ("philly_gpu_jobs.csv.gz", "philly", 82_247, 3_521_082_502),
    ],
)
def test_whole_traces_of_philly(must_bill_what_the_file_says, shared, lahar, name, source_format, rows, published):
    billed, told = must_bill_what_the_file_says(shared(name), source_format)
    assert (told["rows"], told["rejected"]) == (rows, 0)
    assert sum(seconds for _, seconds, _ in billed) == published
    assert "verify: ok" in lahar("billing", "verify").out


@pytest.mark.slow
def test_the_whole_trace_of_openb(must_bill_what_the_file_says, pods_that_cost_nothing, shared, lahar):
    raw = shared("openb_pods.csv.gz")
    must_bill_what_the_file_says(raw, "openb")
    assert pods_that_cost_nothing(raw) == (897, 897)
    assert "verify: ok" in lahar("billing", "verify").out
