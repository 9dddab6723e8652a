"""Builds what the Dockerfile describes, outside a container: its COPY and RUN instructions, in a folder.

What needs a network is not run: the locked distributions are those of the environment of the tests, whose versions must be the
locked ones. All else is run as it stands, with other paths.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from container_files import ROOT, Instruction, context_files, matching, stages, words

DOWNLOADS = " pip install --require-hashes --only-binary :all: --no-deps -r "
"""What the parts of RUN have in common that need a network."""

_LOCKED = re.compile(r"^([\w.-]+)==([^\s\\]+)", re.MULTILINE)


@dataclass(frozen=True)
class Image:
    """What was built."""

    source: Path
    """The working directory of the first stage."""
    environment: Path
    """What the image has at /opt/lahar."""
    locks: dict[str, str]
    """Files that were to be installed from a network, and what stands in them."""

    @property
    def bin(self) -> Path:
        """The programs of the image."""
        return self.environment / "bin"


def build(folder: Path, packages: Path) -> Image:
    """Run the first stage of the Dockerfile.

    Args:
        folder: empty; everything goes into it.
        packages: the folder of the distributions that stand in for downloaded ones.
    """
    image = Image(folder / "src", folder / "opt-lahar", {})
    image.source.mkdir()
    first, _ = stages()
    for instruction in first:
        if instruction.name == "COPY":
            _copy(instruction, image.source)
        elif instruction.name == "RUN":
            for part in instruction.text.split(" && "):
                _run(part, image, packages)
    return image


def _copy(instruction: Instruction, target: Path) -> None:
    *sources, destination = words(instruction.text)
    files = context_files()
    for source in sources:
        for name in matching(source, files):
            below = Path(name).relative_to(source) if (ROOT / source).is_dir() else Path(Path(name).name)
            to = target / destination / below
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to)


def _run(part: str, image: Image, packages: Path) -> None:
    part = part.strip()
    if DOWNLOADS in part:
        lock = part.split(DOWNLOADS)[1].strip()
        image.locks[lock] = (image.source / lock).read_text(encoding="utf-8")
        for name, version in _LOCKED.findall(image.locks[lock]):
            assert metadata.version(name) == version, f"{name} of this environment is not the locked one: run `make .venv`"
        if part.startswith("/opt/lahar/"):
            (site,) = image.environment.glob("lib/python3*/site-packages")
            (site / "locked.pth").write_text(f"{packages}\n", encoding="utf-8")
        return
    moved = re.sub(r"^python ", f"{sys.executable} ", part.replace("/opt/lahar", str(image.environment)))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(["sh", "-c", moved], cwd=image.source, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{part}\n{done.stdout}{done.stderr}"
