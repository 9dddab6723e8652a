"""The example that loads records into a database holds each once, whatever is given again: examples/agents/bills.py."""

from __future__ import annotations

import json
import random
import runpy
import sqlite3
from contextlib import closing
from decimal import Decimal
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest
from billing_shard import run
from standing import standing, written
from test_planted_billing_bugs import program_of

from engine.billing.records import json_of
from engine.events.billing import UsageRecorded, UsageWithdrawn

EXAMPLE = Path(__file__).parents[2] / "examples" / "agents" / "bills.py"
SEEDS = (1, 3, 6, 9, 16, 20, 25, 27)
"""Of programs in which all sorts of records are withdrawn or reversed."""


@cache
def events_of(seed):
    """What the billing stage writes of a random program, in which months are closed and more is learnt of them."""
    log, _ = run(program_of(seed))
    return written(log)


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The example's names; its database is a new file."""
    monkeypatch.setenv("BILLS_DATABASE", str(tmp_path / "bills.db"))
    return runpy.run_path(str(EXAMPLE))


def given_again(events, dice):
    """Yield events in their order, as processes that are killed now and then have them delivered: from some place before on."""
    place = committed = 0
    while place < len(events):
        yield events[place]
        place += 1
        if dice.random() < 0.2:
            committed = dice.randint(committed, place)
        if dice.random() < 0.1:
            place = committed


def must_load_what_stands(example, seed):
    """What is not void is what stands, line by line; of what is void nothing is lost."""
    events = events_of(seed)
    load, write = example["load"], example["write"]
    with closing(sqlite3.connect(example["DATABASE"])) as database, database:
        database.execute("DELETE FROM records")
    for event in given_again(events, random.Random(seed)):  # noqa: S311 - a workload
        if event.type in load.types:
            write(event)
    with closing(sqlite3.connect(example["DATABASE"])) as database:
        loaded = database.execute("SELECT line FROM records WHERE NOT void ORDER BY id").fetchall()
        amount = sum((Decimal(text) for (text,) in database.execute("SELECT amount FROM records WHERE NOT void")), Decimal(0))
        (held,) = database.execute("SELECT count(*) FROM records").fetchone()
    stands = sorted(standing(events), key=lambda record: record.id)
    pairs = zip_longest([json.loads(line) for (line,) in loaded], map(json_of, stands))
    assert not any(line != record for line, record in pairs)  # to print how thousands of lines differ takes most of a minute
    assert amount == sum((record.amount for record in stands), Decimal(0))
    return held - len(loaded)


def must_load_what_always_stands(example):
    return sum(must_load_what_stands(example, seed) for seed in SEEDS)


def test_what_is_loaded_is_what_stands_whatever_is_given_again(example):
    assert must_load_what_always_stands(example) > 0
    kinds = {event.data.record for seed in SEEDS for event in events_of(seed) if isinstance(event.data, UsageRecorded)}
    assert kinds == {"usage", "excess", "reversal"}
    assert any(isinstance(event.data, UsageWithdrawn) for seed in SEEDS for event in events_of(seed))


BUGS = {
    "what is given again is a record more": ("INSERT", ":id,", "hex(randomblob(16)),"),
    "what is withdrawn again takes its replacement along": ("VOID", "AND revision < :revision", ""),
    "what is withdrawn stays": ("VOID", "SET void = 1", "SET void = 0"),
    "what stands on a closed invoice is withdrawn as well": ("VOID", "AND period = :period", ""),
    "what was before is withdrawn as well": ("VOID", "AND ended > :start", ""),
}


@pytest.mark.parametrize("bug", BUGS)
def test_bugs_in_the_example_are_found(example, plant, bug):
    name, right, wrong = BUGS[bug]
    names = example["write"].__globals__
    assert right in names[name]
    plant(names, name, names[name].replace(right, wrong))
    with pytest.raises(AssertionError):
        must_load_what_always_stands(example)
