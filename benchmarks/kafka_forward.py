"""Bare transactional pass-throughs: the least that a client library can do between two topics exactly once.

    python benchmarks/kafka_forward.py --client aiokafka --bootstrap HOST:PORT --source A --target B --name forward

One consumer reads what is committed, one transactional producer a partition writes records and offsets; the transactions of
partitions overlap. What is written has the number and the bytes that the lifecycle stage writes for the same input, made of the
records that were read: key and headers as they are, of the value as much as is needed. It says `ready` and runs until killed.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import OffsetAndMetadata, TopicPartition

_TUNED: Final[dict[str, Any]] = {"compression_type": "zstd", "max_batch_size": 512 << 10, "max_request_size": 4 << 20}
"""As Lahar's own producers are set; aiokafka's defaults are no compression and batches of 16 KB."""


class Shape(NamedTuple):
    """How much is written for what is read."""

    per_input: float
    """Records."""
    size: int
    """Bytes of each: key, headers and value."""

    def due(self, before: int, taken: int) -> int:
        """Return how many records follow from inputs `before` … `taken`."""
        return int(taken * self.per_input) - int(before * self.per_input)

    def value_bytes(self, key: bytes, headers: Sequence[tuple[str, bytes]]) -> int:
        """Return how long the value must be."""
        return max(self.size - len(key) - sum(len(name) + len(value) for name, value in headers), 1)


def _values(records: Sequence[Any], count: int, size: int, value_of: Callable[[Any], bytes]) -> list[tuple[Any, bytes]]:
    """Return `count` of the records, each with its new value."""
    found = [(record, value_of(record)[:size].ljust(size)) for record in records[:count]]
    return found + found[: count - len(found)]


# --- aiokafka ---------------------------------------------------------------------------------------------------------------


async def _forward_with_aiokafka(options: argparse.Namespace, shape: Shape) -> None:
    places = [TopicPartition(options.source, number) for number in range(options.partitions)]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    consumer.assign(places)
    producers = {}
    for place in places:
        producers[place] = AIOKafkaProducer(
            bootstrap_servers=options.bootstrap,
            transactional_id=f"{options.name}-{place.partition}",
            acks="all",
            retry_backoff_ms=20,
            **(_TUNED if options.tuned else {}),
        )
        await producers[place].start()
    print("ready", flush=True)
    await asyncio.gather(*(_forward_partition(options, shape, consumer, producers[place], place) for place in places))


async def _forward_partition(
    options: argparse.Namespace,
    shape: Shape,
    consumer: AIOKafkaConsumer,
    producer: AIOKafkaProducer,
    place: TopicPartition,
) -> None:
    taken, size = 0, 0
    while True:
        records = await _read(consumer, place, options.batch)
        if not records:
            continue
        size = size or shape.value_bytes(records[0].key, records[0].headers)
        count = shape.due(taken, taken + len(records))
        taken += len(records)
        batches = [producer.create_batch()]
        for record, value in _values(records, count, size, lambda record: record.value):
            fields = {"timestamp": None, "key": record.key, "value": value, "headers": list(record.headers)}
            if batches[-1].append(**fields) is None:
                batches.append(producer.create_batch())
                batches[-1].append(**fields)
        await producer.begin_transaction()
        sent = [
            await producer.send_batch(batch, options.target, partition=place.partition) for batch in batches if batch.record_count()
        ]
        offsets = {place: OffsetAndMetadata(records[-1].offset + 1, "")}
        await asyncio.gather(*sent, producer.send_offsets_to_transaction(offsets, f"{options.name}-{place.partition}"))
        await producer.commit_transaction()


async def _read(consumer: AIOKafkaConsumer, place: TopicPartition, limit: int) -> list[Any]:
    """Return records of a partition: so many if there are."""
    records: list[Any] = []
    while len(records) < limit:
        found = await consumer.getmany(place, timeout_ms=50, max_records=limit - len(records))
        if not found:
            break
        records += found[place]
    return records


# --- confluent-kafka --------------------------------------------------------------------------------------------------------


def _forward_with_confluent(options: argparse.Namespace, shape: Shape) -> None:
    threads = [
        threading.Thread(target=_forward_partition_with_confluent, args=(options, shape, number), daemon=True)
        for number in range(options.partitions)
    ]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()


def _forward_partition_with_confluent(options: argparse.Namespace, shape: Shape, number: int) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition  # noqa: PLC0415  for developers only

    name = f"{options.name}-{number}"
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": name,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(options.source, number, OFFSET_BEGINNING)])
    producer = Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "transactional.id": name,
        }
    )
    producer.init_transactions()
    taken, size = 0, 0
    while True:
        records = consumer.consume(options.batch, 0.05)
        if not records:
            continue
        size = size or shape.value_bytes(records[0].key(), records[0].headers())
        count = shape.due(taken, taken + len(records))
        taken += len(records)
        producer.begin_transaction()
        for record, value in _values(records, count, size, lambda record: record.value()):
            producer.produce(options.target, value, record.key(), number, headers=record.headers())
        place = TopicPartition(options.source, number, records[-1].offset() + 1)
        producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata())
        producer.commit_transaction()


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the options and forward until killed."""
    parser = argparse.ArgumentParser(description="Forward one topic to another in transactions, with nothing between.")
    parser.add_argument("--client", choices=("aiokafka", "confluent"), default="aiokafka")
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT,… of the brokers")
    parser.add_argument("--source", required=True, help="topic to read")
    parser.add_argument("--target", required=True, help="topic to write")
    parser.add_argument("--name", required=True, help="begins consumer groups and transactional ids: NAME-PARTITION")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--tuned", action="store_true", help="aiokafka with large, compressed batches")
    parser.add_argument("--batch", type=int, default=1_000, help="inputs a transaction, at most; the stage takes as many")
    parser.add_argument("--per-input", type=float, default=1.0, help="records written for each that is read")
    parser.add_argument("--size", type=int, default=670, help="bytes of each: key, headers, value")
    options = parser.parse_args(arguments)
    shape = Shape(options.per_input, options.size)
    if options.client == "aiokafka":
        asyncio.run(_forward_with_aiokafka(options, shape))
    else:
        _forward_with_confluent(options, shape)


if __name__ == "__main__":
    main()
