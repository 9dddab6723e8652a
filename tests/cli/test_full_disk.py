"""A disk that is full when a command starts: the log is unavailable (exit code 4), in one line that says what to do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from test_feed import pod

FULL = """
import resource, sys
from engine.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
main()
"""


def on_a_full_disk(folder, room, *command):
    """Run a command where no file can grow beyond some bytes, as the system's own limit of file sizes has it."""
    return subprocess.run(
        [sys.executable, "-c", FULL, str(room), *command],
        cwd=folder,
        input=json.dumps(pod("late")),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("room", [0, 3, 4096])
@pytest.mark.parametrize("command", [["run"], ["run", "--once"], ["ingest"], ["apply", "queue.yaml"]], ids=" ".join)
@pytest.mark.parametrize("known", [True, False])
def test_no_room_at_the_start(lahar, files, folder, command, room, known):
    if known:
        lahar("ingest", given=json.dumps(pod("early")))
        whole = lahar("export").out
    done = on_a_full_disk(folder, room, *command)
    assert (done.returncode, done.stdout) == (4, ""), done
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("lahar: ")
    assert "space" in done.stderr
    if known:
        assert lahar("export").out == whole
