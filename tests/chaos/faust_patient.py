"""benchmarks/faust_forward.py with a session of 6 s, as the workers of the other schedules have: Faust's own is a minute."""

from __future__ import annotations

import functools
import runpy
import sys
from pathlib import Path

import faust

if __name__ == "__main__":
    faust.App = functools.partial(faust.App, broker_session_timeout=6.0, broker_heartbeat_interval=2.0)
    forward = Path(__file__).parents[2] / "benchmarks" / "faust_forward.py"
    sys.argv[0] = str(forward)
    runpy.run_path(str(forward), run_name="__main__")
