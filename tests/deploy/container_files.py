"""Reads Dockerfile, .dockerignore and docker-compose.yml, as far as ours go, and says what they mean outside a container."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]

_ADDRESS = re.compile(r"(?:\b(?:kafka|localhost|127\.0\.0\.1|0\.0\.0\.0))?:(\d{2,5})\b")
_BASH_ADDRESS = re.compile(r"/dev/tcp/127\.0\.0\.1/(\d+)")
_DURATION = re.compile(r"(\d+)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile, on one line."""

    name: str
    text: str


def instructions(text: str) -> Iterator[Instruction]:
    """Yield the instructions of a Dockerfile; comments are left out, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield Instruction(name.upper(), rest.strip())


def stages() -> list[list[Instruction]]:
    """Return the instructions of our Dockerfile by stage, each beginning with its FROM."""
    found: list[list[Instruction]] = []
    for instruction in instructions((ROOT / "Dockerfile").read_text(encoding="utf-8")):
        if instruction.name == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


def words(instruction: str) -> list[str]:
    """Return the words of a command, in exec form (JSON) or shell form."""
    return json.loads(instruction) if instruction.startswith("[") else shlex.split(instruction)


def matching(source: str, files: list[str]) -> list[str]:
    """Return the files that a source of COPY means: the file itself, or all below the folder."""
    folder = source.rstrip("/") + "/"
    return [name for name in files if name == source or name.startswith(folder)]


def context_files() -> list[str]:
    """Return the files that .dockerignore lets into the build; of its lines that match, the last decides."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    there = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    rules = [
        line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    ]
    return [name for name in there if not _ignored(name, rules)]


def is_committed(path: str) -> bool:
    """Tell whether a file, or something in a folder, is in git."""
    return bool(subprocess.run(["git", "ls-files", path], cwd=ROOT, check=True, capture_output=True).stdout)


def _ignored(name: str, rules: list[str]) -> bool:
    ignored = False
    parts = name.split("/")
    # A rule that matches a folder holds for all that is in it.
    paths = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    for rule in rules:
        pattern = rule.removeprefix("!").strip("/")
        if any(_matches(path, pattern) for path in paths):
            ignored = not rule.startswith("!")
    return ignored


def _matches(path: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return any(_matches(tail, pattern[3:]) for tail in _tails(path))
    there, wanted = path.split("/"), pattern.split("/")
    return len(there) == len(wanted) and all(map(fnmatchcase, there, wanted))


def _tails(path: str) -> Iterator[str]:
    parts = path.split("/")
    yield from ("/".join(parts[start:]) for start in range(len(parts)))


def compose() -> dict[str, Any]:
    """Return our Compose file, merge keys resolved."""
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))


def ours() -> list[str]:
    """Return the services that run the image of our Dockerfile."""
    services = compose()["services"]
    built = {service["image"] for service in services.values() if "build" in service}
    return [name for name, service in services.items() if service["image"] in built]


def seconds(duration: str) -> float:
    """Return a duration as Compose and Docker write it: `1m30s`."""
    return sum(int(number) * _UNITS[unit] for number, unit in _DURATION.findall(duration))


def elsewhere(text: str, ports: Mapping[int, int]) -> str:
    """Return a text with the addresses of containers replaced by those on this machine.

    Args:
        text: a word of a command, or the value of a variable.
        ports: port in the container → port on loopback; others stay.
    """

    def moved(found: re.Match[str]) -> str:
        port = int(found[1])
        return f"127.0.0.1:{ports[port]}" if port in ports else found[0]

    def moved_in_bash(found: re.Match[str]) -> str:
        return f"/dev/tcp/127.0.0.1/{ports.get(int(found[1]), found[1])}"

    return _BASH_ADDRESS.sub(moved_in_bash, _ADDRESS.sub(moved, text))
