"""Errors of the Kubernetes edge.

KubernetesError
├── QuantityError       a text that is no resource quantity
├── DurationError       a text that is no length of time
├── ManifestError       a file that holds no manifest
├── ProjectionError     an object that lacks what its event cannot do without
└── ObjectError         an object of Lahar's own kinds that breaks its schema
"""

from __future__ import annotations

from statemachines.errors import LaharError

__all__ = ["DurationError", "KubernetesError", "ManifestError", "ObjectError", "ProjectionError", "QuantityError"]


class KubernetesError(LaharError, ValueError):
    """Base of all errors of this package."""

    path = ""
    """Field that it is about; empty: the object itself, or not known."""


class QuantityError(KubernetesError):
    """Raised when a value is no resource quantity (`500m`, `1.5Gi`, `2e3`)."""

    def __init__(self, value: object) -> None:
        super().__init__(f"{_shown(value)} is not a quantity: write a number with an optional suffix (m, k, Mi, Gi, e3, …)")
        self.value = value


class DurationError(KubernetesError):
    """Raised when a text is no length of time as Go writes it (`300s`, `1h30m`)."""

    def __init__(self, value: object) -> None:
        super().__init__(f"{_shown(value)} is not a duration: write numbers with units (ms, s, m, h), such as 300s or 1h30m")
        self.value = value


class ManifestError(KubernetesError):
    """Raised when a text is no YAML, or a page holds no manifest; the message names what was expected."""


class ProjectionError(KubernetesError):
    """Raised when an object lacks a field without which no event can be made of it.

    Args:
        path: the field, `metadata.uid`; empty for the object itself.
        message: what is wrong with it.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class ObjectError(KubernetesError):
    """Raised when a Queue, Tenant, PriorityClass or Grant breaks its schema; the text names each field.

    Args:
        kind: kind of the object.
        faults: (path, message) of each fault.
    """

    def __init__(self, kind: str, faults: list[tuple[str, str]]) -> None:
        super().__init__(f"{kind}: " + "; ".join(f"{path}: {message}" for path, message in faults))
        self.kind = kind
        self.faults = faults
        self.path = faults[0][0] if faults else ""


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "…"
