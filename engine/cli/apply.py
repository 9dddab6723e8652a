"""`lahar apply`: jobs to manage, and what Lahar has to know of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, cast

import typer

from engine.cli.app import JsonOption, LogOption, Panel, app, output_of, settings_of
from engine.cli.arguments import NoProcessOption, RecordedOption, moment
from engine.cli.feeding import Feed
from engine.cli.known_jobs import KnownJobs
from engine.cli.output import Output
from engine.cli.submitting import manifest_digest, read_objects, submission, update
from engine.events import Data, Event, Message, decode, encode
from engine.events.ids import observation_id
from engine.events.inputs import NodeObserved, ObjectApplied
from engine.history.reading import cluster_facts
from engine.history.transfer import Exportable
from engine.kubernetes.edge import Ignored, Refused, Taken, to_inputs
from engine.kubernetes.manifests.manifest import read_manifest, replacement_faults
from engine.kubernetes.observation.cluster_facts import ClusterFacts
from engine.kubernetes.reading.documents import Document
from engine.kubernetes.reading.identity import job_name
from engine.lifecycle.managed import queues_of
from engine.log.producer_time import wall_clock as now
from engine.runtime.engine import opened
from engine.runtime.settings import Settings

__all__ = ["apply"]

_HINT: Final = (
    "what differs from the manifest that the job was given, such as labels, is not taken over while it runs; submit it under "
    "another name"
)
_KINDS: Final = ("Job", "Queue", "Node", "Tenant", "PriorityClass", "Grant")


class _Part(NamedTuple):
    """One object of a file."""

    place: str
    """`jobs.yaml: line 12`."""
    document: Document
    inputs: Taken | None
    """What follows from it; `None`: it is a job, and what follows depends on what the log knows."""


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
    """Give Lahar jobs to manage, and queues, nodes, tenants, priority classes and grants.

    Applying a file twice changes nothing. A job that is known by its name and has not finished is updated, also one that nobody has
    processed yet; one that was rejected is judged anew. An object of the cluster is as the file says from now on, whatever version
    it has kept. Nothing is applied unless all files can be read.
    """
    output = output_of(context, as_json)
    settings = settings_of(context, log)
    recorded = now() if at is None else moment(at)
    parts = [_part(settings, file, document, recorded) for file in files for document in read_objects(file)]
    for part in parts:
        for warning in () if part.inputs is None else part.inputs.warnings:
            if strict:
                raise ValueError(f"{part.place}: {warning}")
            output.warn(f"{part.place}: {warning}")
    with opened(settings, create=True, readonly=False) as target:
        feed = Feed(target, settings, output, process=not no_process)
        feed.play_from(recorded)
        objects = _apply_objects(feed, target, settings, output, parts)
        jobs = [part for part in parts if part.inputs is None]
        if jobs:
            feed.process()
            names = {job_name(part.document.content)[:2] for part in jobs}
            _apply_jobs(
                feed, KnownJobs(target, settings.cluster, queues_of(objects), names), settings, jobs, recorded, strict=strict
            )
        feed.finish()


def _part(settings: Settings, file: Path, document: Document, recorded: int) -> _Part:
    """Say what follows from an object.

    Raises:
        ValueError: it cannot be applied; the text says where it stands and why.
    """
    place = f"{file}: {document.place}"
    if document.kind == "Job":
        return _Part(place, document, None)
    if document.kind not in _KINDS:
        kind = document.kind or "an object without `kind`"
        raise ValueError(f"{place}: {kind} cannot be applied; Lahar takes {', '.join(_KINDS[:-1])} and {_KINDS[-1]}")
    outcome = to_inputs(document, settings.cluster, recorded)
    if isinstance(outcome, Refused):
        raise ValueError(f"{file}: {outcome.reason}")  # noqa: TRY004 - a bad file, not a bad type
    if isinstance(outcome, Ignored):
        raise ValueError(f"{place}: {outcome.reason}")  # noqa: TRY004 - as above
    return _Part(place, document, outcome)


def _apply_objects(feed: Feed, target: Exportable, settings: Settings, output: Output, parts: Iterable[_Part]) -> Collection[Data]:
    """Append what differs from what the log knows, and say so; returns what it knows then."""
    facts = ClusterFacts()
    for event in cluster_facts(target):
        if event.clusterid == settings.cluster:
            facts.absorb(event)
    for topic, messages, _ in (part.inputs for part in parts if part.inputs is not None):
        for message in messages:
            event, data = _as_given(message)
            kind, name = _named(data)
            before = facts.known((settings.cluster, kind, name))
            outcome = "created"
            if isinstance(before, NodeObserved | ObjectApplied):
                outcome = "unchanged" if replace(before, version=None, uid=None) == data else "changed"
            if outcome != "unchanged":
                feed.append(topic, [encode(event, message.key)])
                facts.absorb(event)
            if output.as_json:
                output.record({"kind": kind, "name": name, "outcome": outcome})
            else:
                output.line(f"{kind} {name}: {outcome}")
    return [*facts.nodes.values(), *facts.objects.values()]


def _as_given(message: Message) -> tuple[Event[Data], NodeObserved | ObjectApplied]:
    """Return an object as somebody gives it now: whatever version a file has kept, nothing is newer."""
    event = decode(message)
    data = cast("NodeObserved | ObjectApplied", event.data)
    given = replace(event, data=replace(data, version=None, uid=None))
    ident = observation_id(str(event.recordedtime), encode(given, message.key).data.decode(), deleted=False)
    return replace(given, id=ident), cast("NodeObserved | ObjectApplied", given.data)


def _named(data: Data) -> tuple[str, str]:
    """Return kind and name of a cluster fact."""
    match data:
        case ObjectApplied(kind, name):
            return kind, name
        case NodeObserved(name):
            return "Node", name
    raise TypeError(f"{data.TYPE} is no fact of a cluster object")


def _apply_jobs(feed: Feed, known: KnownJobs, settings: Settings, parts: Iterable[_Part], recorded: int, *, strict: bool) -> None:
    """Submit or update jobs; one that stands in the files twice is submitted and then updated.

    Raises:
        ValueError: an update changes what may not; none of them is appended then.
    """
    made: list[tuple[Message, str, str, str]] = []
    for place, document, _ in parts:
        manifest = document.content
        namespace, name, _ = job_name(manifest)
        job, hint = known.open(namespace, name), ""
        if job is None:
            message = _submission(known, settings, manifest, recorded, strict=strict)
        else:
            for warning in read_manifest(manifest).warnings:
                if strict:
                    raise ValueError(f"{place}: {warning}")
                feed.warn(f"{place}: {warning}")
            faults = replacement_faults(known.submitted(job), manifest)
            if faults:
                raise ValueError(f"{place}: {'; '.join(f'{fault.path}: {fault.message}' for fault in faults)}")
            if manifest_digest(manifest) != known.given(job):
                hint = _HINT
            message = update(settings, manifest, job, known.standing(job), recorded)
        known.take(message)
        made.append((message, f"{namespace}/{name}", place, hint))
    for message, label, place, hint in made:
        feed.append("jobs", [message])
        feed.expect(message, label, place, hint)


def _submission(known: KnownJobs, settings: Settings, manifest: dict[str, Any], recorded: int, *, strict: bool) -> Message:
    """Return the submission of a manifest, a new one if it was rejected before: what it lacked may be there now."""
    command = manifest_digest(manifest)
    first = submission(settings, manifest, command, strict=strict, recordedtime=recorded)
    rejections = known.rejections(first.key)
    if not rejections:
        return first
    return submission(settings, manifest, command, strict=strict, recordedtime=recorded, rejections=rejections)
