"""Label selectors, node requirements and tolerations (Kubernetes)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.events.pod_shape import LabelSelector, NodeTerm, PodTerm, Requirement, Toleration
from engine.scheduling.cluster.entities import Taint
from engine.scheduling.cluster.nodes import Column, NodeTable
from engine.scheduling.cluster.presence import PodKind


def requirement_holds(requirement: Requirement, value: str | None) -> bool:
    """Return whether a label's value (`None`: absent) meets a requirement."""
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            number, limit = _integer(value), _integer(requirement.values[0] if len(requirement.values) == 1 else None)
            if number is None or limit is None:
                return False
            return number > limit if requirement.operator == "Gt" else number < limit


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text is not None and len(text) <= 20 else None
    except ValueError:
        return None


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return whether a selector matches labels; an empty one matches all."""
    return all(labels.get(key) == value for key, value in selector.match_labels) and all(
        requirement_holds(requirement, labels.get(requirement.key)) for requirement in selector.requirements
    )


def pod_term_matches(term: PodTerm, namespace: str, kind: PodKind) -> bool:
    """Return whether an affinity term, stated by a pod of a namespace, selects pods of a kind."""
    pod_class, where = kind
    if term.selector is None:
        return False
    if not term.all_namespaces and where not in (term.namespaces or (namespace,)):
        return False
    return selects(term.selector, pod_class.labels)


def node_terms(table: NodeTable, terms: Sequence[NodeTerm]) -> NDArray[np.bool_]:
    """Return a mask of the nodes that match any of the terms."""
    found = np.zeros(len(table.nodes), np.bool_)
    for term in terms:
        if term.labels or term.fields:
            matched = np.ones(len(table.nodes), np.bool_)
            for requirement in term.labels:
                matched &= column_holds(table.column(requirement.key), requirement)
            for requirement in term.fields:
                column = table.names() if requirement.key == "metadata.name" else table.column("")
                matched &= column_holds(column, requirement)
            found |= matched
    return found


def column_holds(column: Column, requirement: Requirement) -> NDArray[np.bool_]:
    """Return a mask of the nodes that meet a requirement; it is evaluated once per distinct value."""
    return np.array([requirement_holds(requirement, value) for value in column.values], np.bool_)[column.codes]


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    """Return whether any of the tolerations matches a taint."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator == "Exists" or (toleration.key and toleration.value == taint.value):
            return True
    return False
