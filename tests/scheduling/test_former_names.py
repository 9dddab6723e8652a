"""Plugins and programs that use a former name work for one version, and are warned with the present name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from warnings import catch_warnings, simplefilter

import pytest
from deployment import Deployment, task, vcjob

import lahar
from engine import scheduling
from engine.runtime.scheduler_config import load_configuration, load_plugins
from engine.scheduling.stage import SchedulingStage

EXAMPLE = Path(__file__).parents[2] / "examples" / "scheduling-plugin"
FORMER = scheduling.FORMER_MODULES


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Former modules and the plugin are imported anew by each test."""
    yield
    for name in {*FORMER, "cheapest"} & sys.modules.keys():
        del sys.modules[name]


def installed(folder: Path, source: str) -> None:
    (folder / "cheapest.py").write_text(source)
    about = folder / "lahar_cheapest-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lahar-cheapest\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[lahar.scheduling.plugins]\ncheapest = cheapest:Cheapest\n")


def test_a_plugin_with_former_names_places_pods_and_is_warned(tmp_path, monkeypatch):
    source = (EXAMPLE / "cheapest.py").read_text()
    for present, former in (("cluster.entities", "model.entities"), ("plugin_results", "answers")):
        source = source.replace(f"engine.scheduling.{present} ", f"engine.scheduling.{former} ")
    source = source.replace(
        "        del pod_class\n", "        del pod_class\n        assert self.session.admitted is self.session.inqueue\n"
    )
    installed(tmp_path, source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cheapest", raising=False)
    configuration = load_configuration(EXAMPLE / "scheduler.yaml")
    with catch_warnings(record=True) as warned:
        simplefilter("always")
        plugins = load_plugins(configuration)
        deployment = Deployment(stage=lambda: SchedulingStage(configuration, plugins))
        for name, price in (("a", "9"), ("b", "2")):
            deployment.node(name, cpu=4, labels={"example.com/price": price})
        deployment.submit("j1", vcjob("train", task("w", 3)))
        deployment.settle()
        deployment.wait(3)
    assert set(deployment.places("j1").values()) == {"b"}
    assert {str(one.message) for one in warned} == {
        "engine.scheduling.model.entities is now engine.scheduling.cluster.entities",
        "engine.scheduling.answers is now engine.scheduling.plugin_results",
        "Session.admitted is now Session.inqueue",
    }
    assert {Path(one.filename).name for one in warned} == {"cheapest.py"}


@pytest.mark.parametrize("former", sorted(FORMER.keys() - {"engine.scheduling.model"}))
def test_a_former_module_holds_what_the_present_one_does(former):
    with pytest.warns(DeprecationWarning, match=f"{former} is now {FORMER[former]}"):
        module = import_module(former)
    present = import_module(FORMER[former])
    assert all(getattr(module, name) is value for name, value in vars(present).items() if not name.startswith("__"))


def test_former_names_in_a_module_are_the_present_classes():
    with pytest.warns(DeprecationWarning, match="Kind is EquivalenceClass, Lines is PendingQueue"):
        lines = import_module("engine.scheduling.lines")
    assert lines.Lines is import_module("engine.scheduling.pending.queue").PendingQueue


def test_former_names_of_the_library_are_the_present_classes():
    with pytest.warns(DeprecationWarning, match="lahar.QueueStanding is now lahar.QueueStatus"):
        assert getattr(lahar, "QueueStanding") is lahar.QueueStatus  # noqa: B009 - type checkers do not know it
    with pytest.raises(AttributeError, match="lahar has no attribute 'Nothing'"):
        getattr(lahar, "Nothing")  # noqa: B009


def test_a_module_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        import_module("engine.scheduling.model.nothing")
