"""An export is the backup of a log on Kafka: what is restored from it goes on where it stood."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lahar_command import Command
from topics_of_tests import delete_records, make_anew
from workload import lives

from engine.log.port import Partition
from streams.log import KafkaLog
from streams.settings import KafkaSettings

TOPICS = ("--partitions", "1", "--replication", "1")
BEGIN = 1_700_000_000_000_000


def append(settings: KafkaSettings, start: int, end: int | None) -> None:
    log = KafkaLog(settings)
    log.append("pods", list(lives(range(12), 2, BEGIN))[start:end])
    log.close()


def test_a_log_is_restored_from_an_export_though_its_first_inputs_are_gone(
    settings: KafkaSettings, elsewhere: KafkaSettings, open_log: Callable[[], KafkaLog], tmp_path: Path
) -> None:
    """Inputs are kept for 14 days, outputs for good, so that is how every log stands that is older."""
    lahar, restored = Command.of(settings), Command.of(elsewhere)
    lahar("topics", "apply", *TOPICS)
    append(settings, 0, 120)
    lahar("run", "--once")
    delete_records(settings, open_log().name(Partition("pods", 0)), 70)
    (tmp_path / "all.jsonl").write_text(lahar("export").out, encoding="utf-8")

    restored("topics", "apply", *TOPICS)
    restored("import", tmp_path / "all.jsonl")
    restored("run", "--once")
    # How many inputs are still there differs: those that were gone are in no export.
    verdicts = [[{**verdict, "inputs": None} for verdict in one.records("verify")] for one in (restored, lahar)]
    assert verdicts[0] == verdicts[1]
    for log in (settings, elsewhere):
        # The last ones before the backup come once more, as sources send them.
        append(log, 110, None)
    for command in (lahar, restored):
        command("run", "--once")
    jobs = lahar.records("job", "list", "--all")
    assert restored.records("job", "list", "--all") == jobs
    assert {job["phase"] for job in jobs} == {"Completed"}
    assert len(jobs) == 12


def test_snapshots_that_are_lost_are_made_anew(settings: KafkaSettings) -> None:
    lahar = Command.of(settings)
    lahar("topics", "apply", *TOPICS)
    append(settings, 0, 120)
    lahar("run", "--once")
    before = lahar.records("verify")
    make_anew(settings, "snapshots")
    lahar("run", "--once")
    assert lahar.records("verify") == before
