"""`lahar worker` with a wall clock that is set forward and back while it runs, or that is faster than time.

Usage: python stepped_worker.py worker …; LAHAR_CHAOS_CLOCK names a file that holds by how many microseconds the clock is wrong and,
behind a space, how many seconds it goes in one (1 unless given).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from engine.cli.main import main
from engine.runtime import callbacks, shard_loop

_FILE = Path(os.environ["LAHAR_CHAOS_CLOCK"])


def stepped() -> int:
    """Return the time of a clock that somebody sets (microseconds)."""
    step, _, rate = _FILE.read_text(encoding="utf-8").partition(" ")
    return time.time_ns() // 1000 * int(rate or 1) + int(step or 0)


if __name__ == "__main__":
    shard_loop.wall_clock = callbacks.now = stepped
    main()
