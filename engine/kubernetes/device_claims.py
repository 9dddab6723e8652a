"""Devices of pods by dynamic resource allocation (DRA): a pod names its ResourceClaims, and these have devices by device class.

A claim shared by several pods is metered for one of them: the first pod for which it is reserved while no other pod of the claim is
metered. For the other pods its devices count as used, but not metered.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple

from engine.events import Message, Topic, encode
from engine.events.bounds import RESOURCES
from engine.events.ids import observation_with_devices_id
from engine.events.inputs import POD
from engine.kubernetes.edge import Outcome, Taken
from engine.kubernetes.input_events import event_of, pod_of, with_pod
from engine.kubernetes.observation.versions import is_newer
from engine.kubernetes.reading.accelerators import BUILT_IN, DEVICE_CLASS, Accelerators
from engine.kubernetes.reading.documents import Document, Unreadable, kind_of
from engine.kubernetes.reading.fields import mapping, mappings, text
from engine.kubernetes.reading.identity import controller
from engine.kubernetes.reading.requests import with_devices
from engine.kubernetes.reading.resource_claim import (
    Devices,
    allocated_devices,
    is_allocated,
    is_resource_claim,
    pods_reserving,
    requested_devices,
)

_KEPT: Final = 200_000
"""Maximum number of claims, reserving pods and device classes together."""
_PODS: Final = 512
"""Maximum number of pods of a claim: twice the number for which it can be reserved at a time."""
_CLAIMS: Final = 64
"""Number of claims of a pod above which none is looked up."""
_TEXT: Final = 1024
"""Maximum length of a claim's identifiers (characters); a claim with longer ones is not stored."""

_Name = tuple[str, str]
"""Namespace and name."""


class _Use(NamedTuple):
    """Devices of a claim for a pod."""

    devices: tuple[Devices, ...]
    metered: bool


@dataclass(slots=True)
class _Claim:
    uid: str | None
    owner: str | None
    """uid of the pod for which the claim was created from a template."""
    version: str | None = None
    allocated: bool = False
    devices: tuple[Devices, ...] | None = None
    """Allocated devices, otherwise requested ones; `None`: unknown."""
    uses: dict[str, _Use] = field(default_factory=dict)
    """Use by uid of each pod for which the claim is or was reserved."""

    @property
    def size(self) -> int:
        return 1 + len(self.devices or ()) + sum([1 + len(use.devices) for use in self.uses.values()])


class _Pod(NamedTuple):
    uid: str
    claims: Counter[_Name]
    """Names of its claims, with the number of references."""
    needless: int
    """Number of claim entries for which no claim was created."""


