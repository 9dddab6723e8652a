"""The memory log passes the suite of all logs."""

from __future__ import annotations

from log_contract import LogContract, SearchableContract

from engine.log.memory import MemoryLog


class TestMemoryLog(LogContract, SearchableContract):
    def make(self, partitions: int) -> MemoryLog:
        return MemoryLog(partitions)

    def make_limited(self) -> MemoryLog:
        return MemoryLog(1, largest=1_000_000)
