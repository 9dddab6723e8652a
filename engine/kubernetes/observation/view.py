"""Parsed pod object: the parts for the pod table and for the times of phases."""

from __future__ import annotations

from typing import Any

from engine.kubernetes.reading.fields import code, deletion_asked, mapping, mappings, moment, text, whole


class Container:
    """The status of one container."""

    __slots__ = (
        "exit_code",
        "finished",
        "last_finished",
        "last_started",
        "name",
        "reason",
        "restarts",
        "running",
        "started",
        "status",
        "terminated",
        "waiting",
    )

    status: dict[str, Any]
    name: str | None
    running: bool
    terminated: bool
    waiting: str | None
    """Reason for which it waits."""
    reason: str | None
    """Reason of its termination."""
    exit_code: int | None
    """Its exit code; `None` while it has not terminated."""
    started: int | None
    """Start time in `state` (microseconds)."""
    finished: int | None
    last_started: int | None
    """Start of the run before a restart in place."""
    last_finished: int | None
    restarts: int

    def __init__(self, status: dict[str, Any]) -> None:
        self.status = status
        self.name = text(status.get("name"))
        state = status.get("state")
        running = terminated = waiting = None
        if isinstance(state, dict):
            running, terminated, waiting = state.get("running"), state.get("terminated"), state.get("waiting")
        self.running = isinstance(running, dict)
        self.terminated = isinstance(terminated, dict)
        self.waiting = text(waiting.get("reason")) if isinstance(waiting, dict) else None
        self.reason = self.exit_code = self.started = self.finished = self.last_started = self.last_finished = None
        if isinstance(terminated, dict):
            self.reason = text(terminated.get("reason"))
            self.exit_code = code(terminated.get("exitCode"))
            self.started = moment(terminated.get("startedAt"))
            self.finished = moment(terminated.get("finishedAt"))
        elif isinstance(running, dict):
            self.started = moment(running.get("startedAt"))
        last = status.get("lastState")
        if last:
            before = mapping(mapping(last).get("terminated"))
            self.last_started, self.last_finished = moment(before.get("startedAt")), moment(before.get("finishedAt"))
        self.restarts = whole(status.get("restartCount")) or 0

    @property
    def failed(self) -> bool:
        """True if it failed; an init container that was OOM-killed fails even with exit code 0, as for a kubelet."""
        return self.terminated and (bool(self.exit_code) or self.reason == "OOMKilled")

    @property
    def has_started(self) -> bool:
        """True if it has ever run."""
        return self.running or self.started is not None or self.last_started is not None


class PodView:
    """A pod as in the API server. Parsing never raises: invalid parts are absent."""

    __slots__ = (
        "conditions",
        "containers",
        "deciding",
        "deletion",
        "deletion_asked",
        "inits",
        "metadata",
        "node",
        "phase",
        "reason",
        "sidecars",
        "spec",
        "status",
    )

    metadata: dict[str, Any]
    spec: dict[str, Any]
    status: dict[str, Any]
    phase: str | None
    """Kubernetes' own phase."""
    reason: str | None
    """`status.reason`."""
    node: str | None
    deletion: int | None
    """`metadata.deletionTimestamp` (microseconds); `None`: not being deleted."""
    deletion_asked: int | None
    """Time of the deletion request."""
    conditions: dict[str, dict[str, Any]]
    """Conditions by type; the first of a type wins."""
    containers: list[Container]
    """Regular containers only; sidecars are init containers and never decide."""
    inits: list[Container]
    sidecars: frozenset[str]
    """Names of the init containers that keep running beside the regular ones."""
    deciding: list[Container]
    """Containers whose ends decide a failed pod: regular ones or, if none has ended, init containers. Sidecars never do."""

    def __init__(self, pod: dict[str, Any]) -> None:
        self.metadata = mapping(pod.get("metadata"))
        self.spec = mapping(pod.get("spec"))
        status = self.status = mapping(pod.get("status"))
        self.phase = text(status.get("phase"))
        self.reason = text(status.get("reason"))
        self.node = text(self.spec.get("nodeName"))
        self.deletion = moment(self.metadata.get("deletionTimestamp"))
        self.deletion_asked = deletion_asked(self.metadata)
        self.conditions = {}
        for condition in mappings(status.get("conditions")):
            kind = condition.get("type")
            if isinstance(kind, str):
                self.conditions.setdefault(kind, condition)
        self.containers = [Container(one) for one in mappings(status.get("containerStatuses"))]
        self.inits = [Container(one) for one in mappings(status.get("initContainerStatuses"))]
        always = (one for one in mappings(self.spec.get("initContainers")) if one.get("restartPolicy") == "Always")
        self.sidecars = frozenset([name for one in always if (name := text(one.get("name"))) is not None])
        self.deciding = self.containers
        if self.inits and not any(one.terminated for one in self.containers):
            self.deciding = [one for one in self.inits if one.terminated and one.name not in self.sidecars]

    @property
    def has_started(self) -> bool:
        """True if a regular container has ever run."""
        return any(container.has_started for container in self.containers)

    @property
    def disruption(self) -> str | None:
        """Reason of the condition DisruptionTarget=True; `None` if it is not true or has no reason."""
        return text(self.true("DisruptionTarget").get("reason"))

    def true(self, kind: str) -> dict[str, Any]:
        """Return the condition of that type if its status is `True`, otherwise an empty mapping."""
        condition = self.conditions.get(kind)
        return condition if condition is not None and condition.get("status") == "True" else mapping(None)
