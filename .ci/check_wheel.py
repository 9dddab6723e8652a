"""Build the wheel, look into it, and run it in a clean environment with the locked dependencies it declares."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"

EXPECTED = {
    "engine/py.typed",
    "statemachines/py.typed",
    "streams/py.typed",
    "lahar/py.typed",
    "engine/cli/main.py",
    "statemachines/vocabulary.py",
    "streams/__init__.py",
}
"""Files that the wheel must hold, beside all modules and data files of the packages, licence and notice."""

CHECKOUT_ONLY = ("benchmarks/", "docs/", "tests/")
"""Folders of which the wheel holds nothing: measures, writers of documents, tests."""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command without anything of this process's Python environment and return what it says."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LAHAR"))}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(str(part) for part in command)}\nfailed with code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def tracked(*patterns: str) -> set[str]:
    """Return the committed files that match."""
    return set(run("git", "ls-files", *patterns).split())


def check_contents(wheel: Path) -> list[str]:
    """Return what is wrong with the contents of a wheel."""
    names = set(zipfile.ZipFile(wheel).namelist())
    code = {name for name in names if ".dist-info/" not in name}
    expected = EXPECTED | tracked("engine/*", "lahar/*", "statemachines/*", "streams/*")
    notes = {name.rsplit("/", 1)[1] for name in names if ".dist-info/licenses/" in name}
    faults = [f"missing: {name}" for name in sorted(expected - code)]
    faults += [f"does not belong: {name}" for name in sorted(code - expected)]
    faults += [f"belongs to a checkout alone: {name}" for name in sorted(code) if name.startswith(CHECKOUT_ONLY)]
    faults += [f"missing: {name}" for name in sorted({"LICENSE", "NOTICE"} - notes)]
    return faults


def runtime_closure() -> set[str]:
    """Return the names of all distributions that an installation without extras needs here."""
    found: set[str] = set()
    waiting = [("lahar", frozenset[str]())]
    while waiting:
        name, extras = waiting.pop()
        for line in metadata.requires(name) or ():
            requirement = Requirement(line)
            wanted = not requirement.marker or any(requirement.marker.evaluate({"extra": extra}) for extra in extras | {""})
            if wanted and canonicalize_name(requirement.name) not in found:
                found.add(canonicalize_name(requirement.name))
                waiting.append((requirement.name, frozenset(requirement.extras)))
    return found


def locked(names: set[str]) -> str:
    """Return the entries of the lock, hashes included, for these distributions."""
    blocks = re.split(r"^(?=[\w.-]+==)", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    entries = {canonicalize_name(block.split("==")[0]): block for block in blocks if "==" in block}
    if missing := names - entries.keys():
        sys.exit(f"requirements.lock lacks {', '.join(sorted(missing))}: run `make lock`")
    return "".join(entries[name] for name in sorted(names))


def main() -> None:
    """Run all checks; leave with a message at the first that fails."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        source = scratch / "source"
        run("git", "checkout-index", "--all", f"--prefix={source}/")
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", scratch, source)
        (wheel,) = scratch.glob("*.whl")
        if faults := check_contents(wheel):
            sys.exit("\n".join([f"{wheel.name}:", *faults]))
        (scratch / "runtime.lock").write_text(locked(runtime_closure()), encoding="utf-8")
        venv.create(scratch / "clean", with_pip=True)
        python = scratch / "clean" / "bin" / "python"
        pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input")
        run(
            *pip,
            "install",
            "--quiet",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--no-deps",
            "-r",
            scratch / "runtime.lock",
            cwd=scratch,
        )
        run(*pip, "install", "--quiet", "--no-deps", wheel, cwd=scratch)
        run(*pip, "check", cwd=scratch)
        lahar = python.with_name("lahar")
        version = run(lahar, "--version", cwd=scratch).strip()
        for path in (ROOT / "docs" / "schemas").glob("lahar.job.*.json"):
            if run(lahar, "schema", path.stem, cwd=scratch) != path.read_text(encoding="utf-8"):
                sys.exit(f"the installed wheel shows another schema of {path.stem} than the committed one: run `make docs`")
        print(f"{wheel.name}: complete, runs in a clean environment ({version})")


if __name__ == "__main__":
    main()
