"""Messages of faults that validation finds: the nearest name stands beside a misspelt one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pydantic_core import ErrorDetails, ValidationError

from statemachines.names import hint

_EXPECTED: Final = re.compile(r"'([^']*)'")


def faults_of(error: ValidationError, fields: Iterable[str] = ()) -> str:
    """Return all faults that validation found, on one line; `fields` as in `message_of`."""
    return "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or error.title}: {message_of(fault, fields)}"
        for fault in error.errors(include_url=False)
    )


def message_of(fault: ErrorDetails, fields: Iterable[str] = ()) -> str:
    """Return the message of a fault, without pydantic's own words at its beginning.

    Args:
        fault: with its context.
        fields: names of fields; one of them may be meant by a field that is not known.
    """
    text = fault["msg"].removeprefix("Value error, ").replace("Input should", "should")
    match fault["type"]:
        case "literal_error":
            given, known = fault["input"], _EXPECTED.findall(fault["ctx"]["expected"])
        case "extra_forbidden":
            given, known = fault["loc"][-1], list(fields)
        case "tuple_type" | "list_type" | "frozen_set_type":
            return "should be a list"
        case _:
            return text
    return text + (hint(given, known) if isinstance(given, str) else "")
