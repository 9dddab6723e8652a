"""Where the benchmark happens: a broker, topics of its own for each measure, and the processes that work on them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final, Self

from engine.events import Message
from engine.log.port import Partition
from streams.client.connecting import administrator
from streams.log import KafkaLog
from streams.settings import KafkaSettings
from streams.topics import apply, declared

PARTITIONS: Final = 4
_ROOT: Final = Path(__file__).parents[1]
_APPEND: Final = 2_000
_STOP_SECONDS: Final = 20.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_numbers = count(1)


@contextlib.contextmanager
def broker() -> Iterator[str]:
    """Give the broker that `KAFKA_BOOTSTRAP_SERVERS` names; without it, start one from the jars that `make kafka` has fetched.

    Its JVM has the flags that Kafka's own script gives; with those of the tests it would be slow.

    Raises:
        RuntimeError: no broker can be started here; the text says why.
    """
    if elsewhere := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield elsewhere
        return
    sys.path.append(str(_ROOT / "tests" / "kafka"))
    from broker import AS_KAFKA_STARTS_IT, Cluster, Options, obstacle  # noqa: PLC0415  the tests' own; not needed for a broker elsewhere

    if reason := obstacle():
        raise RuntimeError(f"{reason}; or set KAFKA_BOOTSTRAP_SERVERS")
    with Cluster(options=Options(jvm=AS_KAFKA_STARTS_IT)) as cluster:
        yield cluster.bootstrap


class Worker:
    """A process that works on a place's topics."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it.

        Args:
            arguments: of the Python interpreter.
            environment: beside what this process has.
        """
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the process
        self._process = subprocess.Popen(  # noqa: S603  the benchmark's own programs
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, "PYTHONPATH": str(_ROOT), **environment},
        )

    def must_live(self) -> None:
        """Check that it runs.

        Raises:
            RuntimeError: it has ended.
        """
        if self._process.poll() is not None:
            raise self._ended()

    def cpu(self) -> float:
        """Return the processor time that it has taken (seconds): what `getrusage` would tell it of itself, user and system."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def wait_for_line(self, begins: str) -> None:
        """Return when it has printed a line that begins so.

        Raises:
            RuntimeError: it has ended before.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(begins.encode()):
                return
        self._process.wait()
        raise self._ended()

    def result(self) -> str:
        """Return the last line that it prints, when it has ended.

        Raises:
            RuntimeError: it has ended with an error.
        """
        out, _ = self._process.communicate()
        if self._process.returncode:
            raise self._ended()
        return out.decode().splitlines()[-1]

    def _ended(self) -> RuntimeError:
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")[-2_000:]
        return RuntimeError(f"{self._process.args!r} has ended with code {self._process.returncode}:\n{said}")

    def stop(self) -> None:
        """Let it end in good order."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._said.close()


