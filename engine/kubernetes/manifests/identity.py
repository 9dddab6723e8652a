"""Identity of a submitted job: namespace, name and tenant."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from engine.kubernetes.reading.fields import mapping
from engine.kubernetes.reading.identity import job_name, people


def read_identity(manifest: Mapping[str, Any], seed: str = "") -> tuple[str, str, str]:
    """Return namespace, name and tenant of a submitted job, without validating the manifest.

    They equal those of `read_manifest` for a valid manifest.

    Args:
        manifest: the object.
        seed: distinguishes submissions with the same `generateName`, such as the command's id.
    """
    metadata = mapping(manifest.get("metadata"))
    namespace, name, _ = job_name(manifest)
    tenant, _, _ = people(mapping(metadata.get("labels")))
    return namespace, name if name == metadata.get("name") else generated_name(name, seed), tenant or namespace


def generated_name(prefix: str, seed: str) -> str:
    """Return a name for a `generateName`, like Kubernetes: the prefix and five digits of the seed's digest."""
    return prefix and prefix[:58] + sha256(seed.encode(errors="replace")).hexdigest()[:5]
