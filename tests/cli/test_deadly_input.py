"""One tenant's input for which a process decides for ever does not keep the others from their work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANTED = """
from engine.lifecycle.stage import LifecycleStage
decide = LifecycleStage.decide
def looping(stage, state, event, now):
    while "deadly" in str(event.data):
        pass
    return (yield from decide(stage, state, event, now))
LifecycleStage.decide = looping
from engine.cli.main import main
main()
"""


def planted(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Call the command, with a defect of the lifecycle stage."""
    return subprocess.run(
        [sys.executable, "-c", PLANTED, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "LAHAR_DECIDE_LIMIT": "1s"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_third_command_sets_it_aside_and_does_its_own_work(lahar, files, folder):
    deadly = folder / "deadly.yaml"
    deadly.write_text(files["job"].read_text().replace("name: train, n", "name: deadly, n"))
    runs = [planted("apply", file) for file in (deadly, files["queue"], files["job"])]
    assert [run.returncode for run in runs] == [70, 70, 0], runs
    assert "jobs/0@0 is not decided after 1 s of processor time: this process ends" in runs[0].stderr
    assert "2 processes, one after the other, ended while they decided jobs/0@0; it is dropped now" in runs[2].stderr
    assert "ml/train" in runs[2].stdout
    assert lahar("job", "show", "ml/train", "--json").record["phase"] == "Pending"
    status = lahar("status", "--json").lifecycle
    assert (status["outcomes"]["parked"], status["lag"]) == (1, 0)
    parked, *_ = lahar("events", "--type", "lahar.job.parked.v1", "--json").records
    assert parked["data"]["error"] == "processes ended twice while they decided it"
    assert "deadly" in lahar("job", "list").out
    assert "processes ended twice" in lahar("why", "ml/deadly").out
    for ask in (["job", "show"], ["timeline"]):
        assert "the job 'ml/deadly' is not opened yet; `lahar why ml/deadly` shows" in lahar(*ask, "ml/deadly", code=3).err
    lahar("job", "unpark", "ml/deadly")
    assert sorted(record["name"] for record in lahar("job", "list", "--json").records) == ["deadly", "train"]
