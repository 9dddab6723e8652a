"""End offsets of the partitions of some shards, fetched in the background, so that a scrape never blocks."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

from engine.log.port import Log, Partition, Transactional
from engine.processor.observer import Watched

_PATIENCE_SECONDS: Final = 1.0
"""Longest wait for an answer (seconds). A working broker answers within milliseconds."""

_Answers = dict[Partition, tuple[int, int | None]]


class Ends:
    """Requests end offsets in a thread, one request at a time, and caches the last answer. All shards are of one log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: _Answers = {}
        self._answered: threading.Event | None = None

    def ask(self, processors: Iterable[Watched]) -> _Answers:
        """Return the ends of the input and output partitions of some processors, current ones if the log answers soon.

        Returns:
            By partition, the readable end and the end of all records (`None` in a log without open transactions). Partitions for
            which
                the log has never answered are left out.
        """
        wanted: dict[Partition, Log] = {}
        for processor in processors:
            wanted |= dict.fromkeys((*processor.reads, *processor.writes), processor.log)
        if not wanted:
            return {}
        with self._lock:
            answered = self._answered
            if answered is None:
                answered = self._answered = threading.Event()
                log = next(iter(wanted.values()))
                threading.Thread(target=self._inquire, args=(log, list(wanted), answered), name="lahar-ends", daemon=True).start()
        answered.wait(_PATIENCE_SECONDS)
        answers = self._answers
        return {partition: answers[partition] for partition in wanted if partition in answers}

    def _inquire(self, log: Log, partitions: list[Partition], answered: threading.Event) -> None:
        try:
            self._answers = _asked(log, partitions)
        except Exception:  # noqa: BLE001, S110  the shards report the same error; the last answer is kept
            pass
        finally:
            with self._lock:
                self._answered = None
            answered.set()


def _asked(log: Log, partitions: list[Partition]) -> _Answers:
    if isinstance(log, Transactional):
        return dict(log.stable_ends(partitions))
    return {partition: (log.end(partition), None) for partition in partitions}
