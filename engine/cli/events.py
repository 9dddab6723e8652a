"""`lahar events`: subscribe to job events, or to those of budgets, from the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.application.errors import LogError
from engine.application.questions import meant
from engine.cli.app import JsonOption, LogOption, Panel, app, output_of, settings_of
from engine.cli.arguments import JobOption, NamespaceOption, NodeOption, PhasesOption, ReasonsOption, in_order, moment, several
from engine.cli.ask import show_event
from engine.cli.output import Output
from engine.events import decode
from engine.events.envelope import to_cloudevent
from engine.history.event_filter import Followed, must_be_reasons
from engine.history.job_names import JobNames
from engine.history.subscribe import CaughtUp, Item, Start, Subscription, Wanted
from engine.history.token import is_token
from engine.runtime.opening import opened
from engine.signals import Signals
from lahar import Selection
from statemachines.vocabulary import Level


def start_of(text: str) -> Start:
    """Parse the start of a subscription: `beginning`, `now`, a time or a token.

    Raises:
        ValueError: it has neither the form of a time nor that of a token.
    """
    if text in {"beginning", "now"}:
        return Start("now" if text == "now" else "beginning")
    if is_token(text):
        return Start("token", token=text)
    try:
        return Start("time", time=moment(text))
    except ValueError as error:
        raise ValueError(f"not a subscription token, and {error}") from None


@app.command(
    rich_help_panel=Panel.ASK,
    examples=[
        "lahar events --from now --follow",
        "lahar events --from 2026-03-01T12:00:00Z --queue research --level job",
        "lahar events --type 'attempt.*' --json",
        "lahar events --since 'yesterday 14:05' --until 'yesterday 15:00' --tz Europe/Berlin",
        "lahar events --since 2h --namespace ml --reason OomKilled,NodeLost",
        "lahar events --from TOKEN --json",
        "lahar events --topic budgets --tenant research",
    ],
)
def events(
    context: typer.Context,
    start: Annotated[
        str,
        typer.Option("--from", metavar="beginning|now|TIME|TOKEN", help="Where to begin; a time selects by recordedtime."),
    ] = "beginning",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow new events after the existing ones.")] = False,
    job: JobOption = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Events recorded since then: 2h, 'yesterday 14:05'.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Events recorded up to then; not with --follow.")] = None,
    namespace: NamespaceOption = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this queue.")] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this tenant.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only jobs with this label; may be repeated.")
    ] = None,
    level: Annotated[Level | None, typer.Option(help="Only this level.")] = None,
    event_type: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only these event types: job.phase_changed; * for any characters."),
    ] = None,
    phase: PhasesOption = None,
    reason: ReasonsOption = None,
    node: NodeOption = None,
    topic: Annotated[
        Followed, typer.Option("--topic", help="budgets: crossed thresholds of budgets, by --tenant and --type.")
    ] = "job-events",
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show job events as they were committed, and follow them.

    Each line begins with its job (or tenant). With --json: CloudEvents. After the existing events comes a token: --from
    TOKEN continues there, without gap or repeat. --follow prints another at its end: on SIGTERM (code 0), Ctrl-C (130), or
    loss of the log (4).
    """
    output = output_of(context, as_json)
    labels: dict[str, str] = {}
    for text in label or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--label {text!r}: write NAME=VALUE")
        labels[name] = value
    if since is not None and start != "beginning":
        raise ValueError("give --from or --since, not both")
    if until is not None and follow:
        raise ValueError("give --until or --follow, not both")
    begun, end = in_order(since, until, "--since is later than --until")
    begin = start_of(start) if begun is None else Start("time", time=begun)
    if end is not None and begin.at == "time" and begin.time > end:
        raise ValueError(f"--from is later than --until ({start}, {until}): nothing lies between")
    settings = settings_of(context, log)
    with opened(settings) as source:
        wanted = Wanted(
            tenant,
            queue,
            None if job is None else meant(settings, source, job),
            labels,
            level,
            tuple(event_type or ()),
            namespace,
            Selection(node, several(reason), several(phase)),
        )
        must_be_reasons(source, wanted.shown.reasons)
        subscription = Subscription(source, begin, wanted, topic)
        names = JobNames(source) if topic == "job-events" else None
        if not follow:
            for item in subscription.stream(follow=False):
                if end is None or (not isinstance(item, CaughtUp) and item.message.recordedtime <= end):
                    _show(output, item, names)
            return
        with Signals() as signals:
            try:
                for item in subscription.stream(follow=True, stop=lambda: signals.stopped):
                    _show(output, item, names)
                    output.flush()
                    if signals.stopped:
                        break
            except LogError:
                _say_where(output, subscription)
                raise
        _say_where(output, subscription)
        if signals.interrupted:
            raise KeyboardInterrupt


def _show(output: Output, item: Item, names: JobNames | None) -> None:
    if not isinstance(item, CaughtUp):
        if output.as_json:
            output.line(to_cloudevent(item.message).decode())
        else:
            event = decode(item.message)
            show_event(output, event, event.subject if names is None else names.name_of(event))
    elif output.as_json:
        output.record({"caught_up": True, "token": item.token})
    else:
        output.notes.print(f"caught up; --from {item.token} continues from here", style="dim", soft_wrap=True)


def _say_where(output: Output, subscription: Subscription) -> None:
    """Print the token at the end of following."""
    if output.as_json:
        output.record({"stopped": True, "token": subscription.token})
    else:
        output.notes.print(f"stopped; --from {subscription.token} continues from here", style="dim", soft_wrap=True)
