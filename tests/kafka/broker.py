"""Apache Kafka itself for the tests: KRaft brokers on loopback, from the jars that `make kafka` has fetched.

    with Cluster(brokers=1) as cluster:
        KafkaLog(cluster.bootstrap)

One broker needs about 340 MB and 6 s; three need 1 GB. Nothing is downloaded here. From the command line, a broker to try things
out with, whose data go when it ends:

    python tests/kafka/broker.py [PORT]
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest
from ports import free_ports

DEFAULT_VERSION = "4.3.0"
_ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent
_QUICK_START: Final = ("-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Flags of the JVM that save a third of the start-up time, where peak speed is of no interest."""
AS_KAFKA_STARTS_IT: Final = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    *("-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
)
"""Flags of the JVM that Kafka's `kafka-server-start.sh` and `kafka-run-class.sh` give, where speed is measured."""
_START_SECONDS = 90.0
_STOP_SECONDS = 30.0


class BrokerUnavailableError(Exception):
    """Raised when a broker does not start or answer; the text holds the end of its log."""


def jars(version: str = DEFAULT_VERSION) -> Path:
    """Return the folder of a version's jars."""
    return _ROOT / ".kafka" / version


def obstacle(version: str = DEFAULT_VERSION) -> str | None:
    """Return why no broker can be run here; `None` if it can."""
    if java_version() < 17:
        return "no Java 17 or newer"
    if not (jars(version) / ".complete").exists():
        command = "make kafka" + ("" if version == DEFAULT_VERSION else f" KAFKA_VERSION={version}")
        return f"no jars of Apache Kafka {version}: run `{command}`" + ("" if shutil.which("mvn") else " (needs Maven)")
    return None


def need_broker(version: str = DEFAULT_VERSION) -> None:
    """Skip the test where no broker can be run; where one must be (CI with Java and Maven), fail it."""
    if reason := obstacle(version):
        if os.environ.get("CI") == "true" and java_version() >= 17 and shutil.which("mvn"):
            pytest.fail(f"no broker to test against ({reason}), and on this machine there must be one", pytrace=False)
        pytest.skip(reason)


def java_version() -> int:
    """Return the major version of the Java in the path; 0 if there is none."""
    if shutil.which("java") is None:
        return 0
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    with contextlib.suppress(IndexError, ValueError):
        return int(said.split('"')[1].split(".")[0])
    return 0


def until(true: Callable[[], bool], seconds: float, what: str, alive: Callable[[], None] = lambda: None) -> None:
    """Return as soon as a condition holds.

    Args:
        true: the condition, asked every 20 ms.
        seconds: how long to wait at most.
        what: said in the error.
        alive: raises if there is no sense in waiting on.

    Raises:
        BrokerUnavailableError: the time is over.
    """
    deadline = time.monotonic() + seconds
    while not true():
        alive()
        if time.monotonic() > deadline:
            raise BrokerUnavailableError(f"{what}: not within {seconds:g} s")
        time.sleep(0.02)


@dataclass(frozen=True)
class Options:
    """What brokers of a cluster have beside the usual."""

    listeners: Mapping[str, str] = field(default_factory=dict)
    """Further listeners: name → security protocol."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Further settings, in Kafka's names."""
    port: int | None = None
    """Where clients connect to the first broker; `None`: a free port."""
    users: Sequence[str] = ()
    """For SCRAM, as Kafka's StorageTool takes them: `SCRAM-SHA-256=[name=…,password=…]`."""
    jvm: Sequence[str] = _QUICK_START
    """Flags of the JVM that runs a broker."""


