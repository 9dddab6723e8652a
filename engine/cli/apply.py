"""`lahar apply`: jobs to manage, and facts about the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.application.apply import all_parts, apply_parts
from engine.application.files import read_objects
from engine.cli.app import JsonOption, LogOption, Panel, app, output_of, settings_of
from engine.cli.arguments import NoProcessOption, RecordedOption, recorded_at
from engine.cli.input_outcomes import finish, new_feed
from lahar import Lahar


@app.command(
    rich_help_panel=Panel.PUT,
    examples=[
        "lahar apply queue.yaml train.yaml",
        "lahar apply --strict train.yaml",
        "kubectl get queues.scheduling.volcano.sh -o yaml | lahar apply -",
    ],
)
def apply(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="YAML, JSON or Markdown; - for standard input.")],
    strict: Annotated[bool, typer.Option("--strict", help="Warnings are errors.")] = False,
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply jobs to manage, and queues, nodes, tenants, priorities, grants and price books.

    Applying a file twice changes nothing. An unfinished job of the same name is updated, even if not processed yet; a
    rejected one is validated again. Cluster objects are replaced by the file's, whatever resourceVersion it carries. Nothing is
    applied unless all files are readable.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    recorded = recorded_at(at)
    given = ((str(file), document) for file in files for document in read_objects(file))
    parts = all_parts(settings.cluster, given, recorded, settings.accelerators)
    with Lahar.opened(settings, create=True, readonly=False) as target:
        feed = new_feed(target, output, process=not no_process)
        for applied in apply_parts(feed, target.log, settings.cluster, parts, recorded, strict=strict, warn=output.warn):
            if output.as_json:
                output.record(applied._asdict())
            else:
                output.line(f"{applied.kind} {applied.name}: {applied.outcome}")
        finish(feed, output)
