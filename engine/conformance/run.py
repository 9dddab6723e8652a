"""Run the cases of a file by the engine's own rules: one JSON object a line, an input with its expected result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from engine.conformance.comparison import Failure, compare
from engine.conformance.kinds import KINDS


@dataclass(slots=True)
class CaseResult:
    """Outcome of one case."""

    name: str
    kind: str
    line: int
    """Line of the file, from 1."""
    failures: list[Failure] = field(default_factory=list)
    remark: str = ""
    """Expected and actual reason, where a case names one; not compared."""

    @property
    def ok(self) -> bool:
        """Whether every expectation holds."""
        return not self.failures


def run_cases(lines: Iterable[bytes], file_name: str) -> Iterator[CaseResult]:
    """Run the cases of one file. A case that cannot be read or run counts as a failure of its line; the run continues.

    Args:
        lines: the file's lines; blank ones are skipped.
        file_name: name of the file, for cases without a name.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _run_line(line, number, f"{file_name}:{number}")


def _run_line(line: bytes, number: int, place: str) -> CaseResult:
    try:
        case = json.loads(line.strip())
    except (ValueError, RecursionError) as error:
        return CaseResult(place, "", number, [Failure("line", "a JSON object", str(error))])
    if not isinstance(case, dict):
        return CaseResult(place, "", number, [Failure("line", "a JSON object", case)])
    result = CaseResult(str(case.get("name") or place), str(case.get("kind") or ""), number)
    run, expected = KINDS.get(result.kind), case.get("expected")
    if run is None:
        result.failures.append(Failure("kind", f"one of {', '.join(KINDS)}", f"unknown kind {result.kind!r}"))
    elif not isinstance(expected, dict) or not expected:
        result.failures.append(Failure("expected", "an object that says what must follow", expected))
    else:
        try:
            outcome = run(case)
            result.failures = compare(expected, outcome, case.get("epsilon") or expected.get("epsilon") or 0)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # A case of the wrong shape fails where its content is used.
            result.failures = [Failure("case", "a case of this kind", f"{type(error).__name__}: {error}")]
        else:
            if "reason_contains" in expected:
                result.remark = f"reason: {shown(expected['reason_contains'])}, ours: {shown(outcome.get('reason', ''))}"
    return result


def shown(value: object) -> str:
    """Return an expectation or an outcome as JSON."""
    return json.dumps(value, ensure_ascii=False)
