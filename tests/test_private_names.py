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
    "cli/test_why_waiting.py": {"_NODES", "_REASONS"},
    "kafka/test_codec.py": {"_known"},
    "kafka/test_kafka_commands.py": {"_scan"},
    "kafka/test_kafka_shards.py": {"_run"},
    "log/test_damage.py": {"_position"},
    "log/test_power_loss.py": {"_file", "_writer"},
    "processor/test_bytes_of_commits.py": {"_heads", "_records", "_run"},
    "projection/test_projection_laws.py": {"_move"},
    "scheduling/test_bounds_of_rounds.py": {"_columns"},
    "scheduling/test_former_names.py": {"_MODULES"},
    "scheduling/test_notice_suffices.py": {"_choose", "_review"},
    "scheduling/test_rounds_keep_the_rules.py": {"_kept"},
    "scheduling/test_sessions.py": {"_kept"},
    "scheduling/test_shares_follow_moves.py": {"_present_tree"},
    "scheduling/test_waiting_lines.py": {"_Queue", "_is_hopeless", "_kept", "_quiet"},
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
