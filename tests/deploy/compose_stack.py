"""Runs the services of docker-compose.yml as processes on this machine, as `docker compose up` would run them in containers.

Order and conditions of `depends_on`, commands, environment, health checks and replicas are those of the file; `ENV`, `ENTRYPOINT`
and `HEALTHCHECK` those of the Dockerfile. What a container has of its own is replaced: addresses by free ports on loopback, folders
by folders of the test, the host's name by `--instance`. Kafka runs from its jars; the program that makes its settings and formats
its folder in its image, `kafka.docker.KafkaDockerWrapper`, does so here. Grafana is not run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from socket import create_connection
from typing import Any, Self

import yaml
from broker import jars, until
from built_image import Image
from container_files import ROOT, compose, elsewhere, instructions, ours, seconds, words
from ports import free_ports

PROMETHEUS = ROOT / ".promtool" / "prometheus"
"""Made by `make promtool`, as promtool beside it."""

NOT_RUN = frozenset({"grafana"})
METRICS = 9100
_PROMETHEUS = 9090
_START_SECONDS = 120.0
_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def _replicas(service: Mapping[str, Any]) -> int:
    return service.get("deploy", {}).get("replicas", 1)


class Process:
    """One container of a service, as a process."""

    def __init__(
        self,
        name: str,
        command: list[str],
        environment: Mapping[str, str],
        folder: Path,
        check: list[str] | None,
        port: int | None = None,
    ) -> None:
        """Start it.

        Args:
            name: of the container.
            command: entry point and command.
            environment: all that it sees.
            folder: for its home and its log.
            check: the health check; `None`: it has none.
            port: on which it listens when it can be healthy; `None`: on none that is known.
        """
        self.name = name
        self.home = folder / name
        self.home.mkdir(exist_ok=True)
        self.log = folder / f"{name}.log"
        self._command = command
        self._check = check
        self._port = port
        self._environment = dict(environment)
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self.home, env=self._environment, stdout=log, stderr=subprocess.STDOUT
            )

    def said(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-4_000:]

    def is_healthy(self) -> bool:
        """Run its health check once; without one it is healthy while it runs."""
        if self._check is None:
            return self._process.poll() is None
        try:
            done = subprocess.run(self._check, cwd=self.home, env=self._environment, capture_output=True, timeout=30, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def wait_until_healthy(self) -> None:
        """Return as soon as the health check succeeds; fail if the process ends first."""
        # Each check is a process, of which those that start it have less time.
        until(self._listens, _START_SECONDS, f"{self.name} listens", self.must_run)
        until(self.is_healthy, _START_SECONDS, f"{self.name} is healthy", self.must_run)

    def _listens(self) -> bool:
        if self._port is None:
            return True
        with suppress(OSError), create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False

    def wait(self) -> int:
        """Return its exit code once it has ended."""
        return self._process.wait(_START_SECONDS)

    def stop(self) -> tuple[int, float]:
        """Send SIGTERM, as Docker does; return the exit code and how many seconds it took."""
        self._process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        return self._process.wait(_START_SECONDS), time.monotonic() - began

    def kill(self) -> None:
        """End it, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def must_run(self) -> None:
        """Fail if it has ended."""
        assert self._process.poll() is None, f"{self.name} has ended with code {self._process.returncode}:\n{self.said()}"


