"""The Dockerfile builds an image that holds Lahar, the locked versions of what it needs, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from built_image import Image
from container_files import ROOT, context_files, is_committed, matching, stages, words
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BUILD, FINAL = stages()
SECRET = re.compile(r"password|secret|token|credential|_key\b", re.IGNORECASE)


def texts(stage: list, name: str) -> list[str]:
    return [instruction.text for instruction in stage if instruction.name == name]


@pytest.mark.parametrize("stage", [BUILD, FINAL], ids=["build", "final"])
def test_it_stands_on_a_slim_python_with_a_tag(stage: list) -> None:
    assert re.fullmatch(r"python:3\.1[1-9][\w.]*-slim-\w+( AS build)?", stage[0].text)


def test_all_that_is_copied_is_committed_and_not_ignored() -> None:
    files = context_files()
    copied = {name for text in texts(BUILD, "COPY") for source in words(text)[:-1] for name in matching(source, files)}
    for text in texts(BUILD, "COPY"):
        for source in words(text)[:-1]:
            assert is_committed(source), f"{source} is not in git"
            assert matching(source, files), f".dockerignore keeps {source} out"
    assert copied == set(files), "what the build does not use is to be kept out by .dockerignore"
    assert texts(FINAL, "COPY") == ["--from=build /opt/lahar /opt/lahar"]


@pytest.mark.parametrize(
    "name",
    [".git/config", ".venv/bin/python", ".kafka/4.3.0/x.jar", "lahar.db", "lahar.toml", ".env", "engine/x/__pycache__/y.pyc"],
)
def test_what_lies_about_in_a_working_tree_stays_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = subprocess.CompletedProcess([], 0, stdout=f"pyproject.toml\nengine/x/y.py\n{name}\n")
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: listed)
    assert context_files() == ["pyproject.toml", "engine/x/y.py"]


def test_it_runs_as_a_user_without_rights_or_shell() -> None:
    (user,) = texts(FINAL, "USER")
    made = " ".join(texts(FINAL, "RUN"))
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    assert f"--uid {user.split(':')[0]} " in made
    assert "--shell /usr/sbin/nologin" in made
    names = [instruction.name for instruction in FINAL]
    assert names.index("USER") < names.index("ENTRYPOINT")


def test_no_secret_is_built_in() -> None:
    for instruction in [*BUILD, *FINAL]:
        assert instruction.name != "ADD"
        if instruction.name in {"ARG", "ENV", "LABEL"}:
            assert not SECRET.search(instruction.text)


def test_signals_reach_the_command() -> None:
    """In shell form a shell would get them."""
    for name in ("ENTRYPOINT", "CMD"):
        (text,) = texts(FINAL, name)
        assert isinstance(json.loads(text), list)
    assert texts(FINAL, "STOPSIGNAL") == ["SIGTERM"]
    assert "CMD [" in texts(FINAL, "HEALTHCHECK")[0]


def test_what_is_downloaded_is_locked_with_hashes(image: Image) -> None:
    assert set(image.locks) == {"runtime.lock", "build.lock"}
    for lock in image.locks.values():
        for entry in re.split(r"^(?=[\w.-]+==)", lock, flags=re.MULTILINE)[1:]:
            assert "--hash=sha256:" in entry


def test_the_image_holds_what_is_needed_and_nothing_else(image: Image) -> None:
    locked = set(re.findall(r"^([\w.-]+)==", image.locks["runtime.lock"], re.MULTILINE))
    (ours,) = image.environment.glob("lib/python3*/site-packages/lahar-*.dist-info")
    assert needed(metadata.Distribution.at(ours), frozenset({"agents", "kafka", "telemetry"})) <= locked
    assert not locked & {"pytest", "mypy", "ruff", "hypothesis", "setuptools", "pip-tools"}


def needed(ours: metadata.Distribution, extras: frozenset[str]) -> set[str]:
    """Return what an installation needs, as the distributions themselves say."""
    found: set[str] = set()
    waiting = [(ours, extras)]
    while waiting:
        distribution, extras = waiting.pop()
        for line in distribution.requires or ():
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            wanted = not requirement.marker or any(requirement.marker.evaluate({"extra": extra}) for extra in extras | {""})
            if wanted and name not in found | {"lahar"}:
                found.add(name)
                waiting.append((metadata.distribution(name), frozenset(requirement.extras)))
    return found


def test_the_wheel_in_it_holds_every_module(image: Image) -> None:
    (site,) = image.environment.glob("lib/python3*/site-packages")
    packages = ("engine", "lahar", "statemachines", "streams")
    committed = subprocess.check_output(["git", "ls-files", *packages], cwd=ROOT, text=True).split()
    assert [name for name in committed if not (site / name).is_file()] == []


def test_the_command_in_it_answers(image: Image, tmp_path: Path) -> None:
    said = subprocess.run([image.bin / "lahar", "--version"], cwd=tmp_path, check=True, capture_output=True, text=True, env={})
    assert said.stdout.startswith("lahar ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wish", "said"), [("lahar[kafka,nosuch]", "no extra 'nosuch'"), ("nosuch", "requirements.lock lacks nosuch")]
)
def test_what_the_lock_does_not_hold_is_told(wish: str, said: str) -> None:
    done = subprocess.run([sys.executable, ROOT / "deploy/locked.py", wish], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert said in done.stderr
