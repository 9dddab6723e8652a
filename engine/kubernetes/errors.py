"""Errors of the Kubernetes edge.

KubernetesError
├── QuantityError       invalid resource quantity
├── DurationError       invalid duration
├── ManifestError       a file without a manifest
├── ProjectionError     an object without a required field
└── ObjectError         an invalid object of one of Lahar's kinds
"""

from __future__ import annotations

from statemachines.errors import LaharError


class KubernetesError(LaharError, ValueError):
    """Base of all errors of this package."""

    path = ""
    """Path of the faulty field; empty: the object itself, or unknown."""


class QuantityError(KubernetesError):
    """Raised when a value is not a resource quantity (`500m`, `1.5Gi`, `2e3`)."""

    def __init__(self, value: object) -> None:
        super().__init__(f"{_shown(value)} is not a quantity: write a number with an optional suffix (m, k, Mi, Gi, e3, …)")
        self.value = value


class DurationError(KubernetesError):
    """Raised when a text is not a duration in Go's format (`300s`, `1h30m`)."""

    def __init__(self, value: object) -> None:
        super().__init__(f"{_shown(value)} is not a duration: write numbers with units (ms, s, m, h), such as 300s or 1h30m")
        self.value = value


class ManifestError(KubernetesError):
    """Raised when a text is not YAML, or a document is not a manifest; the message states the expected form."""


class ProjectionError(KubernetesError):
    """Raised when an object lacks a field that its event requires.

    Args:
        path: path of the field, such as `metadata.uid`; empty for the object itself.
        message: description of the fault.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class ObjectError(KubernetesError):
    """Raised when a Queue, Tenant, PriorityClass or Grant violates its schema; the message names each field.

    Args:
        kind: kind of the object.
        faults: path and message of each fault.
    """

    def __init__(self, kind: str, faults: list[tuple[str, str]]) -> None:
        super().__init__(f"{kind}: " + "; ".join(f"{path}: {message}" for path, message in faults))
        self.kind = kind
        self.faults = faults
        self.path = faults[0][0] if faults else ""


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "…"
