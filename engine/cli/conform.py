"""`lahar conform`: run cases that say what must follow from an input, and report what does not.

A case file holds one JSON object a line. Every case is run by the engine's own rules (`engine.cli.cases`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.cli.cases import KINDS
from engine.cli.comparison import Failure, compare
from engine.cli.errors import FINDING, OK
from engine.cli.output import Output

__all__ = ["CaseResult", "conform", "run_cases"]


@dataclass(slots=True)
class CaseResult:
    """What became of one case."""

    name: str
    kind: str
    line: int
    """Line of the file, from 1."""
    failures: list[Failure] = field(default_factory=list)
    remark: str = ""
    """Where a case names a reason: that reason, and the one that the rules gave. Not compared."""

    @property
    def ok(self) -> bool:
        """Everything that the case expects holds."""
        return not self.failures


def run_cases(lines: Iterable[bytes], file_name: str) -> Iterator[CaseResult]:
    """Run the cases of one file. Nothing in it ends the run: what cannot be read or run is a failure of its line.

    Args:
        lines: the file's lines; blank ones are passed over.
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
            # A case is anybody's JSON; one of the wrong shape fails where its content is used.
            result.failures = [Failure("case", "a case of this kind", f"{type(error).__name__}: {error}")]
        else:
            if "reason_contains" in expected:
                result.remark = f"reason: {_shown(expected['reason_contains'])}, ours: {_shown(outcome.get('reason', ''))}"
    return result


def conform(files: list[Path], as_json: bool) -> int:
    """Run the cases of files and print one line for each.

    Args:
        files: files of cases.
        as_json: print one JSON object for each case instead, and nothing else.

    Returns:
        Exit code: 1 if any case failed, else 0.

    Raises:
        OSError: a file cannot be read.
    """
    output = Output(as_json=as_json)
    passed = failed = 0
    for path in files:
        with path.open("rb") as lines:
            for result in run_cases(lines, path.name):
                passed += result.ok
                failed += not result.ok
                if as_json:
                    output.record(_record(result))
                else:
                    for text in _lines(result):
                        # A name may hold what no terminal takes (half of a surrogate pair).
                        output.line(text.encode("utf-8", "backslashreplace").decode())
    if not as_json:
        output.line(f"{passed} passed, {failed} failed")
    return FINDING if failed else OK


def _record(result: CaseResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "kind": result.kind,
        "line": result.line,
        "ok": result.ok,
        "failures": [asdict(failure) for failure in result.failures],
    }


def _lines(result: CaseResult) -> Iterator[str]:
    if result.ok:
        yield f"ok {result.name}"
    else:
        faults = (
            f"{failure.field}: expected {_shown(failure.expected)}, got {_shown(failure.actual)}" for failure in result.failures
        )
        yield f"FAIL {result.name}: {'; '.join(faults)}"
    if result.remark:
        yield f"   {result.remark}"


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
