"""Bills on Kafka: workers of all stages, commands beside them, and producers that disagree about a month that is closed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer
from lahar_command import Command
from worker_process import Lahar

from engine.events import Event, Message, encode
from engine.events.billing import UsageRecorded
from engine.events.ids import digest, submitted_job_id
from engine.events.inputs import PodObserved
from engine.events.times import parse_time
from engine.log.port import Partition
from engine.runtime.opening import open_log
from statemachines.spec import Requests
from streams.codec import encode as fields_of
from streams.log import KafkaLog
from streams.settings import KafkaSettings

Make = Callable[[int], KafkaLog]
ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "examples" / "agents"
FORMATS: Final = ("jsonl", "csv", "focus-1.2", "focus-1.4")
BOOK: Final = """\
apiVersion: lahar.dev/v1
kind: PriceBook
metadata: {name: prices}
spec:
  currency: EUR
  versions:
    - {version: first, from: "2023-01-01", prices: {gpu_seconds: {"*": "0.0005"}}}
"""
TRACE: Final = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
good,2000,0,2,1000,,LS,Succeeded,1685000000,1685007210,1685000010
bad,500,0,1,1000,,BE,Failed,1685000000,1685000100,1685000000
never,500,0,1,1000,,BE,Pending,1685000000,1685000100,
"""


# --- commands beside workers ---------------------------------------------------------------------------------------------------

QUESTIONS: Final = [
    "billing records --json",
    "billing records",
    "billing invoice",
    "billing invoice --json --period 2023-05",
    "billing quote --until 2023-06-01T00:00:00Z",
    *(f"billing export --format {form}" for form in FORMATS),
    "billing verify",
    "billing report",
    "prices show",
]


def worker(settings: KafkaSettings, stage: str) -> Lahar:
    return Lahar(settings, "worker", "--stage", stage, "--instance", f"{stage}-0")


def running(lahar: Command) -> list[dict[str, Any]]:
    """Return the shards that have a worker here: nothing is scheduled."""
    return [found for found in lahar.records("status") if found["shard"] != "scheduling/0"]


def taken(lahar: Command) -> bool:
    return all(found["lag"] == 0 for found in running(lahar))


def quiet(lahar: Command) -> bool:
    """Tell whether nothing more is written: the clock has also fired the timers at which old jobs are forgotten."""
    return all(found["lag"] == 0 and found["timer_due"] is None for found in running(lahar))


def test_bills_of_workers_are_those_of_one_process_on_a_file(make_log: Make, settings: KafkaSettings, tmp_path: Path) -> None:
    log, kafka, file = make_log(2), Command.of(settings), Command(f"sqlite:{tmp_path / 'lahar.db'}")
    (tmp_path / "small.csv").write_text(TRACE)
    for lahar in (kafka, file):
        lahar("apply", "-", "--at", "2023-01-01T00:00:00Z", given=BOOK)
        lahar("import-trace", "--format", "openb", tmp_path / "small.csv")
    with (
        worker(settings, "lifecycle") as lifecycle,
        worker(settings, "billing") as billing,
        worker(settings, "budgets") as budgets,
    ):
        lifecycle.until(lambda: lifecycle.is_ready and billing.is_ready and budgets.is_ready and taken(kafka))
        billing.until(lambda: len(kafka.records("billing", "records")) == 2 * 3 + 2)
        lifecycle.until(lambda: quiet(kafka))
        before = [must_be_alike(kafka, file, question) for question in QUESTIONS]
        record = file.records("billing", "records")[-1]["id"]
        must_be_alike(kafka, file, f"billing explain {record}")

        # A transaction of billing that is not committed is on no bill.
        with open_transaction(settings, forge(log)):
            assert [kafka(*question.split()).out for question in QUESTIONS] == before

        for lahar in (kafka, file):
            assert "nothing is recorded of 2023-04" in lahar("billing", "close", "2023-04", code=2).err
            lahar("billing", "close", "2023-05", "--at", "2023-06-02T00:00:00Z")
        billing.until(lambda: taken(kafka))
        assert "was closed" in kafka("billing", "close", "2023-05", code=2).err
        after = [must_be_alike(kafka, file, question) for question in QUESTIONS]
        assert after[4:8] == before[4:8]
        for process in (lifecycle, billing, budgets):
            process.send(signal.SIGTERM)
            assert process.wait() == 0
            assert "WARNING" not in process.said


def must_be_alike(kafka: Command, file: Command, question: str) -> str:
    answers = [lahar(*question.split()).out for lahar in (kafka, file)]
    assert answers[0] == answers[1]
    assert len(answers[0]) > 10
    return answers[0]


