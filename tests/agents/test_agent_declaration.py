"""Declaring agents: what they select, and what is refused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from job_history import History, opened

from engine.events import Event, UnknownTypeError
from engine.events.actions import TimerFired
from engine.events.attempts import AttemptEnded, AttemptStarted
from engine.events.inputs import PodObserved
from engine.events.jobs import JobOpened, JobPhaseChanged, JobRevised, TaskPhaseChanged
from engine.events.outcomes import DeadLettered
from streams.agents import Agent, AgentError, Agents, agent, dead_letters, job_events


async def told(event: Event) -> None:
    """An agent's function."""


COMPLETED = JobPhaseChanged("Completed", "Completing", reason="AllSucceeded")
FAILED = AttemptEnded("worker", 0, 1, phase="Failed", reason="OomKilled", exit_code=137)
TASK_RUNS = TaskPhaseChanged("worker", "Running", "Pending")
STARTED = AttemptStarted("worker", 0, 1)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, [opened(), COMPLETED, FAILED, TASK_RUNS, STARTED, TimerFired("t"), JobRevised()]),
        ({"level": "job"}, [opened(), COMPLETED]),
        ({"level": "job", "to": "Completed"}, [COMPLETED]),
        ({"from_": ["Completing", "Pending"]}, [COMPLETED, TASK_RUNS]),
        ({"to": "Running"}, [TASK_RUNS]),
        ({"level": ["task", "replica"], "task": "worker"}, [FAILED, TASK_RUNS, STARTED]),
        ({"reason": "OomKilled"}, [FAILED]),
        ({"types": JobRevised}, [JobRevised()]),
        ({"types": ["lahar.timer.fired.v1", JobOpened]}, [opened(), TimerFired("t")]),
        ({"types": JobPhaseChanged, "to": "Failed"}, []),
        ({"to": "*"}, [opened(), COMPLETED, FAILED, TASK_RUNS, STARTED]),
    ],
)
def test_an_agent_wants_what_it_asks_for(asked: dict[str, Any], wanted: list[Any]) -> None:
    declared = agent(job_events, **asked)(told)
    given = [opened(), COMPLETED, FAILED, TASK_RUNS, STARTED, TimerFired("t"), JobRevised()]
    assert [data for data in given if declared.wants(History().received(data))] == wanted


def test_an_unknown_type_is_reported_as_unknown_whatever_is_requested() -> None:
    declared = agent(job_events, level="job", to="Completed")(told)
    received = History().received(COMPLETED)
    received.message = received.message._replace(type="lahar.job.frobnicated.v9")
    with pytest.raises(UnknownTypeError):
        declared.wants(received)


@pytest.mark.parametrize("asked", [{}, {"types": DeadLettered}])
def test_an_agent_can_be_told_of_dead_letters(asked: dict[str, Any]) -> None:
    letter = DeadLettered("no JSON", "pods", 0, 7, "job-1", "Pw==")
    assert agent(dead_letters, **asked)(told).wants(History("lifecycle/0", "dead-letters").received(letter))


@pytest.mark.parametrize("asked", [{"types": JobOpened}, {"level": "job", "to": "Completed"}, {"task": "worker"}])
def test_a_name_of_another_topic_selects_no_dead_letters(asked: dict[str, Any]) -> None:
    with pytest.raises(AgentError, match="on dead-letters"):
        agent(dead_letters, **asked)(told)


def test_calling_an_agent_calls_its_function() -> None:
    seen: list[Event] = []

    @agent(job_events)
    async def watch(event: Event) -> None:
        seen.append(event)

    event = History().event(COMPLETED)
    asyncio.run(watch(event))
    assert seen == [event]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"level": "pod"}, "level: 'pod' is not one of"),
        ({"level": "job", "to": "Succeeded"}, "no job has a phase 'Succeeded'"),
        ({"types": "lahar.job.closed.v1"}, "there is no event type 'lahar.job.closed.v1'"),
        ({"types": PodObserved}, "stands on pods, not on job-events"),
        ({"name": "two words"}, "give it a `name`"),
        ({"time_limit": 0}, "time_limit must be more than 0 seconds"),
    ],
)
def test_what_cannot_be_selected_is_an_error_that_names_the_function(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(AgentError, match=r"test_agent_declaration:told") as caught:
        agent(job_events, **asked)(told)
    assert said in str(caught.value)


def test_a_function_that_would_block_everything_is_refused() -> None:
    def blocks(event: Event) -> None:
        """Not asynchronous."""

    async def takes_nothing() -> None:
        """Cannot be called."""

    with pytest.raises(AgentError, match="is not asynchronous"):
        agent(job_events)(blocks)
    with pytest.raises(AgentError, match="one argument"):
        agent(job_events)(takes_nothing)


def test_agents_of_one_process_have_names_and_are_told_apart() -> None:
    one = agent(job_events)(told)
    with pytest.raises(AgentError, match="two have the name 'told'"):
        Agents("a", [one, one])
    with pytest.raises(AgentError, match="there are none"):
        Agents("a", [])
    with pytest.raises(AgentError, match="give them a name"):
        Agents("two words", [one])
    assert isinstance(one, Agent)


def test_faust_is_loaded_only_by_who_runs_agents() -> None:
    script = "import sys, streams, streams.log, streams.agents; sys.exit('faust' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_without_faust_the_command_names_the_extra_to_install() -> None:
    script = (
        "import sys; sys.modules['faust'] = None\n"
        "from engine.cli.main import main; sys.argv = ['lahar', '--log', 'kafka://127.0.0.1:1', 'agents', 'run', 'm']; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.strip().count("\n") == 0
    assert "lahar[agents]" in done.stderr
