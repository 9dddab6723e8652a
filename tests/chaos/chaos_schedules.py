"""What is done to workers and brokers: (a), (b), (d)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

from aiokafka.errors import KafkaError
from broker import Broker, Cluster
from chaos_workers import Worker
from chaos_world import SESSION_SECONDS, SHARDS, TRANSACTION_SECONDS, World
from topics_of_tests import administered

from engine.log.port import Partition
from streams.log import KafkaLog
from streams.settings import KafkaSettings
from streams.topics import declared

_INTERNAL = ["__consumer_offsets", "__transaction_state"]


class OnBrokers(Protocol):
    """A log on a cluster, and somebody who waits."""

    cluster: Cluster
    log: KafkaLog
    settings: KafkaSettings

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Return as soon as something holds."""


def kill_workers(here: World, kills: int) -> None:
    """Kill a worker that has a shard, whichever, so many times while all inputs are taken; each is started anew at once."""
    for kill in range(1, kills + 1):
        here.until_taken((kill - here.dice.random()) / (kills + 1))
        victim = here.dice.choice(here.fleet.workers)
        here.until(lambda found=victim: found.works, f"{victim.name} has a shard")  # type: ignore[misc]
        victim.kill()
        victim.start()


def freeze_workers(here: World, times: int, *, heirs: bool) -> int:
    """Freeze a worker in mid-transaction, so many times, and thaw it when another one has its shards.

    Args:
        here: with two workers.
        times: how often.
        heirs: another worker is started in place of the frozen one; otherwise their group gives its shards to the other one. If
            the thawed one finds no broker at first, it opens its shards again before it hears of its heir, which then ends.

    Returns:
        How many records of open transactions were left by them.
    """
    half = 0
    for freeze in range(1, times + 1):
        # Enough for both of them to have something to do, not so much that all is done meanwhile.
        here.feeder.allow((freeze + 1) / (times + 2))
        here.until_taken(freeze / (times + 2))
        victim = here.fleet.workers[freeze % 2]
        half += freeze_in_mid_transaction(here, victim)
        frozen = time.monotonic()
        if heirs:
            # Somebody takes the frozen one for dead and starts another in its place.
            here.fleet.workers.remove(victim)
            heir = here.fleet.add(f"{victim.name}-heir{freeze}", *victim.options)
        else:
            heir = next(worker for worker in here.fleet.workers if worker is not victim)
        _until_taken_over(here, heir, frozen + max(SESSION_SECONDS, TRANSACTION_SECONDS) + 2)
        _thaw(here, victim, ends=heirs)
    here.feeder.allow(1)
    return half


def _until_taken_over(here: World, heir: Worker, over: float) -> None:
    here.until(lambda: time.monotonic() > over and heir.works, "its session and its transaction are over")
    # And it has gone on from there.
    here.feeder.allow_more(0.05)
    here.until(lambda: here.feeder.is_at_limit and not here.waiting(), "the heir has taken all so far")


def _thaw(here: World, victim: Worker, *, ends: bool) -> None:
    before = len(victim.said())
    victim.thaw()
    if ends:
        here.until(lambda: victim.code is not None, f"{victim.name} is fenced and ends")
        assert victim.code == 4
    here.until(lambda: "taken over" in victim.said()[before:], f"{victim.name} is told that it was fenced")


def freeze_in_mid_transaction(here: World, victim: Worker) -> int:
    """Freeze a worker while a transaction of its shards stands open; return how many records of it there are."""
    places = [Partition(here.output, shard) for shard in range(SHARDS)]
    here.until(lambda: victim.works, f"{victim.name} has a shard")
    while True:
        # Something waits for it, so that it is at work when it is frozen again.
        victim.freeze()
        assert not here.feeder.done, "all inputs are appended, and no freeze has met an open transaction"
        here.feeder.allow_more(0.02)
        here.until(lambda: here.feeder.rests, "something waits")
        victim.thaw()
        time.sleep(here.dice.uniform(0.01, 0.15))
        victim.freeze()
        before = here.log.stable_ends(places)
        # Transactions of others end meanwhile.
        time.sleep(0.3)
        after = here.log.stable_ends(places)
        if half := sum(end - stable for place, (stable, end) in after.items() if before[place] == (stable, end)):
            return half
        victim.thaw()


def lose_brokers(here: World, share: int, *, roll: bool) -> None:
    """Kill the leader of a partition, the controller and another leader, then restart all in turn.

    Args:
        here: with workers.
        share: how many inputs are taken while a broker is away.
        roll: restart them, too.
    """
    here.until_more(share)
    kills = [
        lambda: leader(here, Partition(here.output, 0)),
        here.cluster.controller,
        lambda: leader(here, Partition(here.input, 3)),
    ]
    for find in kills:
        broker = find()
        broker.kill()
        here.until_more(share)
        broker.start()
        until_in_sync(here)
    for broker in here.cluster.brokers if roll else ():
        broker.stop()
        here.until_more(share // 4)
        broker.start()
        until_in_sync(here)


def leader(here: OnBrokers, partition: Partition) -> Broker:
    """Return the broker that leads a partition."""
    here.log.background.run(_heard(here.log.wire.client))
    return here.cluster.broker(here.log.wire.leader(here.log.name(partition)))


async def _heard(client: Any) -> None:
    await client.force_metadata_update()


def until_in_sync(here: OnBrokers) -> None:
    """Return when every partition has three copies that are in step: another broker may be lost then."""
    names = [topic.name for topic in declared(here.settings, 1)] + _INTERNAL

    async def described(admin: Any) -> list[Any]:
        return list(await admin.describe_topics(names))

    def in_sync() -> bool:
        try:
            found = asyncio.run(administered(here.settings, described))
        except (KafkaError, OSError, TimeoutError):
            return False
        return all(len(part["isr"]) == 3 for topic in found for part in topic["partitions"])

    here.until(in_sync, "all copies are in step")
