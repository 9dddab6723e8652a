"""Ids of events and jobs: hashes of their cause, never random, never dependent on the order of arrival.

An id is derived from the identity of the event or job, so the same inputs give the same ids on any machine and log (design rule 3).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final
from uuid import NAMESPACE_URL, uuid5

_NAMESPACE: Final = uuid5(NAMESPACE_URL, "https://lahar.dev/ids")
_SEPARATOR: Final = "\x1f"


def _hash(*parts: str) -> str:
    return blake2b(_SEPARATOR.join(parts).encode(), digest_size=16).hexdigest()


def digest(content: bytes) -> str:
    """Return the digest of some bytes, 32 hexadecimal digits."""
    return blake2b(content, digest_size=16).hexdigest()


def output_id(stage: str, cause: str, index: int) -> str:
    """Id of the `index`-th event that a stage emits because of the input (or fired timer) with id `cause`."""
    return blake2b(f"{stage}\x1f{cause}\x1f{index}".encode(), digest_size=16).hexdigest()


def timer_fired_id(stage: str, timer: str) -> str:
    """Id of the firing of a timer; `timer` is the id of its `timer.set`."""
    return _hash(stage, "fired", timer)


def observation_id(uid: str, version: str, *, deleted: bool) -> str:
    """Id of an observed object: its uid, its resourceVersion (or a digest of its projection), whether it is gone."""
    return _hash("observed", uid, version, "deleted" if deleted else "")


def observation_with_devices_id(observation: str, devices: str) -> str:
    """Id of an observed pod with the devices that its claims show: the pod stays the same version when they become known."""
    return _hash(observation, devices)


def import_id(cluster: str, source_format: str, row: str, fact: str) -> str:
    """Id of one fact of one row of an imported trace."""
    return _hash("import", cluster, source_format, row, fact)


def imported_job_id(cluster: str, source_format: str, row: str) -> str:
    """Id of the job of a row of a trace: uuid5 of (cluster, format, row key)."""
    return str(uuid5(_NAMESPACE, f"{cluster}\x1f{source_format}\x1f{row}"))


def submitted_job_id(cluster: str, namespace: str, name: str, command: str) -> str:
    """Id of a job submitted through Lahar without a uid: uuid5 of (cluster, namespace/name, command id)."""
    return str(uuid5(_NAMESPACE, f"{cluster}\x1f{namespace}/{name}\x1f{command}"))


_CLAIMED: Final = "~"
"""Precedes the claimed id in the id of a separate job."""


def separate_job_id(claimed: str, cluster: str, namespace: str, identity: str) -> str:
    """Id of the separate job for an input that names a job of another cluster or namespace: `UUID~CLAIMED`.

    Args:
        claimed: the claimed id.
        cluster: cluster of the input.
        namespace: namespace of the input.
        identity: uid of the pod, or of the object that owns it.
    """
    return f"{uuid5(_NAMESPACE, _SEPARATOR.join((claimed, cluster, namespace, identity)))}{_CLAIMED}{routing_key(claimed)}"


def is_separate_job_id(job: str) -> bool:
    """Return whether an id is that of a separate job."""
    return _CLAIMED in job


def routing_key(key: str) -> str:
    """Return the part of a key that chooses its partition: the claimed id of a separate job, else the whole key."""
    return key.rpartition(_CLAIMED)[2]
