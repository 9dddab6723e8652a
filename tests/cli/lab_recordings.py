"""Recordings of real controllers: what their objects show of jobs and attempts, and how a history made of them differs from it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.events import Event
from engine.events.jobs import JobOpened, JobPhaseChanged
from engine.events.times import SECOND, parse_time
from engine.history.view import AttemptView, JobView
from statemachines.vocabulary import FINISHED_JOB_PHASES


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a watch, and when it arrived (microseconds)."""

    text: bytes
    arrived: int

    @property
    def change(self) -> dict[str, Any]:
        """Its envelope, decoded."""
        return json.loads(self.text)


@dataclass(slots=True)
class Shown:
    """A job as its own object showed it; times are microseconds."""

    kind: str
    version: int = 0
    phases: list[tuple[str, int | None, int]] = field(default_factory=list)
    """Phase, when the object says that it began (`None`: it does not), when the line arrived."""
    pods: dict[str, PodShown] = field(default_factory=dict)


@dataclass(slots=True)
class PodShown:
    """A pod as its object showed it."""

    version: int = 0
    node: str | None = None
    created: int = 0
    started: int | None = None
    finished: int | None = None
    exit_code: int | None = None
    phase: str = "Pending"
    gone: bool = False


def read_recording(folder: Path) -> list[Line]:
    """Read a recording's lines with their times of arrival."""
    stream = gzip.decompress((folder / "stream.jsonl.gz").read_bytes()).splitlines(keepends=True)
    arrivals = gzip.decompress((folder / "arrivals.txt.gz").read_bytes()).decode().splitlines()
    return [Line(text, parse_time(arrived.split()[0])) for text, arrived in zip(stream, arrivals, strict=True)]


def shown_by(lines: Sequence[Line]) -> dict[str, Shown]:
    """Return what lines show of each job object in them, by its uid."""
    jobs: dict[str, Shown] = {}
    for line in lines:
        change = line.change
        content = change["object"]
        uid, deleted = content["metadata"]["uid"], change["type"] == "DELETED"
        if content["kind"] == "Job":
            kind = "Job" if content["apiVersion"] == "batch/v1" else "VCJob"
            _show_job(jobs.setdefault(uid, Shown(kind)), content, line.arrived, deleted=deleted)
        elif content["kind"] == "Pod":
            owner = next(one["uid"] for one in content["metadata"]["ownerReferences"] if one.get("controller"))
            if owner in jobs:
                _show_pod(jobs[owner].pods.setdefault(uid, PodShown()), content, deleted=deleted)
    return jobs


def _show_job(job: Shown, content: dict[str, Any], arrived: int, *, deleted: bool) -> None:
    version = int(content["metadata"]["resourceVersion"])
    if version <= job.version:
        return
    job.version = version
    phase, since = (_volcano if job.kind == "VCJob" else _batch)(content.get("status") or {})
    if deleted and phase not in FINISHED_JOB_PHASES:
        phase, since = "Terminated", _time(content["metadata"].get("deletionTimestamp"))
    if phase is not None and (not job.phases or job.phases[-1][0] != phase):
        job.phases.append((phase, since, arrived))


def _volcano(status: dict[str, Any]) -> tuple[str | None, int | None]:
    state = status.get("state") or {}
    return state.get("phase"), _time(state.get("lastTransitionTime"))


def _batch(status: dict[str, Any]) -> tuple[str | None, int | None]:
    """Return the end and the suspension of a batch Job; the rest of its status lags behind its pods."""
    true = {one["type"]: one for one in status.get("conditions") or () if one["status"] == "True"}
    for kind, phase in (("Complete", "Completed"), ("Failed", "Failed"), ("Suspended", "Pending")):
        if kind in true:
            return phase, _time(status.get("completionTime") or true[kind]["lastTransitionTime"])
    return None, None


