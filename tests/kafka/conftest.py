"""The broker that the tests share, and topics of its own for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import pytest
from broker import Cluster, java_version, obstacle

_numbers = count(1)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """Where the broker of this session is: one from the jars, or the one that `KAFKA_BOOTSTRAP_SERVERS` names."""
    if elsewhere := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield elsewhere
        return
    if reason := obstacle():
        if os.environ.get("CI") == "true" and java_version() >= 17:
            pytest.fail(f"no broker to test against ({reason}), and on this machine there must be one", pytrace=False)
        pytest.skip(reason)
    with Cluster() as cluster:
        yield cluster.bootstrap


@pytest.fixture
def prefix() -> str:
    """Topics of one test begin with it."""
    return f"t{os.getpid()}-{next(_numbers)}-"
