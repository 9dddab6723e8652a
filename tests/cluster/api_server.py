"""A Kubernetes API server in memory: its rules of names, uids, versions, finalizers and deletion in two steps.

Sources: `apiserver/pkg/registry/generic/registry/store.go` and `apiserver/pkg/registry/rest/delete.go` (deletion),
`pkg/registry/core/pod/strategy.go` (grace periods of pods), `pkg/registry/core/pod/storage/eviction.go`. Objects are plain JSON,
and a stored one is never changed: an update stores a new one, so that what a watch was given stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from simulated_time import SECOND, Timeline, stamp

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace, name. Objects without a namespace have an empty one."""


class ApiError(Exception):
    """Raised when the server refuses a request."""

    def __init__(self, reason: Literal["AlreadyExists", "NotFound", "Conflict"], message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        """As in `Status.reason`: 409 AlreadyExists, 404 NotFound, 409 Conflict."""


class WatchEvent(NamedTuple):
    """One change of one object."""

    change: Literal["ADDED", "MODIFIED", "DELETED"]
    version: int
    kind: str
    object: Object


def clone(value: Any) -> Any:
    """Copy decoded JSON."""
    if isinstance(value, dict):
        return {key: clone(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [clone(entry) for entry in value]
    return value


def uid_of(found: Object) -> str:
    """Return an object's uid."""
    uid: str = found["metadata"]["uid"]
    return uid


def set_condition(found: Object, kind: str, status: str, reason: str | None, now: int) -> None:
    """Set a condition in an object's status; its transition time changes only with its status."""
    conditions = found["status"].setdefault("conditions", [])
    old = next((one for one in conditions if one["type"] == kind), None)
    new = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": stamp(now)}
    if reason is not None:
        new["reason"] = reason
    if old is None:
        conditions.append(new)
        return
    if old["status"] == status:
        new["lastTransitionTime"] = old["lastTransitionTime"]
    old.clear()
    old.update(new)


class ApiServer:
    """The objects of one cluster, and every change that they went through."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._objects: dict[Key, Object] = {}
        self._uids = 0
        self._requested: dict[str, int] = {}
        """When the deletion of an object was first asked for, by uid (microseconds)."""
        self.version = 1000
        """resourceVersion of the last change: one counter for all objects, as etcd has it."""
        self.history: list[WatchEvent] = []
        """All changes, in the order of their versions."""
        self.informers: list[Callable[[WatchEvent], None]] = []
        """Called with each change: the control plane's own components, which miss nothing."""

    # --- reading ----------------------------------------------------------------------------------------------------------

    def list(self, kind: str) -> list[Object]:
        """Return all objects of a kind as they are at `version`, ordered by name."""
        return [found for (of, _, _), found in sorted(self._objects.items(), key=lambda entry: entry[0]) if of == kind]

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return an object, or `None`."""
        return self._objects.get((kind, namespace, name))

    def get(self, kind: str, namespace: str, name: str) -> Object:
        """Return an object.

        Raises:
            ApiError: NotFound.
        """
        found = self.find(kind, namespace, name)
        if found is None:
            raise ApiError("NotFound", f"{kind} {namespace}/{name}")
        return found

    # --- writing ----------------------------------------------------------------------------------------------------------

    def create(self, content: Object) -> Object:
        """Store a new object; it gets a uid, a version and a time of creation.

        Raises:
            ApiError: AlreadyExists, while an object of that kind and name stands, being deleted or not.
        """
        key = _key(content)
        if key in self._objects:
            raise ApiError("AlreadyExists", "{} {}/{}".format(*key))
        made: Object = clone(content)
        self._uids += 1
        made["metadata"] |= {
            "uid": f"{self._uids:08x}-0000-4000-8000-{self._uids:012x}",
            "creationTimestamp": stamp(self._timeline.now),
            "generation": 1,
        }
        self._store("ADDED", key, made)
        return made

    def update(self, kind: str, namespace: str, name: str, change: Callable[[Object], None], *, uid: str | None = None) -> Object:
        """Change an object; one that changes nothing makes no version. One that is being deleted goes with its last finalizer.

        Args:
            kind: of the object.
            namespace: of the object.
            name: of the object.
            change: changes a copy.
            uid: precondition; `None`: whichever object has the name.

        Raises:
            ApiError: NotFound, or Conflict where the uid is another one.
        """
        key, old = self._checked(kind, namespace, name, uid)
        new: Object = clone(old)
        change(new)
        if new == old:
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        if _may_go(new):
            self._remove(key, new)
        else:
            self._store("MODIFIED", key, new)
        return new

    def delete(self, kind: str, namespace: str, name: str, *, uid: str | None = None, grace: int | None = None) -> None:
        """Ask for the deletion of an object; a pod on a node stays until its kubelet has confirmed, or its grace period is 0.

        Args:
            kind: of the object.
            namespace: of the object.
            name: of the object.
            uid: precondition; `None`: whichever object has the name.
            grace: seconds; `None`: what the pod's specification says. Only a shorter one changes a deletion under way.

        Raises:
            ApiError: NotFound, or Conflict where the uid is another one.
        """
        key, old = self._checked(kind, namespace, name, uid)
        metadata = old["metadata"]
        if "deletionTimestamp" in metadata:
            period = metadata["deletionGracePeriodSeconds"]
            if grace is None or grace >= period:
                return
            requested = self._requested[uid_of(old)]
        else:
            requested = self._timeline.now
            self._requested[uid_of(old)] = requested
        period = _grace_period(kind, old, grace)
        new: Object = clone(old)
        new["metadata"] |= {
            "deletionTimestamp": stamp(requested // SECOND * SECOND + period * SECOND),
            "deletionGracePeriodSeconds": period,
        }
        if kind == "Pod" or not _may_go(new):
            # Only pods are deleted gracefully: a grace period of 0 is written before the object goes, watches see both.
            self._store("MODIFIED", key, new)
        if _may_go(new):
            self._remove(key, clone(new))

    def evict(self, namespace: str, name: str, *, uid: str | None = None) -> None:
        """Evict a pod politely (policy/v1): the condition DisruptionTarget first, then a deletion.

        Raises:
            ApiError: as `delete`.
        """
        self.disrupt(namespace, name, "EvictionByEvictionAPI", uid=uid)
        self.delete("Pod", namespace, name, uid=uid)

    def disrupt(self, namespace: str, name: str, reason: str, *, uid: str | None = None) -> None:
        """Announce a disruption of a pod.

        Raises:
            ApiError: as `update`.
        """
        now = self._timeline.now
        self.update("Pod", namespace, name, lambda pod: set_condition(pod, "DisruptionTarget", "True", reason, now), uid=uid)

    # --- inside -----------------------------------------------------------------------------------------------------------

    def _checked(self, kind: str, namespace: str, name: str, uid: str | None) -> tuple[Key, Object]:
        found = self.get(kind, namespace, name)
        if uid is not None and uid != uid_of(found):
            raise ApiError(
                "Conflict", f"{kind} {namespace}/{name}: the uid in the precondition is {uid}, that of the object {uid_of(found)}"
            )
        return (kind, namespace, name), found

    def _store(self, change: Literal["ADDED", "MODIFIED"], key: Key, new: Object) -> None:
        self._objects[key] = new
        self._tell(change, key[0], new)

    def _remove(self, key: Key, last: Object) -> None:
        del self._objects[key]
        self._tell("DELETED", key[0], last)

    def _tell(self, change: Literal["ADDED", "MODIFIED", "DELETED"], kind: str, content: Object) -> None:
        self.version += 1
        content["metadata"]["resourceVersion"] = str(self.version)
        event = WatchEvent(change, self.version, kind, content)
        self.history.append(event)
        for informer in self.informers:
            informer(event)


def _key(content: Object) -> Key:
    metadata = content["metadata"]
    return content["kind"], metadata.get("namespace", ""), metadata["name"]


def _may_go(content: Object) -> bool:
    """Tell whether an object whose deletion was asked for has nothing that holds it."""
    metadata = content["metadata"]
    return "deletionTimestamp" in metadata and metadata["deletionGracePeriodSeconds"] == 0 and not metadata.get("finalizers")


def _grace_period(kind: str, content: Object, grace: int | None) -> int:
    """Return how many seconds a deletion leaves: none to pods without a node or that have ended, and to all other kinds."""
    if kind != "Pod" or "nodeName" not in content["spec"] or content["status"]["phase"] in {"Succeeded", "Failed"}:
        return 0
    period: int = content["spec"]["terminationGracePeriodSeconds"] if grace is None else grace
    return period
