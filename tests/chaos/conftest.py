"""Three brokers for all schedules; what they found is noted."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "kafka"))

from broker import AS_KAFKA_STARTS_IT, Cluster, Options, obstacle
from chaos_table import EVENTS, ROW, Row, line
from chaos_world import World

# Brokers that come and go are what this is about; aiokafka tells of each try.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a client whose brokers are killed, aiokafka leaves connections to the collector, in the middle of another test."""
    for item in items:
        # The short forms, which run with all other tests, leave none.
        if item.get_closest_marker("chaos") is not None:
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers, whose topics are kept three times."""
    if reason := obstacle():
        pytest.skip(reason)
    # Those of the long forms live for an hour.
    long = any(item.get_closest_marker("chaos") is not None for item in request.session.items)
    with Cluster(3, options=Options(jvm=AS_KAFKA_STARTS_IT) if long else Options()) as found:
        yield found


@pytest.fixture
def world(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., World]]:
    """Makes the log of a schedule, with its topics; all that runs on it ends with the test, and what it found is noted."""
    made: list[World] = []

    def make(schedule: str, seed: int, events: int = EVENTS, **options: Any) -> World:
        made.append(World(cluster, schedule, seed, tmp_path, events, **options))
        return made[-1]

    yield make
    for found in made:
        found.close()


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Callable[[Row], None]:
    """Prints a row at once, and keeps it for the table at the end."""

    def keep(row: Row) -> None:
        print(line(asdict(row)), flush=True)
        record_property(ROW, asdict(row))

    return keep
