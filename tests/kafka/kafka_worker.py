"""A process to be killed: opens a Kafka log, processes what waits in a shard, says so after each step.

Usage: python kafka_worker.py BOOTSTRAP PREFIX SHARD BATCH
"""

from __future__ import annotations

import sys
from typing import Any

from kill_worker import work

from engine.lifecycle.stage import LifecycleStage
from engine.processor.processor import Processor
from streams.log import KafkaLog
from streams.settings import KafkaSettings


def main() -> None:
    bootstrap, prefix, shard, batch = sys.argv[1:]
    log = KafkaLog(KafkaSettings(bootstrap_servers=bootstrap, topic_prefix=prefix, transaction_seconds=10))
    processor: Processor[Any] = Processor(log, LifecycleStage(), int(shard), batch=int(batch), snapshot_every=2_000)
    work(processor)
    log.close()


if __name__ == "__main__":
    main()