def _show_pod(pod: PodShown, content: dict[str, Any], *, deleted: bool) -> None:
    metadata, status = content["metadata"], content.get("status") or {}
    version = int(metadata["resourceVersion"])
    if version < pod.version or (version == pod.version and not deleted) or pod.gone:
        return
    pod.version, pod.gone = version, deleted
    pod.node, pod.created = content["spec"].get("nodeName"), _time(metadata["creationTimestamp"]) or 0
    pod.phase = status.get("phase", "Pending")
    for one in status.get("containerStatuses") or ():
        for state in (one.get("state") or {}).values():
            pod.started = _time(state.get("startedAt")) or pod.started
            if pod.phase in {"Succeeded", "Failed"}:
                pod.finished, pod.exit_code = _time(state.get("finishedAt")), state.get("exitCode")


def _time(text: str | None) -> int | None:
    return None if text is None else parse_time(text)


def differences(shown: dict[str, Shown], histories: dict[str, list[Event[Any]]]) -> Iterator[str]:
    """Yield each difference between what the objects show and the histories of their jobs."""
    for uid, job in shown.items():
        events = histories[uid]
        view = _view(events)
        yield from (f"{view.name}: {found}" for found in _of_phases(job, events))
        attempts = {attempt.uid: attempt for attempt in view.attempts.values()}
        if len(attempts) != len(job.pods):
            yield f"{view.name}: {len(attempts)} attempts of {len(job.pods)} pods"
        for pod_uid, pod in job.pods.items():
            yield from (f"{view.name}: {pod_uid[:8]}: {found}" for found in _of_attempt(pod, attempts[pod_uid]))


def _view(events: list[Event[Any]]) -> JobView:
    (view,) = [JobView.begin(event) for event in events if isinstance(event.data, JobOpened)]
    for event in events:
        view.apply(event)
    return view


def _of_phases(job: Shown, events: list[Event[Any]]) -> Iterator[str]:
    found = [("Pending", event.time) for event in events if isinstance(event.data, JobOpened)]
    found += [(event.data.phase, event.time) for event in events if isinstance(event.data, JobPhaseChanged)]
    for (phase, since), (_, until) in pairwise(found):
        if job.kind == "Job" and since == until and (phase, since) != found[0]:
            yield f"{phase} has no length"
    if job.phases and found[-1][0] != job.phases[-1][0]:
        yield f"ends as {found[-1][0]}, not as {job.phases[-1][0]}"
    at = 0
    for number, (phase, since, arrived) in enumerate(job.phases):
        place = next((place for place in range(at, len(found)) if found[place][0] == phase), None)
        if place is None:
            yield f"{phase} is missing from {[name for name, _ in found]}"
            continue
        at = place + 1
        time = found[place][1]
        last = number == len(job.phases) - 1
        if (last or number) and since is not None and time // SECOND != since // SECOND:
            yield f"{phase} began {(time - since) / SECOND:+.3f} s from what the object says"
        elif since is None and abs(time - arrived) > 2 * SECOND:
            yield f"{phase} began {(time - arrived) / SECOND:+.3f} s from the arrival of what shows it"


def _of_attempt(pod: PodShown, attempt: AttemptView) -> Iterator[str]:
    if attempt.node != pod.node:
        yield f"node {attempt.node}, not {pod.node}"
    if attempt.created != pod.created:
        yield "created at another time"
    if attempt.running != pod.started:
        yield f"started {attempt.running}, not {pod.started}"
    if pod.finished is not None:
        if attempt.phase != pod.phase:
            yield f"{attempt.phase}, not {pod.phase}"
        if (attempt.ended, attempt.exit_code) != (pod.finished, pod.exit_code):
            yield f"ended {attempt.ended} with {attempt.exit_code}, not {pod.finished} with {pod.exit_code}"
    elif (attempt.ended is not None) != pod.gone:
        yield f"{attempt.phase} although its pod is {'gone' if pod.gone else 'there'}"
    if (attempt.object == "gone") != pod.gone:
        yield f"its object {attempt.object}, although it is {'gone' if pod.gone else 'there'}"
