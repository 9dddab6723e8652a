"""Tests use what the product shows to everybody; only tests of planted bugs reach into it (`test_planted_*`)."""

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
SHOWN = {"_replace", "_fields", "_asdict", "_exit"}
"""Names of named tuples and of `os` that begin so and are not private."""
THIRD_PARTY = {"_get_command", "_send_request", "_conns", "_isolation_level", "_port", "_request_timeout"}
"""Names of typer and aiokafka, which show nothing that would do."""
LEFT = {
    "application/test_client.py": {"_settings"},
    "kafka/test_kafka_shards.py": {"_run"},
    "log/test_damage.py": {"_position"},
    "log/test_power_loss.py": {"_file", "_writer"},
    "processor/test_bytes_of_commits.py": {"_heads", "_records", "_run"},
    "scheduling/test_waiting_lines.py": {"_kept", "_quiet"},
}
"""Private names that tests still use; nothing is to be added."""


def private_names(source: str) -> Iterator[str]:
    """Private attributes of other objects than a class's own."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super"))):
                continue
            case ast.Attribute(attr=name) if name.startswith("_") and not name.startswith("__"):
                yield name


def test_tests_use_no_private_names() -> None:
    found = {
        str(path.relative_to(HERE)): names
        for path in sorted(HERE.rglob("*.py"))
        if not path.name.startswith("test_planted_") and (names := set(private_names(path.read_text())) - SHOWN - THIRD_PARTY)
    }
    assert found == LEFT


def test_private_names_are_found() -> None:
    source = "self._a, cls._b, super()._c, os.__d__, x._e, f(x)._f, x.y, self.z._g"
    assert sorted(private_names(source)) == ["_e", "_f", "_g"]
