"""`lahar conform`: run cases with expected outcomes, and report differences (`engine.conformance`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.cli.exit_codes import FINDING, OK
from engine.cli.output import Output
from engine.conformance.run import CaseResult, run_cases, shown


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
                        # A name may hold text that no terminal accepts (half of a surrogate pair).
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
            f"{failure.field}: expected {shown(failure.expected)}, got {shown(failure.actual)}" for failure in result.failures
        )
        yield f"FAIL {result.name}: {'; '.join(faults)}"
    if result.remark:
        yield f"   {result.remark}"
