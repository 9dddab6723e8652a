"""Which tests run which lines, and how long each takes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import coverage
from mutations import Mutant


@dataclass
class LineMap:
    """The tests of an area."""

    seconds: dict[str, float]
    """Node id → duration."""
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    """Path → line → node ids of the tests that run it."""
    imported: dict[str, set[int]] = field(default_factory=dict)
    """Path → lines that run outside tests."""

    def tests_of(self, mutant: Mutant, folder: str, limit: float) -> list[str]:
        """Return the tests of a folder that can see a mutant, as many as take no longer than `limit` seconds together.

        Those that run the changed lines; of what runs at import, then those that run any line of the module, then all others; the
        quickest of each first.
        """
        lines, imported = self.lines.get(mutant.module, {}), self.imported.get(mutant.module, set())
        near: set[str] = set()
        if mutant.function is not None:
            # A default of an argument is evaluated at import, but it is a matter of the function's tests.
            near = self._running(lines, mutant.lines) or self._running(lines, mutant.function)
        chosen = self._by_duration(near)
        if mutant.function is None or not imported.isdisjoint(mutant.lines):
            beside = set().union(*lines.values()) - near
            chosen += [*self._by_duration(beside), *self._by_duration(self.seconds.keys() - near - beside)]
        taken: list[str] = []
        total = 0.0
        for test in (test for test in chosen if test.startswith(folder)):
            total += self.seconds[test]
            if total > limit and taken:
                break
            taken.append(test)
        return taken

    def _running(self, lines: dict[int, set[str]], wanted: range) -> set[str]:
        return set().union(*(lines.get(line, set()) for line in wanted))

    def _by_duration(self, tests: Iterable[str]) -> list[str]:
        return sorted(tests, key=lambda test: (self.seconds[test], test))


def read_map(root: Path, data: Path, durations: Path) -> LineMap:
    """Read what a run of all tests left: coverage with a context for each test, and durations."""
    found = LineMap(json.loads(durations.read_text()))
    measured = coverage.CoverageData(str(data))
    measured.read()
    for path in measured.measured_files():
        lines: dict[int, set[str]] = defaultdict(set)
        contexts_of = measured.contexts_by_lineno(path)
        for line, contexts in contexts_of.items():
            lines[line].update(test for context in contexts if (test := context.rpartition("|")[0]) in found.seconds)
        name = str(Path(path).relative_to(root))
        found.lines[name] = {line: tests for line, tests in lines.items() if tests}
        found.imported[name] = {line for line, contexts in contexts_of.items() if "" in contexts}
    return found
