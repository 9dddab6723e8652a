"""Records that cannot be read, or follow-ups that cannot be written: (f), (g)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from chaos_feed import workload
from chaos_garbage import with_garbage, with_large_jobs
from chaos_table import EVENTS, Row
from chaos_world import SHARDS, World

from engine.events import decode
from engine.events.inputs import JobSubmitted
from engine.events.outcomes import CommandRefused, DeadLettered
from engine.log.port import Partition, Record
from streams.log import KafkaLog

pytestmark = pytest.mark.chaos

Make = Callable[..., World]
Note = Callable[[Row], None]

_LARGE = 300_000
"""Bytes of a job, about which the events do not fit."""


def letters(log: KafkaLog) -> list[DeadLettered]:
    found: list[DeadLettered] = []
    for number in range(SHARDS):
        start = 0
        while records := log.read(Partition("dead-letters", number), start, 1_000):
            found += [decode(record.message).data for record in records]  # type: ignore[misc]  # all of them are letters
            start = records[-1].offset + 1
    return found


def submitted(log: KafkaLog, least: int) -> Iterator[Record]:
    """Yield the submitted jobs of so many bytes or more."""
    return (record for record in log.scan(("jobs",), {JobSubmitted.TYPE}) if len(record.message.data) >= least)


def test_f_one_in_a_hundred_records_is_garbage_on_every_input_topic(world: Make, note: Note) -> None:
    seed = 20_170_806
    given = workload(EVENTS)
    known = sum(not message.type for _, message in given)  # type: ignore[union-attr]  # all are messages
    mixed, bad = with_garbage(given, 100, seed)
    here = world("(f) garbage on every input topic", seed=seed, given=mixed)
    here.by_ordinal()
    share = 1 / 6
    for part in range(1, 5):
        # What was set aside is set aside once, whoever goes on.
        here.until_taken(part * share)
        victim = here.fleet.workers[part % 2]
        victim.kill()
        victim.start()
    expected = known + bad["pods"] + bad["jobs"] + bad["cluster"] * SHARDS
    verdicts = here.finish(note, f"{sum(bad.values())} bad records, 4 kills", f"{expected} dead letters")
    assert sum(verdict.outcomes["dead"] for verdict in verdicts) == len(letters(here.log)) == expected


def test_g_a_record_too_large_for_the_broker_is_set_aside_with_its_origin(world: Make, note: Note) -> None:
    seed = 20_170_807
    given, large = with_large_jobs(workload(EVENTS), 60, _LARGE, seed)
    here = world("(g) outputs too large for the broker", seed=seed, given=given, held=True, too_large_from=_LARGE)
    small = {"max.message.bytes": "100000", "min.insync.replicas": "2", "message.timestamp.type": "LogAppendTime"}
    for topic in ("job-events", "dead-letters"):
        resource = ConfigResource(ConfigResourceType.TOPIC, f"{here.settings.topic_prefix}{topic}", small)
        here.administer(lambda admin, found=resource: admin.alter_configs([found]))
    here.feeder.go_on()
    here.by_ordinal()
    here.until_taken(0.5)
    here.fleet.workers[0].kill()
    here.fleet.workers[0].start()
    verdicts = here.finish(note, f"{large} jobs too large, a kill", "dead letters with a digest")
    assert sum(verdict.inputs for verdict in verdicts) == here.total
    found = {("jobs", letter.partition, letter.offset): letter for letter in letters(here.log) if letter.digest}
    assert {letter.topic for letter in found.values()} == {"jobs"}
    sent = {(record.partition.topic, record.partition.number, record.offset): record for record in submitted(here.log, _LARGE)}
    assert len(sent) == large
    assert found.keys() <= sent.keys()
    # What follows from the others is small: their jobs were there already, seen through their pods.
    refused = {record.message.causationid for record in here.log.scan(("job-events",), {CommandRefused.TYPE})}
    assert {sent[place].message.id for place in sent.keys() - found.keys()} <= refused
    assert len(found) > large / 2
