"""Print the part of requirements.lock that some distributions need, so that an image holds them and nothing else.

    python deploy/locked.py 'lahar[agents,kafka]' > runtime.lock
    python -m pip install --require-hashes --no-deps -r runtime.lock

Needs Python alone: it runs before anything is installed. What a distribution needs is read from the lock itself, where
pip-compile notes below each entry for whom it stands there; for `lahar` and its extras, from pyproject.toml.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["entries", "locked", "main"]

ROOT = Path(__file__).resolve().parent.parent

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_WANTED = re.compile(r"lahar(?:\[([a-z, ]*)\])?")
_ENTRY = re.compile(r"^(?=[\w.-]+==)", re.MULTILINE)
_VIA = re.compile(r"^\s*#(?: via|  ) +([\w.-]+)", re.MULTILINE)


def canonical(requirement: str) -> str:
    """Return the name that a requirement begins with, as the lock writes names (PEP 503).

    Raises:
        ValueError: it begins with none.
    """
    found = _NAME.match(requirement)
    if found is None:
        raise ValueError(f"{requirement!r} names no distribution")
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def entries(lock: str) -> dict[str, str]:
    """Return the entries of a lock by name: version, hashes, notes."""
    return {canonical(block): block for block in _ENTRY.split(lock) if "==" in block}


def roots(wanted: str, pyproject: str) -> Iterator[str]:
    """Yield the names that a wish stands for: the distribution itself, or what `lahar[EXTRA,…]` asks for directly.

    Raises:
        ValueError: there is no such extra.
    """
    if (ours := _WANTED.fullmatch(wanted)) is None:
        yield canonical(wanted)
        return
    project = tomllib.loads(pyproject)["project"]
    yield from map(canonical, project["dependencies"])
    for extra in filter(None, map(str.strip, (ours[1] or "").split(","))):
        if extra not in project["optional-dependencies"]:
            raise ValueError(f"lahar has no extra {extra!r}")
        yield from map(canonical, project["optional-dependencies"][extra])


def locked(wanted: Iterable[str], lock: str, pyproject: str) -> str:
    """Return the entries that distributions need, in the order of the lock.

    Args:
        wanted: names of distributions, or `lahar[EXTRA,…]`.
        lock: the text of requirements.lock.
        pyproject: the text of pyproject.toml.

    Raises:
        ValueError: one is not in the lock.
    """
    every = entries(lock)
    needs: dict[str, set[str]] = {name: set() for name in every}
    for name, text in every.items():
        for needing in map(canonical, _VIA.findall(text)):
            needs.setdefault(needing, set()).add(name)
    found: set[str] = set()
    waiting = [name for wish in wanted for name in roots(wish, pyproject)]
    while waiting:
        name = waiting.pop()
        if name not in every:
            raise ValueError(f"requirements.lock lacks {name}: run `make lock`")
        if name not in found:
            found.add(name)
            waiting.extend(needs[name])
    return "".join(text for name, text in every.items() if name in found)


def main() -> None:
    """Print what the arguments need; end with a message if one cannot be had."""
    try:
        text = locked(sys.argv[1:], (ROOT / "requirements.lock").read_text("utf-8"), (ROOT / "pyproject.toml").read_text("utf-8"))
    except ValueError as error:
        sys.exit(str(error))
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
