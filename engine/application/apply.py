"""Apply: jobs to manage and objects of the cluster; unchanged ones append nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from engine.application.errors import RequestError
from engine.application.feed import Feed
from engine.application.job_inputs import manifest_digest, submission, update
from engine.application.known_jobs import KnownJobs
from engine.application.places import Place
from engine.application.prices import PriceBooks, diff_books, unpriced_nodes, unpriced_times
from engine.billing.book import Book
from engine.events import Data, Event, Message, Topic, decode, encode
from engine.events.budgets import Budget, budget_of
from engine.events.ids import observation_id
from engine.events.inputs import NodeObserved, ObjectApplied
from engine.events.outcomes import Fault
from engine.history.reading import cluster_facts
from engine.kubernetes.edge import Ignored, Refused, Taken, to_inputs
from engine.kubernetes.manifests.cluster_objects import OBJECT_KINDS
from engine.kubernetes.manifests.manifest import read_manifest, replacement_faults
from engine.kubernetes.manifests.queue_rules import ROOT, tree_faults
from engine.kubernetes.manifests.volcano_defaults import DEFAULT_QUEUE
from engine.kubernetes.observation.cluster_facts import ClusterFacts, Known
from engine.kubernetes.reading.accelerators import BUILT_IN, Accelerators
from engine.kubernetes.reading.documents import Document
from engine.kubernetes.reading.identity import job_name
from engine.lifecycle.managed_jobs import queues_of
from engine.log.port import SearchableLog

_HINT: Final = "other differences from the job's manifest, such as labels, are ignored while it runs; submit it under another name"
_NAMED: Final = 10
"""Objects with faults that an error names."""
_KINDS: Final = ("Job", "Node", *OBJECT_KINDS)


class Part(NamedTuple):
    """One object to apply."""

    place: Place
    document: Document
    inputs: Taken | None
    """Its fact; `None` for a job, whose input depends on what the log knows."""


Outcome: TypeAlias = Literal["created", "changed", "unchanged"]


class AppliedObject(NamedTuple):
    """Outcome of applying an object of the cluster."""

    kind: str
    name: str
    outcome: Outcome
    """Of a PriceBook: against the one in force."""


def part_of(cluster: str, source: str, document: Document, recorded: int, accelerators: Accelerators = BUILT_IN) -> Part:
    """Return an object with its fact.

    Args:
        cluster: the cluster of the object.
        source: what it was read from, for messages; may be empty.
        document: the object.
        recorded: recorded time (microseconds).
        accelerators: how many GPUs a node has.

    Raises:
        ValueError: it cannot be applied; the text says where it is and why.
    """
    begin = f"{source}: " if source else ""
    place = Place(source, document)
    if document.kind == "Job":
        return Part(place, document, None)
    if document.kind not in _KINDS:
        kind = document.kind or "an object without `kind`"
        raise RequestError(f"{place}: {kind} cannot be applied; Lahar takes {', '.join(_KINDS[:-1])} and {_KINDS[-1]}")
    outcome = to_inputs(document, cluster, recorded, accelerators)
    if isinstance(outcome, Refused):
        raise RequestError(f"{begin}{outcome.reason}")
    if isinstance(outcome, Ignored):
        raise RequestError(f"{place}: {outcome.reason}")
    return Part(place, document, outcome)


def all_parts(
    cluster: str, given: Iterable[tuple[str, Document]], recorded: int, accelerators: Accelerators = BUILT_IN
) -> list[Part]:
    """Return the objects of files with their facts; arguments as of `part_of`.

    Raises:
        ValueError: some cannot be applied; the text names each of the first ones, where it is and why.
    """
    parts, faults = list[Part](), list[str]()
    for source, document in given:
        try:
            parts.append(part_of(cluster, source, document, recorded, accelerators))
        except ValueError as error:
            faults.append(str(error))
    if faults:
        more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise RequestError("; ".join(faults[:_NAMED]) + more)
    return parts


def parts_of(cluster: str, contents: Iterable[Mapping[str, Any]], recorded: int, accelerators: Accelerators) -> list[Part]:
    """Return objects of a program with their facts; a message calls the second one `object 2 (Queue research)`.

    Raises:
        ValueError: some cannot be applied; as of `all_parts`.
    """
    documents = (
        Document(0, f"object {number}{_called(content)}", dict(content)) for number, content in enumerate(contents, start=1)
    )
    return all_parts(cluster, (("", document) for document in documents), recorded, accelerators)


def _called(content: Mapping[str, Any]) -> str:
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    shown = " ".join(part for part in (content.get("kind"), name) if isinstance(part, str))
    return f" ({shown})" if shown else ""


def apply_parts(
    feed: Feed,
    log: SearchableLog,
    cluster: str,
    parts: Sequence[Part],
    recorded: int,
    *,
    strict: bool,
    warn: Callable[[str], object],
) -> list[AppliedObject]:
    """Append the differences from the log; `Feed.finish` returns the outcomes of the jobs.

    Args:
        feed: appends to the log.
        log: the same log, to compare with.
        cluster: the cluster of the objects and jobs.
        parts: in the order of application.
        recorded: recorded time (microseconds).
        strict: warnings are errors.
        warn: called with each warning.

    Returns:
        The outcomes of all objects but jobs.

    Raises:
        ValueError: with `strict`, there is a warning; an update changes an immutable part of a job; a queue does not fit among the
            others; or there are two price books. Nothing is appended then.
        LogError: the log failed.
    """
    for part in parts:
        for warning in () if part.inputs is None else part.inputs.warnings:
            _warn(part.place.of_warning(warning), warn, strict=strict)
    feed.play_from(recorded)
    jobs = [part for part in parts if part.inputs is None]
    if jobs:
        feed.process()  # waiting inputs may change the known jobs
    applied, changed, objects, odd = _judge_objects(log, cluster, parts)
    for warning in odd:
        _warn(warning, warn, strict=strict)
    judged: list[_JudgedJob] = []
    if jobs:
        names = {job_name(part.document.content)[:2] for part in jobs}
        known = KnownJobs(log, cluster, queues_of(objects), names)
        judged = _judge_jobs(known, cluster, jobs, recorded, strict=strict, warn=warn)
    # Every part is checked by now.
    for topic, message in changed:
        feed.append(topic, [message])
    for message, label, place, hint in judged:
        feed.append("jobs", [message])
        feed.expect(message, label, place, hint)
    return applied


def _warn(warning: str, warn: Callable[[str], object], *, strict: bool) -> None:
    if strict:
        raise RequestError(warning)
    warn(warning)


def _judge_objects(
    log: SearchableLog, cluster: str, parts: Iterable[Part]
) -> tuple[list[AppliedObject], list[tuple[Topic, Message]], Collection[Data], list[str]]:
    """Return the outcomes of objects other than jobs, the messages to append, the log's facts afterwards, and warnings."""
    facts, prices = ClusterFacts(), PriceBooks()
    for event in cluster_facts(log):
        prices.absorb(event)
        if event.clusterid == cluster:
            facts.absorb(event)
    applied: list[AppliedObject] = []
    changed: list[tuple[Topic, Message]] = []
    budgets: list[tuple[Place, Budget]] = []
    books: list[tuple[Place, Book, int]] = []
    odd: list[str] = []
    given: str | None = None
    for part in parts:
        for message in () if part.inputs is None else part.inputs.messages:
            event, data = _as_given(message)
            kind, name = _named(data)
            if kind == "PriceBook":
                if given not in {None, name}:
                    raise RequestError(f"{part.place}: a log has one price book; keep this one or PriceBook {given}")
                given = name
            outcome = _outcome(facts.known((cluster, kind, name)), data, prices.book)
            if outcome != "unchanged":
                changed.append(("cluster", encode(event, message.key)))
                facts.absorb(event)
                if isinstance(data, ObjectApplied) and kind == "PriceBook":
                    odd += prices.replace(event, data, part.place)
                    books.append((part.place, prices.book, event.recordedtime))
            applied.append(AppliedObject(kind, name, outcome))
            if isinstance(data, ObjectApplied) and kind == "Tenant" and (budget := budget_of(data.spec)) is not None:
                budgets.append((part.place, budget))
    queues: dict[str, dict[str, Any]] = {ROOT: {}, DEFAULT_QUEUE: {}} | {
        one.name: one.spec for one in facts.objects.values() if one.kind == "Queue"
    }
    for part in parts:
        if part.document.kind == "Queue":
            _must_fit(part.place, str(part.document.content["metadata"]["name"]), queues)
    currency = None if prices.book.book is None else prices.book.book.currency
    odd += [
        place.of_warning(f"spec.budget.currency: {budget.currency} is not that of the price book, {currency}: nothing is compared")
        for place, budget in budgets
        if currency not in {None, budget.currency}
    ]
    odd += [
        place.of_warning(f"{fault.path}: {fault.message}")
        for place, book, recorded in books
        for fault in (*unpriced_times(book, recorded), *unpriced_nodes(book, facts, recorded))
    ]
    return applied, changed, [*facts.nodes.values(), *facts.objects.values()], odd


