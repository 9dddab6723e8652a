"""Ports for servers that tests start, which are told where to listen some seconds before they do."""

from __future__ import annotations

import os
import socket
from itertools import cycle
from typing import Final

_FIRST: Final = 20_000
_EACH: Final = 2_000
_PROCESSES: Final = 6
"""Of pytest, that run at the same time; each has ports of its own. All lie below those that Linux gives out by itself (32768…)."""


def _own() -> list[int]:
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
    ports = range(_FIRST + process * _EACH, _FIRST + (process + 1) * _EACH)
    # Two runs beside each other begin at different places.
    start = os.getpid() * 37 % _EACH
    return [*ports[start:], *ports[:start]]


_next: Final = cycle(_own())


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses. None is given twice until all others were."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", next(_next)))
            except OSError:
                continue
            found.append(tried.getsockname()[1])
    return found