def freeze(process: subprocess.Popen[bytes]) -> None:
    """Return when all of a child's threads stand still: the signal alone is on its way, and one of them may answer meanwhile."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class Broker:
    """One broker, which is a controller as well."""

    def __init__(
        self,
        node: int,
        folder: Path,
        ports: Sequence[tuple[int, int]],
        cluster_id: str,
        version: str,
        options: Options = Options(),
        more_ports: Sequence[int] = (),
    ) -> None:
        """Describe it; nothing runs until `start`.

        Args:
            node: its number, from 1.
            folder: where its data and its log go.
            ports: of all brokers: (clients, controllers).
            cluster_id: the same for all of them.
            version: of Apache Kafka.
            options: what it has beside the usual.
            more_ports: of its further listeners.
        """
        self.node = node
        self.ports = dict(zip(options.listeners, more_ports, strict=True))
        self._users = options.users
        self._jvm = options.jvm
        self.port, controller = ports[node - 1]
        self._folder = folder
        self._version = version
        self._cluster_id = cluster_id
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        self._properties = folder / "server.properties"
        copies = min(len(ports), 3)
        clients = ",".join(f"{name}://127.0.0.1:{port}" for name, port in {"PLAINTEXT": self.port, **self.ports}.items())
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **options.listeners}
        settings: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": node,
            "listeners": f"{clients},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{number}@127.0.0.1:{port}" for number, (_, port) in enumerate(ports, 1)),
            "log.dirs": self.data,
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 5,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": min(copies, 2),
            "transaction.state.log.num.partitions": 5,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": min(copies, 2),
            "group.initial.rebalance.delay.ms": 0,
            # Thousands of small partitions are made in the tests, and each maps two indexes of this size.
            "log.index.size.max.bytes": 1 << 20,
            # How soon a broker that was killed is fenced, so that its partitions get another leader. One that is alone has nobody
            # to give them to, and is not to fence itself when the machine stalls.
            "broker.session.timeout.ms": 3_000 if len(ports) > 1 else 9_000,
            "broker.heartbeat.interval.ms": 500,
            "controlled.shutdown.enable": "true",
            **options.settings,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")

    @property
    def log(self) -> Path:
        """Where it writes what it has to say."""
        return self._folder / "broker.log"

    @property
    def data(self) -> Path:
        """Where the records of its partitions stand."""
        return self._folder / "data"

    @property
    def command(self) -> list[str]:
        """What starts it."""
        return self._java(self._jvm, "kafka.Kafka", str(self._properties))

    def quorum(self) -> tuple[int, int] | None:
        """Return the epoch of the controllers and who leads them, as it has written down; `None` before the first election."""
        try:
            state = json.loads((self.data / "__cluster_metadata-0" / "quorum-state").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return (state["leaderEpoch"], state["leaderId"]) if state["leaderId"] > 0 else None

    def format(self) -> None:
        """Prepare its folder, once in its life."""
        users = [argument for user in self._users for argument in ("--add-scram", user)]
        tool = ("kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(self._properties), *users)
        subprocess.run(self._java(_QUICK_START, *tool), check=True, capture_output=True, env=self._environment())

    def start(self, *, wait: bool = True) -> None:
        """Start it, or start it again after `kill` or `stop`."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT, env=self._environment())
        # Whatever becomes of this process, the broker does not stay behind: the pipe ends, and the watch kills it.
        self._watch = subprocess.Popen(["sh", "-c", f"cat; kill -9 {self._process.pid}"], stdin=subprocess.PIPE)
        if wait:
            self.wait_until_up()

    def wait_until_up(self) -> None:
        """Return as soon as the ports of all its listeners are open: it opens one after the other."""
        for port in (self.port, *self.ports.values()):
            until(partial(_answers, port), _START_SECONDS, f"broker {self.node} opens its port {port}", self._must_live)

    def wait(self) -> None:
        """Return when it has ended."""
        assert self._process is not None
        self._process.wait()

    def kill(self) -> None:
        """End it at once, as a power failure does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop it from running, as a stalled machine does, until `thaw`."""
        assert self._process is not None
        freeze(self._process)

    def thaw(self) -> None:
        """Let it run on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        if self._watch is not None:
            self._watch.kill()
            self._watch.communicate()
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(how)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _must_live(self) -> None:
        if self._process is None or self._process.poll() is not None:
            tail = self.log.read_text(encoding="utf-8", errors="replace")[-3_000:]
            raise BrokerUnavailableError(f"broker {self.node} has ended:\n{tail}")

    def _java(self, flags: Sequence[str], *arguments: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={_HERE / 'log4j2.xml'}"
        return ["java", *flags, logging, "-cp", f"{jars(self._version)}/*", *arguments]

    def _environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}


class Cluster:
    """One broker or several, in a folder of their own that is removed at the end."""

    def __init__(self, brokers: int = 1, version: str = DEFAULT_VERSION, options: Options = Options()) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="lahar-kafka-"))
        # Not a random one: it might begin with a dash, and be taken for an option.
        cluster_id = base64.urlsafe_b64encode(b"lahar" + uuid.uuid4().bytes[:11]).decode().rstrip("=")
        each = 2 + len(options.listeners)
        found = free_ports(each * brokers)
        groups = [found[start : start + each] for start in range(0, len(found), each)]
        groups[0][0] = options.port or groups[0][0]
        ports = [(clients, controllers) for clients, controllers, *_ in groups]
        self.brokers = [
            Broker(node, self._folder / str(node), ports, cluster_id, version, options, more)
            for node, (_, _, *more) in enumerate(groups, 1)
        ]

    @property
    def bootstrap(self) -> str:
        """Where clients connect: `HOST:PORT,…`."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers)

    def start(self) -> None:
        """Start all brokers and wait until they answer.

        Raises:
            BrokerUnavailableError: one does not.
        """
        for broker in self.brokers:
            broker.format()
        for broker in self.brokers:
            broker.start(wait=False)
        for broker in self.brokers:
            broker.wait_until_up()

    def broker(self, node: int) -> Broker:
        """Return the broker of that number."""
        return self.brokers[node - 1]

    def controller(self) -> Broker:
        """Return the broker that leads the controllers, as far as the brokers have written down."""
        found = [state for broker in self.brokers if (state := broker.quorum()) is not None]
        return self.broker(max(found)[1])

    def stop(self) -> None:
        """End all brokers and remove their data."""
        for broker in self.brokers:
            broker.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def main() -> None:
    """Run a broker until interrupted, on the port that the command line names (9092)."""
    if reason := obstacle():
        sys.exit(reason)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), Cluster(options=Options(port=int((sys.argv[1:] or ["9092"])[0]))) as cluster:
        sys.stdout.write(f"Kafka {DEFAULT_VERSION} at {cluster.bootstrap}; Ctrl-C ends it, and its data go\n")
        sys.stdout.flush()
        cluster.brokers[0].wait()


if __name__ == "__main__":
    main()