def _must_fit(place: Place, name: str, queues: Mapping[str, Mapping[str, Any]]) -> None:
    """Check a queue among all that there will be.

    Raises:
        ValueError: it does not fit; the text has every fault.
    """
    faults = list(tree_faults(name, queues))
    if faults:
        raise _with_faults(place, faults)


def _with_faults(place: Place, faults: Sequence[Fault]) -> RequestError:
    """Return the error for faults of an object, which begins with the place of the first."""
    return RequestError(f"{place.at(faults[0].path)}: {'; '.join(f'{fault.path}: {fault.message}' for fault in faults)}")


def _outcome(known: Known | None, given: NodeObserved | ObjectApplied, book: Book) -> Outcome:
    """Return the outcome for an object as given: a price book is compared with the one in force, which may have another name."""
    if isinstance(given, ObjectApplied) and given.kind == "PriceBook":
        return "created" if book.book is None else "changed" if diff_books(book.spec, given.spec) else "unchanged"
    if not isinstance(known, NodeObserved | ObjectApplied):
        return "created"
    return "unchanged" if replace(known, version=None, uid=None) == given else "changed"


def _as_given(message: Message) -> tuple[Event[Data], NodeObserved | ObjectApplied]:
    """Return an object as given now: a version stored in the file must not make it stale."""
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
    raise TypeError(f"{data.TYPE} is not a fact of a cluster object")


