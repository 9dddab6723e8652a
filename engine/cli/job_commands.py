"""`lahar job …`: submit, command, raise, unpark."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from pydantic_core import from_json

from engine.application.files import read_manifests
from engine.application.job_inputs import command_message, submission
from engine.application.live_names import must_be_free
from engine.application.places import Place
from engine.application.questions import Questions, meant
from engine.cli.app import JsonOption, LogOption, output_of, settings_of
from engine.cli.arguments import By, ById, JobArgument, NoProcessOption, ReasonOption, RecordedOption, recorded_at
from engine.cli.input_outcomes import finish, new_feed
from engine.cli.jobs import jobs
from engine.events.inputs import CommandIssued, CustomEventRaised
from engine.history.reading import cluster_of
from engine.kubernetes.reading.identity import job_name
from lahar import Lahar
from statemachines.names import must_be_known
from statemachines.vocabulary import USER_ACTIONS


@jobs.command("submit", examples=["lahar job submit train.yaml", "lahar job submit train.yaml --id nightly-2026-03-01"])
def submit(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Volcano or batch/v1 Job, YAML, JSON or Markdown; - for stdin.")],
    strict: Annotated[bool, typer.Option("--strict", help="Warnings are errors.")] = False,
    by_id: ById = None,
    same_name: Annotated[bool, typer.Option("--allow-same-name", help="Submit another job under the name of a live one.")] = False,
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Submit a job to manage.

    Every call is a new submission unless --id repeats one. Without an id the name of a live job is refused (AlreadyExists).
    `lahar apply` updates a known job.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    command = by_id or str(uuid4())
    recorded = recorded_at(at)
    manifests = read_manifests(file)
    with Lahar.opened(settings, create=True, readonly=False) as target:
        feed = new_feed(target, output, process=not no_process)
        feed.play_from(recorded)
        if by_id is None and not same_name:
            feed.process()  # waiting submissions may take a name
            with closing(Questions(settings, target.log)) as questions:
                must_be_free(questions, settings.cluster, ((Place(str(file), one), one.content) for one in manifests))
        for number, document in enumerate(manifests):
            manifest = document.content
            identity = command if len(manifests) == 1 else f"{command}/{number}"
            message = submission(settings.cluster, manifest, identity, recorded, strict=strict)
            feed.append("jobs", [message])
            feed.expect(message, "/".join(job_name(manifest)[:2]), Place(str(file), document), chosen=by_id is not None)
        finish(feed, output)


@jobs.command(
    "command",
    examples=[
        "lahar job command default/train AbortJob --by ann --reason 'wrong data'",
        "lahar job command default/train RestartTask --task worker",
        "lahar job command default/train RestartPod --task worker --index 2",
    ],
)
def command(
    context: typer.Context,
    job: JobArgument,
    action: Annotated[str, typer.Argument(metavar="ACTION", help="One of " + ", ".join(sorted(USER_ACTIONS)) + ".")],
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="Task that RestartTask, RestartPod and RestartPartition are about.")
    ] = None,
    index: Annotated[int | None, typer.Option(metavar="N", help="Replica that RestartPod is about.")] = None,
    partition: Annotated[int | None, typer.Option(metavar="N", help="Partition that RestartPartition is about.")] = None,
    reason: ReasonOption = "",
    by: By = "",
    by_id: ById = None,
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Command an action on a job: abort, restart, resume, complete, terminate.

    An action on the whole job takes no --task, --index or --partition.
    """
    must_be_known("action", [action], USER_ACTIONS)
    data = CommandIssued(action, by, reason, task, index, partition)  # type: ignore[arg-type]  # one of USER_ACTIONS
    issue(context, log, job, data, by_id, at, as_json=as_json, process=not no_process)


@jobs.command("unpark")
def unpark(
    context: typer.Context,
    job: JobArgument,
    by: By = "",
    by_id: ById = None,
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume a parked job: its inputs are decided again, in order."""
    issue(context, log, job, CommandIssued("Unpark", by), by_id, at, as_json=as_json, process=not no_process)


@jobs.command("raise", examples=["""lahar job raise default/train Checkpointed --data '{"step": 1200}'"""])
def raise_event(
    context: typer.Context,
    job: JobArgument,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="An event that the job declares.")],
    data: Annotated[str, typer.Option(metavar="JSON", help="Data of the event, a JSON object.")] = "{}",
    task: Annotated[str | None, typer.Option(metavar="NAME", help="Task whose policies are asked first.")] = None,
    by: By = "",
    by_id: ById = None,
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Raise a custom event of a job from outside."""
    content = decode_object(data)
    issue(context, log, job, CustomEventRaised(event, content, task, by), by_id, at, as_json=as_json, process=not no_process)


def decode_object(text: str) -> dict[str, object]:
    """Parse a JSON object given on the command line.

    Raises:
        ValueError: it is not a JSON object.
    """
    try:
        content = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(f"--data is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(  # noqa: TRY004 - the user's input, not a type
            '--data is not a JSON object: write {"name": value}'
        )
    return content


def issue(
    context: typer.Context,
    log: str | None,
    job: str,
    data: CommandIssued | CustomEventRaised,
    by_id: str | None,
    at: str | None,
    *,
    as_json: bool,
    process: bool,
) -> None:
    """Append a command or a custom event of a job, and show what became of it."""
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    recorded = recorded_at(at)
    with Lahar.opened(settings, readonly=False) as target:
        ident = meant(settings, target.log, job)
        message = command_message(cluster_of(target.log, ident), ident, data, by_id or str(uuid4()), recorded)
        feed = new_feed(target, output, process=process)
        feed.play_from(recorded)
        feed.append("jobs", [message])
        feed.expect(message, job, chosen=by_id is not None)
        finish(feed, output)
