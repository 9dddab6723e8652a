"""Plugins of third parties: found by their entry points, refused with one clear line, and held apart where they fail."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deployment import Deployment, task, vcjob

from engine.events.scheduling import JobExplained, RoundEnded
from engine.runtime.scheduler_config import load_configuration, load_plugins
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.errors import ConfigurationError
from engine.scheduling.session import Plugin
from engine.scheduling.stage import SchedulingStage

EXAMPLE = Path(__file__).parents[2] / "examples" / "scheduling-plugin"


def installed(folder: Path, entry: str) -> None:
    """Install the example's module as a package manager does."""
    shutil.copy(EXAMPLE / "cheapest.py", folder)
    about = folder / "lahar_cheapest-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lahar-cheapest\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[lahar.scheduling.plugins]\n{entry}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_example_places_pods_on_cheap_nodes(site):
    installed(site, "cheapest = cheapest:Cheapest")
    configuration = load_configuration(EXAMPLE / "scheduler.yaml")
    deployment = Deployment(stage=lambda: SchedulingStage(configuration, load_plugins(configuration)))
    for name, price in (("a", "9"), ("b", "2"), ("c", None)):
        deployment.node(name, cpu=4, labels={} if price is None else {"example.com/price": price})
    deployment.submit("j1", vcjob("train", task("w", 3)))
    deployment.settle()
    deployment.wait(3)
    assert set(deployment.places("j1").values()) == {"b"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("cheapest = cheapest:Missing", "cheapest:Missing cannot be loaded: AttributeError"),
        ("cheapest = cheapest:Rows", "is no Plugin with that NAME"),
        ("other = cheapest:Cheapest", "unknown plugin 'cheapest'; known are .*tdm"),
    ],
)
def test_what_cannot_be_used_is_named(site, entry, said):
    installed(site, entry)
    configuration = load_configuration(EXAMPLE / "scheduler.yaml")
    with pytest.raises(ConfigurationError, match=said):
        SchedulingStage(configuration, load_plugins(configuration))


def test_an_argument_that_a_plugin_has_not_is_named():
    option = PluginOption("binpack")
    option.arguments["binpack.wieght"] = 3
    with pytest.raises(ConfigurationError, match=r"plugin binpack: unknown argument 'binpack.wieght'; known are .*binpack.weight"):
        SchedulingStage(Configuration(("allocate",), ((option,),)))


class Failing(Plugin):
    """Fails on some jobs."""

    NAME = "failing"

    def job_order(self, job):
        if job.annotations.get("volcano.sh/bad"):
            raise ZeroDivisionError("by its annotation")
        return 0.0

    def predicate(self, pod_class):
        if pod_class.labels.get("bad"):
            raise LookupError("no such class")
        return []


class Broken(Plugin):
    """Fails whenever a session is opened."""

    NAME = "broken"

    def open(self, session):
        raise RuntimeError("not today")


class Vip(Plugin):
    """Lets only jobs with a label take places from others, or have any."""

    NAME = "vip"

    def preemptable(self, task, candidates):
        return candidates if task.job.labels.get("vip") else []

    reclaimable = preemptable

    def allocatable(self, queue, task):
        del queue
        return task.job.labels.get("vip") != "no"


def deployed(plugin: type[Plugin]) -> Deployment:
    tiers = ((PluginOption("gang"), PluginOption(plugin.NAME)), (PluginOption("predicates"), PluginOption("proportion")))
    configuration = Configuration(("enqueue", "allocate"), tiers)
    deployment = Deployment(stage=lambda: SchedulingStage(configuration, {plugin.NAME: plugin}))
    deployment.node("n1")
    return deployment


def test_a_plugin_that_fails_on_a_job_holds_up_that_job_alone():
    deployment = deployed(Failing)
    deployment.submit("good", vcjob("good", task("w", 2)))
    annotated = vcjob("annotated", task("w", 1))
    annotated["metadata"]["annotations"] = {"volcano.sh/bad": "1"}
    deployment.submit("annotated", annotated)
    deployment.submit("labelled", vcjob("labelled", task("w", 1, labels={"bad": "1"})))
    deployment.settle()
    deployment.wait(4)
    assert set(deployment.places("good").values()) == {"n1"}
    assert set(deployment.places("annotated").values()) == set()
    assert set(deployment.places("labelled").values()) == {None}
    said = {event.subject: event.data for event in deployment.events(JobExplained)}
    assert (said["annotated"].reason, said["annotated"].plugin) == ("PluginFailed", "failing")
    assert said["annotated"].message == "plugin failing failed in job_order: ZeroDivisionError: by its annotation"
    assert said["labelled"].message == "plugin failing failed in predicate: LookupError: no such class"


def test_a_plugin_that_fails_on_everything_ends_the_round_and_says_so(monkeypatch):
    monkeypatch.setattr(Broken, "open", Plugin.open)
    deployment = deployed(Broken)
    monkeypatch.undo()
    deployment.submit("j1", vcjob("train", task("w", 1)))
    deployment.settle()
    deployment.wait(3)
    assert {event.data.error for event in deployment.events(RoundEnded)} == {
        "plugin broken failed in open: RuntimeError: not today"
    }
    monkeypatch.setattr(Broken, "open", Plugin.open)
    deployment.wait(61)
    assert set(deployment.places("j1").values()) == {"n1"}


@pytest.mark.parametrize(("action", "queue"), [("preempt", "q1"), ("reclaim", "q2")])
def test_a_job_that_a_plugin_tells_apart_is_searched_for_despite_its_shape(action, queue):
    """A job of its shape was searched for before and found nothing."""
    tiers = (("priority", "conformance", "vip"), ("predicates", "capacity", "nodeorder", "vip"))
    configuration = Configuration(
        ("enqueue", "allocate", action), tuple(tuple(PluginOption(name) for name in tier) for tier in tiers)
    )
    deployment = Deployment(stage=lambda: SchedulingStage(configuration, {"vip": Vip}))
    deployment.node("n1", cpu=4, labels={"place": "here"})
    deployment.node("n2", cpu=16)
    deployment.apply("PriorityClass", "high", value=100)
    deployment.apply("Queue", "q1", deserved={"cpu": "20" if action == "preempt" else "2"})
    deployment.apply("Queue", "q2", deserved={"cpu": "8"})
    for name, where in (("low", "q1"), ("plain", queue), ("vip", queue)):
        important = {} if name == "low" else {"priorityClassName": "high"}
        manifest = vcjob(name, task(cpu=4, nodeSelector={"place": "here"}), queue=where, **important)
        manifest["metadata"]["labels"] = {"vip": "yes"} if name == "vip" else {}
        deployment.submit(name, manifest)
        deployment.settle()
        deployment.wait(4 if name == "low" else 0)
    deployment.wait(20)
    assert deployment.running() == ["vip-w-0-1"]


def test_a_job_that_a_plugin_tells_apart_is_placed_despite_its_shape():
    """A job of its shape found no place before."""
    deployment = deployed(Vip)
    for name, vip in (("no", "no"), ("plain", "")):
        manifest = vcjob(name, task(replicas=2))
        manifest["metadata"]["labels"] = {"vip": vip} if vip else {}
        deployment.submit(name, manifest)
        deployment.settle()
    deployment.wait(4)
    assert deployment.running() == ["plain-w-0-1", "plain-w-1-1"]