def forge(log: KafkaLog) -> tuple[Partition, Message]:
    """Return what stands first in the topic `billing` once more, as another event."""
    (first, *_) = (record for record in log.scan(("billing",)) if record.message.type == UsageRecorded.TYPE)
    return first.partition, first.message._replace(id=digest(b"forged"))


@contextmanager
def open_transaction(settings: KafkaSettings, forged: tuple[Partition, Message]) -> Iterator[None]:
    """Write a message to the topic `billing` in a transaction that is open during the block, and is aborted then."""
    partition, message = forged
    key, value, headers = fields_of(message)

    async def begin() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(**settings.client_arguments(), transactional_id="forger", acks="all")
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait(f"{settings.topic_prefix}billing", value, key, partition.number, headers=headers)
        return producer

    with asyncio.Runner() as runner:
        producer = runner.run(begin())
        yield
        runner.run(producer.abort_transaction())
        runner.run(producer.stop())


# --- two producers, one clock an hour off, a month end between them ------------------------------------------------------------

HOUR: Final = 3_600
PRICE: Final = Decimal("0.0005")
BEGIN: Final = parse_time("2026-10-31T22:00:00Z")
LATE: Final = parse_time("2026-11-03T12:00:00Z")


@pytest.fixture(params=["kafka", "file"])
def lahar(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Command, Any]]:
    """The command, and the log that it acts on."""
    if request.param == "file":
        url = f"sqlite:{tmp_path / 'lahar.db'}"
        with closing(open_log(url, 2)) as log:
            yield Command(url), log
    else:
        settings: KafkaSettings = request.getfixturevalue("settings")
        log = request.getfixturevalue("make_log")(2)
        yield Command.of(settings), log


def test_producers_that_disagree_over_a_month_end_change_no_closed_file(lahar: tuple[Command, Any]) -> None:
    command, log = lahar
    command("apply", "-", "--at", "2026-01-01T00:00:00Z", "--no-process", given=BOOK)
    running = [pod(name) for name in ("long", "short", "right")]
    tell(log, running, BEGIN + 60_000_000)
    # A watcher's clock is an hour ahead of what the node has said of `right`; of `long` and `short` nobody else has spoken yet.
    tell(log, [ended(running[2], 1.5)], BEGIN + 2 * HOUR * 1_000_000)
    tell(log, [ended(one, 2.5, "watcher") for one in running], BEGIN + 3 * HOUR * 1_000_000)
    command("run", "--once")
    assert seconds(command) == 2 * HOUR * (Decimal("2.5") + Decimal("2.5") + Decimal("1.5"))
    command("billing", "close", "2026-10", "--at", "2026-11-02T00:00:00Z")
    command("run", "--once")
    files = october(command)
    closed = command("billing", "invoice", "--json", "--period", "2026-10").records

    # A scheduler a little, and a node for good: `short` had ended long before the month did, `long` long after.
    tell(log, [ended(running[1], 0.75, "scheduler"), ended(running[0], 2.25, "scheduler")], LATE)
    tell(log, [ended(running[1], 0.5), ended(running[0], 3.25)], LATE + 60_000_000)
    # Whoever comes last and has less to say changes nothing.
    tell(log, [ended(one, 0.25, "watcher") for one in running], LATE + 120_000_000)
    command("run", "--once")
    assert october(command) == files
    assert command("billing", "invoice", "--json", "--period", "2026-10").records == closed
    assert "verify: ok" in command("billing", "verify").out

    records = exported(command)
    by_job = {
        name: sum(Decimal(one["quantity"]) for one in records if one["job"] == job(name)) for name in ("long", "short", "right")
    }
    assert by_job == {"long": 2 * HOUR * Decimal("3.25"), "short": 2 * HOUR * Decimal("0.5"), "right": 2 * HOUR * Decimal("1.5")}
    assert sum(Decimal(one["amount"]) for one in records) == PRICE * sum(by_job.values())
    reversals = [one for one in records if one["record"] == "reversal"]
    originals = {one["id"]: one for one in records if one["record"] != "reversal"}
    assert reversals
    for one in reversals:
        original = originals[one["reverses"]]
        assert Decimal(one["quantity"]) + Decimal(original["quantity"]) == 0
        assert Decimal(one["amount"]) + Decimal(original["amount"]) == 0
        assert (one["start"], one["end"], one["job"]) == (original["start"], original["end"], original["job"])
    invoices = command.records("billing", "invoice")
    assert sum(Decimal(one["amount"]) for one in invoices) == PRICE * sum(by_job.values())


