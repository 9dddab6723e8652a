"""Plays the commands of a documentation page in a scratch folder, and writes their real output into it.

    python tests/documentation_pages.py      # writes anew what has changed

A `console` block holds commands after `$ ` and, below each, its output; one line `…` in it stands for lines left out. Commands of
`sh` and `bash` blocks are played too; what they print is not compared. All commands of a page run in one shell, in order.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEFT_OUT = "…"
WITH_A_BROKER = frozenset({"docs/kafka.md"})
"""Pages whose commands need a broker: tests/kafka plays them (with LAHAR_WRITE_PAGES=1 it writes them anew)."""
LIMIT = 900
"""Seconds that a page may take."""

_FENCE = re.compile(r"^```(\w*)")
_CHANGING = (re.compile(r"in [\d.]+ s, [\d,]+ a second"), re.compile(r"\([0-9a-f]{32}\)"))
"""Speed depends on the machine, the hash of a state on every detail of the engine."""

_SHELL = """\
exec 2>&1
lahar() {{  # what would not end by itself ends when there is nothing left to do
    case " $* " in
        *" run "*) command lahar "$@" --once ;;
        *" --follow "*) command lahar "${{@/--follow/--json}}" ;;
        *) command lahar "$@" ;;
    esac
}}
kubectl() {{ cat {watch}; }}  # a cluster that shows what was recorded
make() {{ command make --no-print-directory BIN={bin} STAMP={stamp} "$@"; }}
"""


@dataclass
class Command:
    """One command of a page."""

    text: str
    line: int
    output: list[str] | None
    """What the page shows; `None`: it does not say."""
    real: list[str] = field(default_factory=list)
    """What it printed."""
    code: int | None = None


def commands_of(page: str) -> list[Command]:
    """Return the commands of a page, in order."""
    found: list[Command] = []
    language = None
    for number, line in enumerate(page.splitlines(), 1):
        fence = _FENCE.match(line)
        if fence:
            language = fence[1] if language is None else None
        elif language == "console" and line.startswith("$ "):
            found.append(Command(line[2:], number, []))
        elif language == "console" and found and found[-1].output is not None:
            found[-1].output.append(line)
        elif language in {"sh", "bash"} and line.strip() and not line.startswith("#"):
            found.append(Command(line, number, None))
    for command in found:
        while command.output and not command.output[-1]:
            command.output.pop()
    return found


def bare(command: str) -> str:
    """Return a command without the comment behind it."""
    return re.sub(r"\s+#\s.*$", "", command)


def is_played(command: Command) -> bool:
    """Tell whether a command is run; a target of make whose output is not shown is only looked for."""
    return not command.text.startswith("make ") or bool(command.output)


def play(page: str, folder: Path) -> list[Command]:
    """Run the commands of a page in a folder, each with its output and exit code."""
    found = [command for command in commands_of(page) if is_played(command)]
    if not found:
        return []
    environment = prepared(folder)
    watch = shlex.quote(str(folder / "examples" / "ensemble" / "pods.jsonl"))
    script = [_SHELL.format(watch=watch, bin=shlex.quote(str(folder / "bin")), stamp=shlex.quote(str(folder / "stamp")))]
    for number, command in enumerate(found):
        script += [f"printf '\\n<<%d>>\\n' {number}", bare(command.text), "printf '\\n<<=%d>>\\n' $?"]
    played = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env=environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    parts = re.split(r"\n<<(\d+)>>\n", "\n" + played.stdout)
    for number, printed in zip(parts[1::2], parts[2::2], strict=True):
        output, _, code = printed.rpartition("\n<<=")
        command = found[int(number)]
        command.real = [line.rstrip() for line in output.splitlines()]
        command.code = int(code.rstrip(">\n"))
        while command.real and not command.real[-1]:
            command.real.pop()
    return found


def prepared(folder: Path) -> dict[str, str]:
    """Lay out what a reader has after `make`: the examples, and `lahar` in the environment, which is returned."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.db*", "__pycache__"))
    binaries = folder / "bin"
    binaries.mkdir()
    lahar = binaries / "lahar"
    lahar.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from engine.cli.main import main; main()' \"$@\"\n")
    lahar.chmod(0o755)
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "activate").touch()
    (folder / "stamp").touch()
    known = {name: value for name, value in os.environ.items() if not name.startswith("LAHAR_") and name != "MAKEFLAGS"}
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    return {**known, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PATH": path, "COLUMNS": "100", "TERM": "dumb"}


def agrees(shown: list[str], real: list[str]) -> bool:
    """Tell whether what a page shows is what was printed, as far as it shows it."""
    if LEFT_OUT not in shown:
        return plain(shown) == plain(real)
    cut = shown.index(LEFT_OUT)
    head, tail = plain(shown[:cut]), plain(shown[cut + 1 :])
    longer = len(real) > len(head) + len(tail)
    return longer and plain(real[: len(head)]) == head and (not tail or plain(real[-len(tail) :]) == tail)


def plain(lines: list[str]) -> list[str]:
    """Return lines without what may change."""
    for changing in _CHANGING:
        lines = [changing.sub("?", line.rstrip()) for line in lines]
    return lines


def written_anew(page: str, played: list[Command]) -> str:
    """Return a page with the real output in the place of what it shows; as much is left out as before."""
    lines = page.splitlines()
    for command in reversed(played):
        if command.output is None or agrees(command.output, command.real):
            continue
        if not command.output:
            continue  # it shows none
        real = command.real
        if LEFT_OUT in command.output:
            cut = command.output.index(LEFT_OUT)
            tail = len(command.output) - cut - 1
            real = [*real[:cut], LEFT_OUT, *real[len(real) - tail :]]
        lines[command.line : command.line + len(command.output)] = real
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the output of all pages anew."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if str(path.relative_to(ROOT)) in WITH_A_BROKER:
            continue
        page = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            anew = written_anew(page, play(page, Path(folder)))
        if anew != page:
            path.write_text(anew, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)}: written anew\n")


if __name__ == "__main__":
    main()
