"""`lahar preemptions …`: notices of preemption, and the answers to them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from engine.cli.app import JsonOption, LogOption, Panel, group, output_of, settings_of
from engine.cli.arguments import By, ById, JobArgument, NoProcessOption, ReasonOption, RecordedOption
from engine.cli.columns import Column, show_list
from engine.cli.job_commands import issue
from engine.cli.render import whole_table
from engine.cli.standings import NONE
from engine.events.inputs import CommandIssued
from engine.formatting import moment, stamp
from engine.history.preemptions import told
from lahar import Lahar, NoticeView

preemptions = group("preemptions", Panel.ASK, "Notices of preemption: who is to be stopped for whom and when; answer them.")

NoticeArgument = Annotated[str, typer.Argument(metavar="NOTICE", help="The notice, CLUSTER/NUMBER.")]


@preemptions.command("list", examples=["lahar preemptions list", "lahar preemptions list --all --json"])
def list_notices(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Those that were executed or withdrawn, too.")] = False,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this queue.")] = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the open notices, the oldest first."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    with Lahar.opened(settings) as opened:
        asked = opened.preemptions
        found = asked.notices(ended=everything, queue=queue)
        names = asked.names(found)
    if output.as_json:
        for notice in found:
            output.record(notice.document(names))
        return
    columns: list[Column[NoticeView]] = [
        Column("NOTICE", lambda notice: notice.id),
        Column("QUEUE", lambda notice: notice.queue, "name"),
        Column("STATE", _state),
        Column("DEADLINE", lambda notice: stamp(notice.deadline)),
        Column("FOR", lambda notice: names.get(notice.preemptor, notice.preemptor), "name"),
        Column(
            "VICTIMS",
            lambda notice: ", ".join(f"{names.get(job, job)} ({state})" for job, state in notice.victims.items()),
            "name",
        ),
    ]
    show_list(output, found, columns)


def _state(notice: NoticeView) -> str:
    return notice.state if notice.change is None else f"{notice.state} ({notice.change})"


@preemptions.command("show", examples=["lahar preemptions show default/3"])
def show_notice(context: typer.Context, notice: NoticeArgument, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Show a notice: its jobs, and everything that became of it, in order."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    with Lahar.opened(settings) as opened:
        asked = opened.preemptions
        found = asked.notice(notice)
        names = asked.names([found])
    if output.as_json:
        output.record(found.document(names))
        return
    facts = f"{_state(found)}, queue {found.queue}, deadline {moment(found.deadline)}, place {found.reservation or NONE}"
    output.console.print(Text.assemble((found.id, "bold"), f"  {facts}"), soft_wrap=True)
    output.console.print(f"because: {found.reason}", soft_wrap=True)
    rows = [(stamp(event.time), told(event, names), event.causationid[:12]) for event in found.records]
    output.console.print("", whole_table(output, ("AT", "WHAT", "CAUSED BY"), rows, {"WHAT"}), soft_wrap=True)


@preemptions.command(
    "ack", examples=["lahar preemptions ack default/train --notice default/3 --by ann --reason 'checkpoint 1200 is written'"]
)
def acknowledge(
    context: typer.Context,
    job: JobArgument,
    notice: Annotated[
        str, typer.Option(metavar="NOTICE", help="The notice that is acknowledged; refused if the job is part of another by then.")
    ] = "",
    reason: ReasonOption = "",
    by: By = "",
    by_id: ById = None,
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a victim be stopped before the deadline: its work is saved."""
    data = CommandIssued("AcknowledgeNotice", by, reason, notice=notice)
    issue(context, log, job, data, by_id, at, as_json=as_json, process=not no_process)


@preemptions.command("withdraw", examples=["lahar preemptions withdraw default/3 --by ann --reason 'it can wait'"])
def withdraw(
    context: typer.Context,
    notice: NoticeArgument,
    reason: ReasonOption = "",
    by: By = "",
    by_id: ById = None,
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Withdraw a notice: its victims run on, and its preemptor is given no other."""
    with Lahar.opened(settings_of(context, log)) as opened:
        found = opened.preemptions.notice(notice)
    if found.state != "Open":  # the command is about the preemptor, which another notice may have by now
        raise ValueError(f"notice {found.id} has ended: {found.state} ({found.change})")
    data = CommandIssued("WithdrawNotice", by, reason, notice=found.id)
    issue(context, log, found.preemptor, data, by_id, at, as_json=as_json, process=not no_process)
