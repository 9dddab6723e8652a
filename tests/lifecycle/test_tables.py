"""What live jobs share: empty tables, which nothing writes to, and the texts that many have in common."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

import pytest
from lifecycle_driver import Driver, pod, records

from engine.lifecycle.job import Apart, Job, Page, Table, Task, Timer
from engine.lifecycle.job_pages import clear, discard, join, keep
from engine.lifecycle.tables import EMPTY, empty, own


def tables(part: Job | Task):
    return {field.name: getattr(part, field.name) for field in fields(part) if field.default_factory is empty}


def test_a_live_job_has_a_table_of_its_own_only_where_something_is_in_it():
    driver = Driver()
    for index in range(4):
        for version, phase in enumerate(("Pending", "Bound", "Running"), start=1):
            driver.see(pod(f"u{index}", "j1", version, phase, node=f"n{index}", running=1, task="w", index=index))
    read = driver.stage.initial()
    driver.stage.load(read, records(driver.state).items())
    for state in (driver.state, read):
        job = state.jobs["j1"]
        found = tables(job) | tables(job.tasks["w"])
        assert len(found) == 18
        assert [name for name, table in found.items() if table is not EMPTY] == []


def test_the_shared_table_cannot_be_written_to():
    for table in (EMPTY, Job("j1").timers):
        with pytest.raises(TypeError, match="does not support item assignment"):
            table["a"] = 1  # type: ignore[index]  # what mypy refuses
    assert own(EMPTY) == {}
    assert own(EMPTY) is not own(EMPTY)
    mine = {"a": 1}
    assert own(mine) is mine


@pytest.mark.parametrize("table", get_args(Table))
def test_what_is_kept_of_one_job_is_not_kept_of_another(table):
    one, other, loaded = Job("j1"), Job("j2"), Job("j3")
    entry = {"timers": Timer("t", "lost", 0), "held": {}, "waiting": {}}.get(table)
    for number in range(200):
        keep(one, table, f"k{number}", entry)
    loaded.apart = {table: Apart()}
    join(loaded, Page(table, 1), Job("j3", **{table: {"a": entry}}))
    assert len(getattr(one, table)) == 200
    assert getattr(loaded, table) == {"a": entry}
    assert discard(other, table, "k0") is None
    discard(one, table, "k0")
    assert len(getattr(one, table)) == 199
    clear(one, table)
    assert getattr(one, table) is EMPTY
    assert getattr(other, table) == {}
    assert EMPTY == {}


def test_jobs_of_a_kind_share_the_texts_that_name_it():
    driver = Driver()
    for ident in ("j1", "j2"):
        driver.see(pod(f"u-{ident}", ident, 1, "Pending", task="worker", kind="RayJob", namespace="research"))
    one, other = driver.job("j1"), driver.job("j2")
    assert (one.kind, one.namespace, *one.tasks) == ("RayJob", "research", "worker")
    assert one.kind is other.kind
    assert one.namespace is other.namespace
    assert next(iter(one.tasks)) is next(iter(other.tasks))
