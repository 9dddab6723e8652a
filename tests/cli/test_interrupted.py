"""Ctrl-C while a shard is recovered or a value is serialized: the command ends at once, and nothing is half done."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import pytest
from test_feed import pod

PODS = 100

INTERRUPTED = """
import os, signal, sys, threading
from engine.cli.main import app
from engine.lifecycle.stage import LifecycleStage

evolve, folded = LifecycleStage.evolve, 0

def slow(state, event):
    global folded
    folded += 1
    if folded == 1:
        os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(0.05)
    evolve(state, event)

LifecycleStage.evolve = staticmethod(slow)
try:
    app(sys.argv[1:], prog_name="lahar")
finally:
    print("folded", folded, file=sys.stderr)
"""


@pytest.mark.parametrize("command", [["run"], ["run", "--once"], ["ingest"]], ids=" ".join)
def test_a_recovery_is_interrupted(lahar, folder, command):
    lahar("ingest", given="\n".join(json.dumps(pod(f"p{number}")) for number in range(PODS)))
    before = lahar("export").out
    with sqlite3.connect(folder / "lahar.db") as file:
        file.execute("DELETE FROM subjects")
    file.close()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *command],
        cwd=folder,
        input=json.dumps(pod("late")) if command == ["ingest"] else "",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    *_, told = done.stderr.splitlines()
    assert (done.returncode, told.split()[0]) == (130, "folded")
    assert 1 <= int(told.split()[1]) < PODS
    assert set(before.splitlines()[:-1]) <= set(lahar("export").out.splitlines())
    again = subprocess.run(
        [sys.executable, "-c", "from engine.cli.main import main; main()", "run", "--once"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ended while" not in again.stderr, "nothing is to blame for an interruption"
    assert [found["ok"] for found in lahar("verify", "--json").records] == [True] * 4


SERIALIZING = """
import os, signal, sys
from engine.cli.main import app
from statemachines.spec import Requests

compare, place = Requests.__eq__, sys.argv.pop(1)

def interrupted(self, other):
    serializes = sys._getframe(1)
    if place == f"{serializes.f_back.f_code.co_name}/{serializes.f_code.co_name}":
        os.kill(os.getpid(), signal.SIGINT)
    return compare(self, other)

Requests.__eq__ = interrupted
app(sys.argv[1:], prog_name="lahar")
"""
SIMULATE = ["simulate", "--jobs", "3", "--gpus", "64"]


@pytest.mark.parametrize(
    ("place", "command"),
    [
        pytest.param("_write/encode", SIMULATE, id="event of a stage"),
        pytest.param("_message/dump_json", ["ingest"], id="digest of an object without a version"),
        pytest.param("encode_job/dump_json", ["ingest"], id="record of a job at a commit"),
    ],
)
def test_a_serializer_that_wraps_the_interrupt_hides_it_from_nobody(folder, place, command):
    """The serializer compares requests with their default by Python code. No job is parked, no object is refused."""
    seen = pod("one")
    del seen["metadata"]["resourceVersion"]
    seen["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    done = subprocess.run(
        [sys.executable, "-c", SERIALIZING, place, *command],
        cwd=folder,
        input=json.dumps(seen),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
