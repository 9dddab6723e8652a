"""Does what the engine asks for against the API server, as an actuator would: with retries, delays, repeats and lost answers.

kubernetes.md 1.6: a creation has a deterministic name and carries the id of the request, so that AlreadyExists for a pod of the
same request means done; a deletion has the uid as precondition where the engine knows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from api_server import ApiError, Object, uid_of
from control_plane import Cluster
from pod_lives import new_pod

from engine.events import Event
from engine.events.actions import EffectRequested
from engine.events.inputs import EffectReported

_REQUEST = "lahar/request"


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one request. Times in seconds."""

    kind: Literal["none", "repeated", "lost_answer", "unreported"] = "none"
    """repeated: carried out, and reported, a second time later. lost_answer: carried out, but the actuator does not hear of it and
    asks again. unreported: the report is lost with the actuator's process."""
    delay: float = 0.2
    """Until it is carried out: a long one makes it an old request that is executed late."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one call."""

    request: Event[Any]
    time: int
    failure: str | None
    fault: str


class Actuator:
    """The one that performs requested effects."""

    def __init__(
        self, cluster: Cluster, report: Callable[[Event[Any], EffectReported], None], faults: Callable[[], Fault], namespace: str
    ) -> None:
        """Begin to act.

        Args:
            cluster: where.
            report: takes what became of a request.
            faults: says what goes wrong with the next request.
            namespace: of the jobs.
        """
        self._cluster = cluster
        self._report = report
        self._faults = faults
        self._namespace = namespace
        self.answers: list[Answer] = []
        """All calls, in order."""

    def perform(self, request: Event[Any]) -> None:
        """Carry out a request, sooner or later."""
        fault = self._faults()
        after = self._cluster.timeline.after
        after(fault.delay, lambda: self._act(request, fault))
        if fault.kind in {"repeated", "lost_answer"}:
            after(fault.delay + 5, lambda: self._act(request, Fault("repeated")))

    def _act(self, request: Event[Any], fault: Fault) -> None:
        effect: EffectRequested = request.data
        try:
            if effect.effect == "create_pod":
                self._create(request.id, request.subject, effect)
            elif effect.effect == "delete_pod":
                self._cluster.api.delete("Pod", self._namespace, effect.pod or "", uid=effect.uid)
            else:
                self._delete_job(request.subject)
            failure = None
        except ApiError as error:
            failure = error
        self.answers.append(Answer(request, self._cluster.timeline.now, failure.reason if failure else None, fault.kind))
        if fault.kind in {"lost_answer", "unreported"}:
            return
        report = EffectReported(
            request.id,
            "failed" if failure else "done",
            name=effect.effect,
            message=str(failure or ""),
            reason=failure.reason if failure else None,
        )
        self._report(request, report)

    def _create(self, request: str, job: str, effect: EffectRequested) -> None:
        owner = self._owner(job)
        if owner is None:
            raise ApiError("NotFound", f"job {job}")
        life = self._cluster.life()
        name = effect.pod or ""
        annotations = {
            "lahar/job": job,
            "lahar/task": effect.task or "",
            "lahar/index": str(effect.index),
            "lahar/attempt": str(effect.attempt),
            _REQUEST: request,
        }
        manifest = new_pod(name=name, namespace=self._namespace, owner=owner, annotations=annotations, life=life)
        try:
            made = self._cluster.api.create(manifest)
        except ApiError as error:
            standing = self._cluster.api.find("Pod", self._namespace, name)
            if standing is None or standing["metadata"]["annotations"][_REQUEST] != request:
                raise error from None
            return  # this very request was carried out before
        self._cluster.made(made, life)

    def _owner(self, job: str) -> Object | None:
        return next((found for found in self._cluster.api.list("Job") if uid_of(found) == job), None)

    def _delete_job(self, job: str) -> None:
        found = self._owner(job)
        if found is None:
            raise ApiError("NotFound", f"job {job}")
        self._cluster.api.delete("Job", self._namespace, found["metadata"]["name"], uid=job)
