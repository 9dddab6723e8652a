"""The log works on the oldest Kafka that is promised too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from broker import Cluster, obstacle

HERE = Path(__file__).parent
SUITES = (
    "test_kafka_log.py",
    "test_kafka_shards.py",
    "test_kafka_processing.py",
    "test_topics.py",
    "test_kafka_commands.py",
    "test_kafka_following.py",
    "test_membership.py",
    "test_workers.py",
    "test_agents_on_kafka.py",
)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.9.1"])
def test_an_older_kafka_passes_the_same_tests(version: str) -> None:
    if reason := obstacle(version):
        pytest.skip(reason)
    with Cluster(version=version) as cluster:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(HERE / name) for name in SUITES)],
            cwd=HERE.parents[1],
            env=os.environ | {"KAFKA_BOOTSTRAP_SERVERS": cluster.bootstrap, "PYTHONPATH": str(HERE.parents[1])},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-5_000:]
