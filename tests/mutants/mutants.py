"""Mutation testing: change the code in small ways, one at a time, and see whether a test fails.

    python tests/mutants/mutants.py [AREA…] [--share 0.3] [--only REGEX]

Prints a table of modules and each survivor that docs/mutants.md does not explain; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutations import Mutant, mutants_of, sampled
from pytest_runs import Outcome, Workshop

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mutants.md"
SEED = "lahar"
TESTS_SECONDS = 30.0
"""As many tests of a folder run on a mutant, quickest first, as take so long together on the unchanged code under coverage."""


@dataclass(frozen=True)
class Area:
    """Modules that are changed, and the tests that should notice it."""

    modules: tuple[str, ...]
    """Patterns of paths."""
    tests: tuple[str, ...]
    """Folders or files, the nearest first."""


AREAS = {
    "statemachines": Area(
        ("statemachines/*.py",), ("tests/statemachines", "tests/cli/test_vocabulary_commands.py", "tests/lifecycle")
    ),
    "lifecycle": Area(("engine/lifecycle/*.py",), ("tests/lifecycle", "tests/processor/test_pages.py")),
    "billing": Area(
        ("engine/billing/*.py", "engine/billing/exports/*.py"),
        ("tests/billing", "tests/application/test_bills.py", "tests/cli/test_billing.py"),
    ),
    "log": Area(
        ("engine/log/*.py", "engine/processor/*.py", "engine/runtime/*.py"),
        ("tests/log", "tests/processor", "tests/runtime", "tests/contract"),
    ),
    "streams": Area(
        tuple(
            f"streams/{name}.py"
            for name in (
                *("codec", "dead_letters", "search", "settings"),
                *(f"client/{name}" for name in ("event_loop", "record_batches", "tokens")),
            )
        ),
        tuple(
            f"tests/kafka/test_{name}.py"
            for name in ("codec", "event_loop", "record_batches", "search", "tokens", "kafka_settings")
        ),
    ),
}
"""Of streams, what can be tested without a broker; there is none in the copies."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants asked for and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", choices=[[], *AREAS], help="default: all")
    parser.add_argument(
        "--share", type=float, default=1.0, help="share of the mutants to run, the same ones every time (default 1)"
    )
    parser.add_argument("--only", default="", help="run mutants in whose name (module | scope | change) this expression is found")
    asked = parser.parse_args(arguments)
    found: list[tuple[Mutant, Outcome]] = []
    for name in asked.areas or AREAS:
        mutants = [mutant for mutant in mutants_in(ROOT, AREAS[name]) if re.search(asked.only, mutant.key)]
        found += run(ROOT, AREAS[name], sampled(mutants, asked.share, SEED))
    explained = explanations(PAGE.read_text(encoding="utf-8"))
    print(table(found, explained))
    open_ones = [mutant for mutant, outcome in found if outcome in ("survived", "not run") and mutant.key not in explained]
    for mutant in open_ones:
        print(f"{mutant.module}:{mutant.lines.start} | {mutant.key}")
    return 1 if open_ones else 0


def mutants_in(root: Path, area: Area) -> list[Mutant]:
    """Return all mutants of an area."""
    paths = sorted({path for pattern in area.modules for path in root.glob(pattern)})
    return [mutant for path in paths for mutant in mutants_of(str(path.relative_to(root)), path.read_text(encoding="utf-8"))]


def run(root: Path, area: Area, mutants: Sequence[Mutant], patience: float = 10.0) -> list[tuple[Mutant, Outcome]]:
    """Run mutants in a copy of the project, and say on standard error how far that is.

    A mutant that survives the first of the area's folders of tests goes on to the next one.
    """
    found: list[tuple[Mutant, Outcome]] = []
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        workshop = Workshop(root, Path(folder).resolve(), patience)
        lines = workshop.map_tests(area.tests, sorted({pattern.partition("/")[0] for pattern in area.modules}))
        for number, mutant in enumerate(mutants, 1):
            begin = time.monotonic()
            outcome: Outcome = "not run"
            for tests in area.tests:
                if chosen := lines.tests_of(mutant, tests, TESTS_SECONDS):
                    outcome = workshop.run(mutant, chosen, lines.seconds)
                    if outcome != "survived":
                        break
            found.append((mutant, outcome))
            print(f"{number}/{len(mutants)} {outcome} {time.monotonic() - begin:.1f} s: {mutant.key}", file=sys.stderr, flush=True)
    return found


def explanations(page: str) -> dict[str, str]:
    """Return the survivors that the page explains: mutant → why no test can or need see it."""
    rows = re.findall(r"^\| `(\S+\.py)` \| `(.+?)` \| `` (.+?) `` \| (.+?) \|$", page, flags=re.MULTILINE)
    return {" | ".join((module, scope, change.replace("\\|", "|"))): why for module, scope, change, why in rows}


def table(found: Sequence[tuple[Mutant, Outcome]], explained: dict[str, str]) -> str:
    """Return the outcomes by module, as Markdown."""
    lines = ["| module | mutants | killed | survivors explained | survivors open |", "|---|---:|---:|---:|---:|"]
    modules: dict[str, Counter[str]] = {}
    for mutant, outcome in found:
        killed = outcome in ("killed", "timed out")
        column = "killed" if killed else "explained" if mutant.key in explained else "open"
        for row in (mutant.module, "all"):
            modules.setdefault(row, Counter()).update([column, "all"])
    whole = modules.pop("all", Counter())
    for module, counts in (*modules.items(), ("all", whole)):
        lines.append(f"| {module} | {counts['all']} | {counts['killed']} | {counts['explained']} | {counts['open']} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
