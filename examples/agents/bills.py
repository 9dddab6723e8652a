"""Loads billing records into a database, each once: `lahar --log kafka://localhost:9092 agents run bills`."""

import asyncio
import json
import os
import sqlite3
from contextlib import closing

from engine.billing.records import json_of, records_of
from engine.events import Event
from engine.events.billing import UsageRecorded, UsageWithdrawn
from engine.events.times import format_time
from streams.agents import agent, billing

DATABASE = os.environ.get("BILLS_DATABASE", "bills.db")
TABLE = """
CREATE TABLE IF NOT EXISTS records (
    id TEXT PRIMARY KEY,
    period TEXT NOT NULL, -- on whose invoice it stands
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL, -- of the job: services are Other
    job TEXT NOT NULL,
    task TEXT NOT NULL,
    replica INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    record TEXT NOT NULL,
    begun TEXT NOT NULL,
    ended TEXT NOT NULL,
    revision INTEGER NOT NULL,
    amount TEXT NOT NULL, -- SQLite has no decimal numbers
    line TEXT NOT NULL, -- as `lahar billing export --format jsonl` has it
    void INTEGER NOT NULL DEFAULT 0 -- a higher revision has replaced it
);
CREATE INDEX IF NOT EXISTS records_of_attempts ON records (job, task, replica, attempt);
"""
INSERT = """
INSERT INTO records VALUES (
    :id, :period, :tenant, :kind, :job, :task, :replica, :attempt, :record, :start, :end, :revision, :amount, :line, 0
) ON CONFLICT (id) DO NOTHING
"""
VOID = """
UPDATE records SET void = 1
WHERE job = :job AND task = :task AND replica = :replica AND attempt = :attempt
AND record = :record AND period = :period AND begun < :end AND ended > :start AND revision < :revision
"""


def write(event: Event) -> None:
    """Write what follows from an event in one transaction. Whatever is given again changes nothing: records keep their ids."""
    with closing(sqlite3.connect(DATABASE)) as database, database:
        match event.data:
            case UsageRecorded() as run:
                database.executemany(
                    INSERT,
                    (
                        (line := json_of(record)) | {"period": run.period, "kind": run.job_kind, "line": json.dumps(line)}
                        for record in records_of(event)
                    ),
                )
            case UsageWithdrawn() as void:
                database.execute(
                    VOID,
                    {
                        "job": event.subject,
                        "task": void.task,
                        "replica": void.index,
                        "attempt": void.attempt,
                        "record": void.record,
                        "period": void.period,
                        "start": format_time(void.start),
                        "end": format_time(void.end),
                        "revision": void.revision,
                    },
                )


with closing(sqlite3.connect(DATABASE)) as made:
    made.executescript(TABLE)


@agent(billing, types=[UsageRecorded, UsageWithdrawn])
async def load(event: Event) -> None:
    """Load the records of a run, or mark those that are void."""
    await asyncio.to_thread(write, event)