class DeviceClaims:
    """Claims of one source, and its pods whose inputs are not appended yet."""

    def __init__(self, accelerators: Accelerators = BUILT_IN, kept: int = _KEPT) -> None:
        """Start empty.

        Args:
            accelerators: table of the device classes that are GPUs.
            kept: maximum number of claims, reserving pods and device classes together; the least recently used claims are dropped.
        """
        self._accelerators = accelerators
        self._kept = kept
        self._claims: OrderedDict[_Name, _Claim] = OrderedDict()
        self._size = 0
        self._pods: dict[str, _Pod] = {}
        """Pod by id of its input."""
        self._unread: set[_Name] = set()

    @property
    def incomplete(self) -> bool:
        """True if a pod that is not appended yet names an unknown claim."""
        return bool(self._unread)

    def note(self, item: Document | Unreadable, outcome: Outcome) -> None:
        """Store the devices of a claim, or the claims of a pod."""
        if isinstance(item, Unreadable):
            return
        if is_resource_claim(item.content):
            self._note_claim(item.content)
        elif isinstance(outcome, Taken) and kind_of(item.content) == POD:
            self._note_pod(item.content, outcome.messages[0].id)

    def _note_claim(self, content: dict[str, Any]) -> None:
        metadata = mapping(content.get("metadata"))
        owner = controller(metadata)
        above = text(owner.get("uid")) if owner.get("kind") == POD else None
        key, uid, version = _name(metadata, metadata.get("name")), text(metadata.get("uid")), text(metadata.get("resourceVersion"))
        if sum([len(each) for each in (*key, uid, version, above) if each is not None]) > _TEXT:
            return
        claim = self._claims.pop(key, None)
        self._size -= 0 if claim is None else claim.size
        if claim is None or claim.uid != uid:  # a name may be reused
            claim = _Claim(uid, above)
        if is_newer(version, claim.version):
            _update(claim, content, version)
        self._claims[key] = claim
        self._size += claim.size
        while self._size > self._kept:
            _, oldest = self._claims.popitem(last=False)
            self._size -= oldest.size
        self._unread.discard(key)

    def _note_pod(self, content: dict[str, Any], ident: str) -> None:
        metadata, spec, status = (mapping(content.get(part)) for part in ("metadata", "spec", "status"))
        named = mappings(spec.get("resourceClaims"))
        if not named or len(named) > _CLAIMS:
            return
        made = {text(one.get("name")): one for one in mappings(status.get("resourceClaimStatuses"))}
        claims: Counter[_Name] = Counter()
        needless = 0
        for one in named:
            entry = made.get(text(one.get("name")))
            name = text(one.get("resourceClaimName")) or text(mapping(entry).get("resourceClaimName"))
            if name is not None:
                claims[_name(metadata, name[:_TEXT])] += 1
            elif entry is not None:
                needless += 1
        self._pods[ident] = _Pod(text(metadata.get("uid")) or "", claims, needless)
        self._unread |= claims.keys() - self._claims.keys()

    def resolve(self, inputs: Sequence[tuple[Topic, Message]]) -> list[tuple[Topic, Message]]:
        """Return inputs with the devices of the pods' known claims."""
        if not self._pods:
            return list(inputs)
        resolved = [(topic, self._resolved(message) if message.id in self._pods else message) for topic, message in inputs]
        for _, message in inputs:
            self._pods.pop(message.id, None)
        self._unread = {name for pod in self._pods.values() for name in pod.claims if name not in self._claims}
        return resolved

    def _resolved(self, message: Message) -> Message:
        pod = self._pods[message.id]
        claims, gpus, unmetered = pod.needless, Fraction(0), Counter[str]()
        for name, times in pod.claims.items():
            use = self._use(name, pod.uid)
            if use is None:
                continue
            claims += times
            for devices in use.devices:
                share = self._accelerators.share(DEVICE_CLASS + devices.device_class)
                if share is None or devices.shared or not use.metered:
                    unmetered[devices.device_class] += devices.number * 1000
                else:
                    gpus += share * devices.number
        return _with(message, claims, gpus, unmetered) if claims else message

    def _use(self, name: _Name, uid: str) -> _Use | None:
        """Return a pod's use of a claim; `None` if unknown."""
        claim = self._claims.get(name)
        if claim is None:
            return None
        self._claims.move_to_end(name)
        if uid in claim.uses:
            return claim.uses[uid]
        own = claim.owner == uid and not claim.uses
        return _Use(claim.devices, metered=True) if own and claim.devices is not None else None


def _update(claim: _Claim, content: dict[str, Any], version: str | None) -> None:
    """Store a newer version of a claim. A released allocation is kept for its pod's last observations."""
    claim.version = version
    if is_allocated(content):
        claim.devices, claim.allocated = allocated_devices(content), True
    elif not claim.allocated:
        claim.devices = requested_devices(content)
    reserving = pods_reserving(content)
    taken = any(claim.uses[uid].metered for uid in reserving if uid in claim.uses)
    for uid in reserving if claim.devices is not None else ():
        before = claim.uses.get(uid)
        claim.uses[uid] = _Use(claim.devices or (), metered=not taken if before is None else before.metered)
        taken = taken or claim.uses[uid].metered
    for uid in list(claim.uses)[: max(0, len(claim.uses) - _PODS)]:
        del claim.uses[uid]


def _name(metadata: dict[str, Any], name: object) -> _Name:
    return text(metadata.get("namespace")) or "default", text(name) or ""


def _with(message: Message, claims: int, gpus: Fraction, unmetered: Counter[str]) -> Message:
    """Return a pod's input with the devices of its claims."""
    event = event_of(message)
    if event is None:
        return message
    pod = pod_of(event.data)
    requests = with_devices(pod.requests, claims, gpus, unmetered)
    if len(requests.unmetered) > RESOURCES:
        return message
    data = with_pod(event.data, replace(pod, requests=requests))
    ident = observation_with_devices_id(event.id, f"{gpus} {sorted(unmetered.items())} {claims}")
    return encode(replace(event, id=ident, data=data), message.key)