_JudgedJob = tuple[Message, str, Place, str]
"""Message to append for a job, its name, its place, and a warning for when it changes nothing."""


def _judge_jobs(
    known: KnownJobs,
    cluster: str,
    parts: Iterable[Part],
    recorded: int,
    *,
    strict: bool,
    warn: Callable[[str], object],
) -> list[_JudgedJob]:
    """Return submissions and updates of jobs; a job that occurs twice is submitted, then updated.

    Raises:
        ValueError: an update changes an immutable part of a job.
    """
    judged: list[_JudgedJob] = []
    for place, document, _ in parts:
        manifest = document.content
        namespace, name, _ = job_name(manifest)
        job, hint = known.open(namespace, name), ""
        if job is None:
            message = _submission(known, cluster, manifest, recorded, strict=strict)
        else:
            for warning in read_manifest(manifest).warnings:
                _warn(place.of_warning(warning), warn, strict=strict)
            faults = replacement_faults(known.submitted(job), manifest)
            if faults:
                raise _with_faults(place, faults)
            if manifest_digest(manifest) != known.given(job):
                hint = _HINT
            message = update(cluster, manifest, job, known.version(job), recorded)
        known.take(message)
        judged.append((message, f"{namespace}/{name}", place, hint))
    return judged


def _submission(known: KnownJobs, cluster: str, manifest: dict[str, Any], recorded: int, *, strict: bool) -> Message:
    """Return the submission of a manifest; a new one if it was rejected before, as what it lacked may exist now."""
    command = manifest_digest(manifest)
    first = submission(cluster, manifest, command, recorded, strict=strict)
    rejections = known.rejections(first.key)
    if not rejections:
        return first
    return submission(cluster, manifest, command, recorded, strict=strict, rejections=rejections)
