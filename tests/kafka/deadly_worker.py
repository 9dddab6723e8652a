"""A process that may die of what it decides, on Kafka.

Usage: python deadly_worker.py BOOTSTRAP PREFIX SECONDS; SECONDS is what a decision may take.
"""

from __future__ import annotations

import sys

from deadly_stage import work

from streams.log import KafkaLog
from streams.settings import KafkaSettings

if __name__ == "__main__":
    bootstrap, prefix, seconds = sys.argv[1:]
    work(KafkaLog(KafkaSettings(bootstrap_servers=bootstrap, topic_prefix=prefix, transaction_seconds=10)), float(seconds))