def test_a_database_has_each_record_once_though_its_loader_dies(make_log: Make, settings: KafkaSettings, tmp_path: Path) -> None:
    """Killed between the commits of the database and of the offset: in a run, in a withdrawal, in a reversal."""
    command, log = Command.of(settings), make_log(2)
    command("apply", "-", "--at", "2026-01-01T00:00:00Z", "--no-process", given=BOOK)
    told = {"BILLS_DATABASE": str(tmp_path / "bills.db"), "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT), str(EXAMPLES)])}
    running = [pod(name) for name in ("long", "short", "right")]
    tell(log, [*running, *(ended(one, 2.5, "watcher") for one in running)], BEGIN + 3 * HOUR * 1_000_000)
    command("run", "--once")
    must_die_after("usage", settings, told)
    tell(log, [ended(running[2], 1.5, "scheduler")], BEGIN + 4 * HOUR * 1_000_000)
    command("run", "--once")
    must_die_after("withdrawal", settings, told)
    command("billing", "close", "2026-10", "--at", "2026-11-02T00:00:00Z")
    tell(log, [ended(running[1], 0.5), ended(running[0], 3.25)], LATE)
    command("run", "--once")
    must_die_after("reversal", settings, told)

    lines = {line["id"]: line for line in map(json.loads, command("billing", "export", "--format", "jsonl").out.splitlines())}
    adjustments = {ident for ident, line in lines.items() if line["record"] == "adjustment"}
    with (
        Lahar(settings, "agents", "run", "bills", "--instance", "a", **told) as loader,
        closing(sqlite3.connect(told["BILLS_DATABASE"])) as database,
    ):
        stands = "SELECT line FROM records WHERE NOT void ORDER BY id"
        loader.until(
            lambda: {ident for (ident,) in database.execute("SELECT id FROM records WHERE NOT void")} >= lines.keys() - adjustments
        )
        loader.until(lambda: loader.figure("lahar_agent_lag_records") == 0)
        loader.send(signal.SIGTERM)
        assert loader.wait() == 0
        assert "ERROR" not in loader.said
        loaded = [json.loads(line) for (line,) in database.execute(stands)]
        assert loaded == [lines[ident] for ident in sorted(lines.keys() - adjustments)]
        assert {line["record"] for line in loaded} == {"usage", "reversal"}
        (void,) = database.execute("SELECT count(*) FROM records WHERE void").fetchone()
        assert void > 0
        sums: Counter[tuple[str, str]] = Counter()
        for period, tenant, amount in database.execute("SELECT period, tenant, amount FROM records WHERE NOT void"):
            sums[period, tenant] += Decimal(amount)  # type: ignore[assignment]  # a Counter adds whatever adds up
    invoices = command.records("billing", "invoice")
    assert dict(sums) == {(one["period"], one["tenant"]): Decimal(one["amount"]) for one in invoices}
    assert len(invoices) == 2


def must_die_after(kind: str, settings: KafkaSettings, told: dict[str, str]) -> None:
    """Let the loader run until it has killed itself."""
    with Lahar(settings, "agents", "run", "deadly_bills:app", "--instance", "a", DIE_AFTER=kind, **told) as loader:
        assert loader.wait() == -signal.SIGKILL, loader.said


def job(name: str) -> str:
    return submitted_job_id("c1", "default", name, "submitted")


def pod(name: str) -> PodObserved:
    """A pod with two GPUs that runs since 22:00 on the last day of October."""
    return PodObserved(
        f"uid-{name}",
        job(name),
        f"{name}-0",
        "Running",
        BEGIN,
        version="1",
        kind="Job",
        owner=name,
        task="main",
        index=0,
        requests=Requests(gpu=2),
        node="n1",
        bound=BEGIN,
        running=BEGIN,
    )


def ended(running: PodObserved, hours: float, rank: Any = "node") -> PodObserved:
    """The pod has ended so many hours after it began to run, says somebody."""
    return replace(running, phase="Succeeded", ended=BEGIN + round(hours * HOUR * 1_000_000), rank=rank, version=None, exit_code=0)


def tell(log: Any, pods: list[PodObserved], recorded: int) -> None:
    """Append observations as they are recorded, by a clock of whoever makes them."""
    events = [
        Event(digest(repr(one).encode()), one.rank, one.TYPE, one.job, recorded, recorded, 0, one.job, "", "c1", one)
        for one in pods
    ]
    log.append("pods", [encode(event) for event in events])


def exported(command: Command, *options: str) -> list[dict[str, Any]]:
    """Return the records of GPUs that stand."""
    lines = map(json.loads, command("billing", "export", "--format", "jsonl", "--all", *options).out.splitlines())
    return [line for line in lines if line["meter"] == "gpu_seconds"]


def seconds(command: Command) -> Decimal:
    return sum((Decimal(one["quantity"]) for one in exported(command)), Decimal(0))


def october(command: Command) -> list[str]:
    return [command("billing", "export", "--format", form, "--period", "2026-10").out for form in FORMATS]
