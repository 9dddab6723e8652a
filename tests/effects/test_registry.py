"""Declaring callbacks and finding them by the names of modules and through entry points."""

from __future__ import annotations

import re
import sys
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from engine.effects import registry
from engine.effects.errors import CallbackError, CallbackModuleError, DuplicateCallbackError, RetryLater, UnknownCallbackError
from engine.effects.registry import Callback, Registry, callback, load
from engine.events.times import SECOND
from statemachines.callbacks import Selector

DECLARED = """
from engine.effects import Notice, callback


@callback(level="job", to=["Completed", "Failed"], labels={"team": "ml"})
def ring(notice: Notice) -> None:
    print(notice)


@callback(name="slack.worker-failed", level="replica", to="Failed", task="worker", time_limit=2)
def tell(notice):
    pass


def helper():
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch):
    """What other packages of this environment offer plays no part."""
    found: list[EntryPoint] = []
    monkeypatch.setattr(registry, "installed_entry_points", lambda group: [entry for entry in found if entry.group == group])
    return found


def test_the_callbacks_of_a_module_are_found(folder):
    (folder / "platform_bells.py").write_text(DECLARED)
    found = load(["platform_bells"])
    assert [(one.name, one.origin, one.time_limit) for one in found] == [
        ("ring", "platform_bells:ring", 30 * SECOND),
        ("slack.worker-failed", "platform_bells:tell", 2 * SECOND),
    ]
    assert found.get("ring").selector == Selector(
        levels=frozenset({"job"}), phases=frozenset({"Completed", "Failed"}), labels={"team": "ml"}
    )
    assert found.get("slack.worker-failed").selector.tasks == {"worker"}


def test_entry_points_name_a_callback_or_a_module(folder, installed):
    (folder / "offered.py").write_text(DECLARED)
    installed.append(EntryPoint("one", "offered:ring", registry.ENTRY_POINTS))
    installed.append(EntryPoint("elsewhere", "offered:nothing", "another.group"))
    assert [one.name for one in load()] == ["ring"]
    installed.append(EntryPoint("all", "offered", registry.ENTRY_POINTS))
    assert {one.name for one in load(["offered"])} == {"ring", "slack.worker-failed"}
    assert len(load([], entry_points=False)) == 0


def test_a_name_is_given_once_and_the_error_names_both_places(folder):
    (folder / "left.py").write_text(DECLARED)
    (folder / "right.py").write_text(DECLARED)
    with pytest.raises(DuplicateCallbackError, match=r"'ring' is declared by left:ring and by right:ring"):
        load(["left", "right"])


def test_the_same_callback_found_twice_is_one(folder):
    (folder / "left.py").write_text(DECLARED)
    (folder / "again.py").write_text("from left import ring\n")
    assert len(load(["left", "again", "left"])) == 2


@pytest.mark.parametrize("name", ["./bells.py", "/etc/bells", "bells.py/", "", "a..b", "a b", "..bells", "1bells"])
def test_a_path_is_no_module(name):
    with pytest.raises(CallbackModuleError, match="is not a module"):
        load([name])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import no_such_thing_at_all", "module bells cannot be imported: ModuleNotFoundError"),
        ("1 / 0", "ZeroDivisionError"),
        ("x = 1", "declares no callback"),
        ("from engine.effects import callback\n@callback(to='Done')\ndef f(notice): pass", r"callback 'f' \(bells:f\): to: no job"),
    ],
)
def test_a_module_that_cannot_be_used_is_named(folder, text, error):
    (folder / "bells.py").write_text(text)
    with pytest.raises(CallbackError, match=error):
        load(["bells"])


def test_an_entry_point_that_is_no_callback_is_named(installed):
    installed.append(EntryPoint("sum", "builtins:sum", registry.ENTRY_POINTS))
    with pytest.raises(CallbackModuleError, match="entry point sum = builtins:sum declares no callback"):
        load()


async def asynchronous(notice):
    """Not to be called in a thread."""


def generator(notice):
    yield notice


def nothing():
    """Takes no notice."""


def two(notice, more):
    """Takes more than a notice."""


@pytest.mark.parametrize(
    ("function", "given", "error"),
    [
        (asynchronous, {}, "write a plain function"),
        (generator, {}, "write a plain function"),
        (nothing, {}, "cannot be called with one argument"),
        (two, {}, "cannot be called with one argument"),
        (lambda notice: None, {}, "give it a `name`"),
        (partial(two, more=1), {}, "give it a `name`"),
        (print, {"name": "a/b"}, "give it a `name`"),
        (print, {"level": "pod"}, "level: 'pod' is not one of"),
        (print, {"labels": {"a": 1}}, "labels must be a dict"),
        (print, {"to": [1]}, "callback: to must be a text or a list of texts or None, not 'list' of 'int'"),
        (print, {"time_limit": "3s"}, "callback: time_limit must be a number, not 'str'"),
        (print, {"labels": "team"}, "callback: labels must be a dict of texts to texts or None, not 'str'"),
        (print, {"name": 3}, "callback: name must be a text or None, not 'int'"),
        (
            print,
            {"tsk": "worker"},
            "callback has no argument 'tsk'; it has level, from_, to, reason, task, labels, name, time_limit; did",
        ),
        (print, {"tsk": "worker"}, "; did you mean task?"),
        (print, {"time_limit": 0}, "time_limit must be more than 0"),
        (print, {"time_limit": float("inf")}, "time_limit must be more than 0"),
    ],
)
def test_what_cannot_be_a_callback_is_refused_where_it_is_declared(function, given, error):
    with pytest.raises(CallbackError, match=re.escape(error)):
        callback(**given)(function)


def test_a_declaration_without_parentheses_is_named_with_its_line(folder):
    (folder / "bare_bells.py").write_text("from engine.effects import callback\n\n\n@callback\ndef ring(notice):\n    pass\n")
    with pytest.raises(CallbackError, match=r"^bare_bells, line 4: callback takes named arguments only: write @callback\(\)"):
        load(["bare_bells"])


def test_any_callable_of_one_argument_will_do():
    class Bell:
        def __call__(self, notice):
            return notice

    assert callback(name="bell")(Bell()).origin.endswith("Bell")
    assert callback(name="two")(partial(two, more=1)).origin == "functools:partial"
    assert callback()(print).name == "print"
    assert callback(name="int")(int).name == "int"


def test_a_declared_function_can_still_be_called():
    @callback(level="task")
    def double(notice):
        return notice * 2

    assert isinstance(double, Callback)
    assert double(21) == 42


def test_who_is_not_registered_is_told_who_is():
    bells = Registry([callback(name="ring")(print)])
    with pytest.raises(UnknownCallbackError, match="no callback 'rang'; registered: ring"):
        bells.get("rang")
    with pytest.raises(UnknownCallbackError, match=r"lahar\.toml"):
        Registry().get("rang")


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_delay_is_a_time(seconds):
    with pytest.raises(ValueError, match="0 seconds or more"):
        RetryLater(seconds)
