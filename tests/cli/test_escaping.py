"""What tenants choose (names, reasons, messages) moves no cursor and adds no line where others read it."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from engine.cli.app import app
from engine.cli.escaping import visible, visible_text
from engine.cli.output import Output
from engine.controls import visible_line

HOSTILE = "x\x1b[2J\x9b31m\u202eevil\nroot did it\u2028[bold]"
SHOWN = r"x\x1b[2J\x9b31m\u202eevil\nroot did it\u2028[bold]"

controls = st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Lu"]))


def is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Zl", "Zp"} or character in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e"


@given(controls)
def test_no_control_is_left(text):
    assert not any(map(is_control, visible(text)))
    assert not any(map(is_control, visible_text(Text.assemble(("a", "bold"), text)).plain))


@given(controls)
def test_a_line_of_json_means_the_same(text):
    line = json.dumps({"a": text}, ensure_ascii=False)
    shown = visible_line(line)
    assert not any(map(is_control, shown))
    assert json.loads(shown) == {"a": text}


@given(st.text(st.characters(categories=["Lu", "Ll", "Nd", "So", "Zs"])))
def test_what_people_write_stays_as_it_is(text):
    assert visible(text) == visible_line(text) == text
    styled = Text(text)
    assert visible_text(styled) is styled or not text.isprintable()


def test_styles_stay_where_they_are():
    shown = visible_text(Text.assemble(("a\x1b", "red"), "b", ("\x1bc", "green")))
    assert [(shown.plain[span.start : span.end], span.style) for span in shown.spans] == [(r"a\x1b", "red"), (r"\x1bc", "green")]


@pytest.mark.parametrize(
    ("made", "cell"),
    [(str, False), (str, True), (Text, False), (lambda text: Text.assemble((text, "red")), False)],
)
def test_whatever_is_printed_is_words_alone(capsys, made, cell):
    output = Output()
    if cell:
        table = Table(box=None, show_header=False)
        table.add_row(made(HOSTILE))
        output.console.print(table, soft_wrap=True)
    else:
        output.console.print(made(HOSTILE), soft_wrap=True)
    assert "".join(capsys.readouterr().out.split()) == "".join(SHOWN.split())


def test_an_operator_reads_what_a_tenant_wrote_as_text(tmp_path, monkeypatch):
    monkeypatch.setenv("LAHAR_LOG", f"sqlite:{tmp_path}/l.db")
    job = tmp_path / "job.yaml"
    container = {"name": "c", "image": "i"}
    task = {"name": "a", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    job.write_text(
        json.dumps(
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "metadata": {"name": "w"},
                "spec": {"tasks": [task], "minAvailable": 1},
            }
        )
    )
    run = CliRunner()
    assert run.invoke(app, ["apply", str(job)]).exit_code == 0
    assert run.invoke(app, ["job", "command", "default/w", "AbortJob", "--reason", HOSTILE]).exit_code == 0
    for command in (
        ["why", "default/w"],
        ["history", "default/w"],
        ["history", "default/w", "--json"],
        ["job", "show", "default/w"],
    ):
        answer = run.invoke(app, command)
        assert answer.exit_code == 0, command
        assert not any(map(is_control, answer.output.replace("\n", ""))), command
    assert SHOWN in run.invoke(app, ["history", "default/w"]).output
