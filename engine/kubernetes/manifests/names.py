"""Names that Kubernetes accepts.

Each function returns the fault of a text, or `None` (Kubernetes: `k8s.io/apimachinery/pkg/util/validation`).
"""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*", re.ASCII)
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)


def label_fault(text: str) -> str | None:
    """Check a DNS-1123 label: the name of a container, a volume, a namespace."""
    if len(text) <= 63 and _LABEL.fullmatch(text):
        return None
    return "must be a DNS-1123 label: at most 63 lower case letters, digits and '-', beginning and ending with a letter or digit"


def subdomain_fault(text: str) -> str | None:
    """Check a DNS-1123 subdomain: the name of most objects."""
    if len(text) <= 253 and _SUBDOMAIN.fullmatch(text):
        return None
    return (
        "must be a DNS-1123 subdomain: at most 253 lower case letters, digits, '-' and '.', "
        "each part beginning and ending with a letter or digit"
    )


def qualified_name_fault(text: str) -> str | None:
    """Check a qualified name, with or without `PREFIX/`: a label's key, and Volcano's names of jobs and pods."""
    prefix, slash, name = text.rpartition("/")
    if slash and subdomain_fault(prefix):
        return "must have a DNS-1123 subdomain before its '/'"
    if len(name) <= 63 and _QUALIFIED.fullmatch(name):
        return None
    return "must be a qualified name: at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"


def label_value_fault(text: str) -> str | None:
    """Check the value of a label; it may be empty."""
    if not text or (len(text) <= 63 and _QUALIFIED.fullmatch(text)):
        return None
    return "must be at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
