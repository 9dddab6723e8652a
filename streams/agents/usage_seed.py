"""Book of a partition from the lifecycle stage's snapshot, so that a start reads live jobs in place of the whole history.

The snapshot is fuzzy: different commits wrote its records. From `offset` on, `job-events` has all events that the records lack, and
some that they include; the sequence number of the job identifies these.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from engine.lifecycle import persist
from engine.lifecycle.stage import LifecycleStage
from engine.log.port import Log, Partition, ShardId
from engine.processor.snapshots import load
from streams.agents.usage_book import Owner, UsageBook

_log = logging.getLogger("lahar.agents")


@dataclass(frozen=True, slots=True)
class UsageSeed:
    """A book, and the offset from which it may lack events."""

    book: UsageBook
    offset: int
    """Offset of the first event that the book may lack."""


def read_seed(log: Log, number: int, owner_of: Callable[[str, str], Owner] = Owner) -> UsageSeed | None:
    """Read the book of a partition from the snapshot of the shard that writes it.

    Args:
        log: log with the snapshot.
        number: number of the partition of `job-events`, and of the shard.
        owner_of: see `UsageBook`.

    Returns:
        The seed; `None` if there is no snapshot, or none that this release can use.

    Raises:
        LogError: the log cannot be read.
    """
    view = log.look(ShardId(LifecycleStage.name, number))
    if view is None:
        return None
    partition = Partition("job-events", number)
    book = UsageBook(owner_of)
    try:
        loaded = load(view.snapshot(), LifecycleStage.state_version)
        fault, offset = loaded.fault, loaded.offsets.get(partition, 0)
        if loaded.low is None and not fault:
            return None
        if not fault:
            book.begin(persist.jobs(loaded.records))
    except (LookupError, ValueError) as error:
        fault, offset = f"it cannot be read: {error!r:.200}", 0
    if not fault and offset > (end := log.end(partition)):
        fault = f"{partition.topic} ends at {end}, where the snapshot says that it goes on at {offset}"
    if fault:
        _log.warning("the snapshot of partition %d is not used, %s: all of its past is read", number, fault)
        return None
    return UsageSeed(book, offset)