class Stack:
    """All services of the file that can be run here."""

    def __init__(self, image: Image, folder: Path) -> None:
        """Describe it; `start` runs it.

        Args:
            image: what the Dockerfile has built.
            folder: empty.
        """
        self.services: dict[str, dict[str, Any]] = compose()["services"]
        self.processes: dict[str, list[Process]] = {}
        self.metrics = {name: free_ports(_replicas(service)) for name, service in self.services.items() if name in ours()}
        """Ports on which the containers of a service show their metrics."""
        self._image = image
        self.folder = folder
        """For whatever the processes write."""
        inside = (9092, 9093, 19092, _PROMETHEUS)
        self._ports = dict(zip(inside, free_ports(len(inside)), strict=True))
        final = list(instructions((ROOT / "Dockerfile").read_text(encoding="utf-8")))
        last = max(place for place, instruction in enumerate(final) if instruction.name == "FROM")
        self._dockerfile = {instruction.name: instruction.text for instruction in final[last:]}

    def address(self, port: int) -> str:
        """Return where a port that a container publishes is to be found here."""
        return f"127.0.0.1:{self._ports[port]}"

    @property
    def running(self) -> list[Process]:
        """All processes of services that do not end by themselves."""
        return [process for name, all_of_it in self.processes.items() if not self._ends(name) for process in all_of_it]

    def start(self) -> None:
        """Start every service as soon as what it depends on is as far as it must be, and wait until all are healthy."""
        starters: dict[str, Callable[[str], None]] = {"kafka": self._start_kafka, "prometheus": self._start_prometheus}
        left_out = NOT_RUN if PROMETHEUS.exists() else NOT_RUN | {"prometheus"}
        waiting = {name: set(service.get("depends_on", {})) for name, service in self.services.items() if name not in left_out}
        while waiting:
            ready = [name for name, needs in waiting.items() if needs <= self.processes.keys()]
            assert ready, f"{sorted(waiting)} wait for each other"
            for name in ready:
                for needed, wish in self.services[name].get("depends_on", {}).items():
                    self._wait_for(needed, wish["condition"])
                starters.get(name, self._start_ours)(name)
                del waiting[name]
        for process in self.running:
            process.wait_until_healthy()

    def close(self) -> None:
        """End everything."""
        for processes in reversed(self.processes.values()):
            for process in processes:
                process.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of one of our services: that of the image, and its own."""
        found = {"HOME": str(self.folder)}
        for variable in words(self._dockerfile["ENV"]):
            key, _, value = variable.partition("=")
            found[key] = value.replace("/opt/lahar", str(self._image.environment)).replace("$PATH", os.environ["PATH"])
        own = self.services[name]["environment"]
        return found | {key: elsewhere(str(value), self._ports) for key, value in own.items()}

    def command(self, arguments: list[str], ports: Mapping[int, int]) -> list[str]:
        """Return what a container of ours runs for a command."""
        return [self._program(word) for word in words(self._dockerfile["ENTRYPOINT"])] + [
            elsewhere(word, ports) for word in arguments
        ]

    def _ends(self, name: str) -> bool:
        return self.services[name]["restart"] == "no"

    def _wait_for(self, name: str, condition: str) -> None:
        for process in self.processes[name]:
            if condition == "service_healthy":
                process.wait_until_healthy()
            else:
                assert process.wait() == 0, f"{name}:\n{process.said()}"

    def _start_ours(self, name: str) -> None:
        service = self.services[name]
        checked = not service.get("healthcheck", {}).get("disable")
        self.processes[name] = []
        for number, port in enumerate(self.metrics[name], 1):
            ports = {**self._ports, METRICS: port}
            command = self.command(service["command"], ports)
            if service["command"][0] == "worker":
                command += ["--instance", f"{name}-{number}"]
            check = [elsewhere(word, ports) for word in self._own_check()] if checked else None
            made = Process(f"{name}-{number}", command, self.environment(name), self.folder, check, port if checked else None)
            self.processes[name].append(made)

    def _own_check(self) -> list[str]:
        options, _, command = self._dockerfile["HEALTHCHECK"].partition("CMD ")
        assert seconds(re.search(r"--timeout=(\S+)", options)[1]) >= 1
        program, *rest = words(command)
        return [self._program(program), *rest]

    def _program(self, name: str) -> str:
        return str(self._image.bin / name)

    def _check_of(self, name: str, programs: Mapping[str, str]) -> list[str]:
        kind, program, *rest = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        return [programs.get(program, program), *(elsewhere(word, self._ports) for word in rest)]

    def _start_kafka(self, name: str) -> None:
        classes = f"{jars()}/*"
        made = self.folder / "kafka-settings"
        for folder in ("default", "mounted", "final"):
            (made / folder).mkdir(parents=True)
        for file in ("log4j2.yaml", "tools-log4j2.yaml"):
            (made / "default" / file).write_text("Configuration:\n  Loggers:\n    Root:\n      level: INFO\n", encoding="utf-8")
        (made / "default" / "server.properties").touch()
        own = self.services[name]["environment"]
        data = {"KAFKA_LOG_DIRS": str(self.folder / "kafka-data")}
        clean = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        environment = clean | {key: elsewhere(value, self._ports) for key, value in own.items()} | data
        places = [f"--{place}-configs-dir={made / place}" for place in ("default", "mounted", "final")]
        wrapper = ["java", "-Xmx256m", *_JAVA, "-cp", classes, "kafka.docker.KafkaDockerWrapper", "setup", *places]
        done = subprocess.run(wrapper, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        logging = f"-Dlog4j2.configurationFile={ROOT / 'tests/kafka/log4j2.xml'}"
        heap = own["KAFKA_HEAP_OPTS"].split()
        command = ["java", *heap, *_JAVA, logging, "-cp", classes, "kafka.Kafka", str(made / "final" / "server.properties")]
        self.processes[name] = [Process(name, command, environment, self.folder, self._check_of(name, {}))]

    def _start_prometheus(self, name: str) -> None:
        configured = self.folder / "prometheus-settings"
        configured.mkdir()
        for file in (ROOT / "deploy/prometheus").glob("*.yml"):
            (configured / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
        settings = yaml.safe_load((configured / "prometheus.yml").read_text(encoding="utf-8"))
        settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        for job in settings["scrape_configs"]:
            for found in job.pop("dns_sd_configs", []):
                (service,) = found["names"]
                assert found["port"] == METRICS
                targets = [f"127.0.0.1:{port}" for port in self.metrics[service]]
                job.setdefault("static_configs", []).append({"targets": targets})
            for found in job["static_configs"]:
                found["targets"] = [elsewhere(target, self._ports) for target in found["targets"]]
        (configured / "prometheus.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        moved = {"/etc/prometheus/": f"{configured}/", "=/prometheus": f"={self.folder / 'prometheus-data'}"}
        command = [str(PROMETHEUS), f"--web.listen-address={self.address(_PROMETHEUS)}"]
        for word in self.services[name]["command"]:
            for inside, here in moved.items():
                word = word.replace(inside, here)  # noqa: PLW2901  each replaces a part of it
            command.append(word)
        check = self._check_of(name, {"promtool": str(PROMETHEUS.with_name("promtool"))})
        self.processes[name] = [Process(name, command, dict(os.environ), self.folder, check)]