class Place:
    """Fresh topics, and how far whoever reads them has come."""

    def __init__(self, bootstrap: str) -> None:
        """Make the topics."""
        self.settings: Final = KafkaSettings(bootstrap_servers=bootstrap, topic_prefix=f"bench{os.getpid()}-{next(_numbers)}-")
        asyncio.run(apply(self.settings, declared(self.settings, PARTITIONS, 1)))
        self.log: Final = KafkaLog(self.settings)
        self._cache: Final = tempfile.TemporaryDirectory(prefix="lahar-bench-")  # where workers keep the projection

    def close(self) -> None:
        """Delete the topics, and what workers have kept."""
        self._cache.cleanup()
        self.log.close()
        asyncio.run(_delete(self.settings))

    # --- processes ----------------------------------------------------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.settings.bootstrap_servers,
            "KAFKA_TOPIC_PREFIX": self.settings.topic_prefix,
            "XDG_CACHE_HOME": self._cache.name,
        }

    def lahar(self, ordinal: int = 0, workers: int = 1) -> Worker:
        """Start `lahar worker` as a user does."""
        command = "from engine.cli.main import main; main()"
        arguments = ("--log", f"kafka://{self.settings.bootstrap_servers}", "worker", "--stage", "lifecycle")
        which = ("--ordinal", str(ordinal), "--workers", str(workers))
        return Worker(("-c", command, *arguments, *which), self._environment())

    def forwarder(self, name: str, per_input: float, size: int) -> Worker:
        """Start the bare pass-through of a client library (`aiokafka`, `aiokafka-tuned`, `confluent`), wait until it is ready."""
        client, _, tuned = name.partition("-")
        worker = Worker(
            (
                str(_ROOT / "benchmarks" / "kafka_forward.py"),
                *("--client", client, "--bootstrap", self.settings.bootstrap_servers),
                *("--source", self.name("pods"), "--target", self.name("billing"), "--name", self.settings.group(name)),
                *(("--tuned",) if tuned else ()),
                *("--partitions", str(PARTITIONS), "--per-input", str(per_input), "--size", str(size)),
            ),
            self._environment(),
        )
        worker.wait_for_line("ready")
        return worker

    def faust(self) -> Worker:
        """Start the Faust agent that forwards and wait until it is ready."""
        worker = Worker(
            (
                str(_ROOT / "benchmarks" / "faust_forward.py"),
                *("--bootstrap", self.settings.bootstrap_servers, "--app-id", self.settings.group("faust")),
                *("--source", self.name("pods"), "--target", self.name("billing")),
            ),
            self._environment(),
        )
        worker.wait_for_line("ready")
        return worker

    def feeder(self, rate: int, seconds: float, first: int = 0, replicas: int = 4) -> Worker:
        """Start a producer of observations."""
        numbers = ("--rate", str(rate), "--seconds", str(seconds), "--first", str(first), "--replicas", str(replicas))
        return Worker((str(_ROOT / "benchmarks" / "kafka_feed.py"), *numbers), self._environment())

    # --- inputs, and who has taken them -------------------------------------------------------------------------------------

    def name(self, topic: str) -> str:
        """Return the name of a topic in the cluster."""
        return self.settings.topic_prefix + topic

    def append(self, messages: Sequence[Message]) -> None:
        """Append observations, as many at once as an importer does."""
        for start in range(0, len(messages), _APPEND):
            self.log.append("pods", messages[start : start + _APPEND])

    def appended(self) -> int:
        """Return the number of observations in the topic. Their producers write without transactions, so there are no gaps."""
        return sum(self.log.end(Partition("pods", number)) for number in range(PARTITIONS))

    def stage_groups(self) -> list[str]:
        """Return the groups of the lifecycle stage's shards."""
        return [self.settings.group("lifecycle", number) for number in range(PARTITIONS)]

    def forwarder_groups(self, name: str) -> list[str]:
        """Return the groups of a pass-through."""
        return [f"{self.settings.group(name)}-{number}" for number in range(PARTITIONS)]

    def taken(self, groups: Sequence[str]) -> int:
        """Return the number of observations whose offsets some groups have committed."""
        found = [self.log.background.run(self.log.wire.group_offsets(group)) for group in groups]
        topic = self.name("pods")
        return sum(offset for offsets in found for name, (offset, _) in offsets.items() if name.topic == topic)

    def wait_until(self, groups: Sequence[str], count: int, workers: Sequence[Worker], seconds: float) -> float:
        """Return when (monotonic seconds) some groups have taken so many observations.

        Raises:
            TimeoutError: not within that time.
            RuntimeError: a worker has ended.
        """
        deadline = time.monotonic() + seconds
        while self.taken(groups) < count:
            for worker in workers:
                worker.must_live()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.taken(groups):,} of {count:,} inputs taken after {seconds:g} s")
            time.sleep(0.02)
        return time.monotonic()

    def outputs(self) -> tuple[float, int]:
        """Return how many records the stage has written to `job-events` for each input, and the mean bytes of one."""
        records = size = 0
        for number in range(PARTITIONS):
            partition = Partition("job-events", number)
            for chunk in self.log.reader.chunks(partition, 0, self.log.end(partition)):
                records += len(chunk)
                size += sum(
                    len(raw.key or b"") + len(raw.value or b"") + sum(len(name) + len(value) for name, value in raw.headers)
                    for raw in chunk
                )
        return records / self.appended(), size // max(records, 1)


@contextlib.contextmanager
def place(bootstrap: str) -> Iterator[Place]:
    """Give fresh topics for the length of a `with` block."""
    made = Place(bootstrap)
    try:
        yield made
    finally:
        made.close()


async def _delete(settings: KafkaSettings) -> None:
    async with administrator(settings) as admin:
        await admin.delete_topics([topic.name for topic in declared(settings, 1, 1)])
