"""`lahar schema` and `lahar diagram`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.cli.machines import page
from engine.cli.main import app
from engine.events import TYPES
from engine.events.schema import json_schema

RUN = CliRunner()
DOCS = Path(__file__).parents[2] / "docs"


def test_schema_lists_every_type():
    plain = RUN.invoke(app, ["schema"], env={"COLUMNS": "120"})
    assert [name for name in TYPES if name not in plain.stdout] == []
    lines = [json.loads(line) for line in RUN.invoke(app, ["schema", "--json"]).stdout.splitlines()]
    assert sorted(line["type"] for line in lines) == sorted(TYPES)


@pytest.mark.parametrize("arguments", [["schema", "lahar.anomaly.v1"], ["--json", "schema", "lahar.anomaly.v1"]])
def test_schema_prints_one_schema(arguments):
    assert json.loads(RUN.invoke(app, arguments).stdout) == json_schema("lahar.anomaly.v1")


def test_schema_of_a_type_that_is_not_there_is_not_found():
    result = RUN.invoke(app, ["schema", "lahar.anomaly.v9"])
    assert result.exit_code == 3
    assert "`lahar schema` lists them all" in result.stderr


def test_the_committed_diagrams_are_up_to_date():
    """After a change of a table: `make docs`, read the difference, commit it."""
    assert (DOCS / "machines.md").read_text(encoding="utf-8") == page()


def test_diagram_draws_one_machine_or_all(tmp_path):
    assert RUN.invoke(app, ["diagram", "replica"]).stdout.count("stateDiagram-v2") == 1
    assert RUN.invoke(app, ["diagram"]).stdout.count("stateDiagram-v2") == 4
    lines = [json.loads(line) for line in RUN.invoke(app, ["diagram", "--json"]).stdout.splitlines()]
    assert [line["machine"] for line in lines] == ["job", "task", "replica", "notice"]
    assert "Succeeded" in lines[2]["phases"]


def test_diagram_writes_the_page(tmp_path):
    RUN.invoke(app, ["diagram", "--out", str(tmp_path / "machines.md")])
    assert (tmp_path / "machines.md").read_text() == page()
