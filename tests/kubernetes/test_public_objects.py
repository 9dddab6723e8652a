"""Public test objects of other projects, and the page that tells what becomes of each kind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from object_census import DOCUMENT, MARK, census, objects

from engine.kubernetes.edge import IGNORED_KINDS, Refused, to_inputs
from engine.kubernetes.manifests.cluster_objects import OBJECT_KINDS
from engine.kubernetes.observation.inspection import inspect_job, inspect_pod
from engine.kubernetes.observation.jobs import READERS
from engine.kubernetes.reading.documents import Document

SHARED = os.environ.get("LAHAR_SHARED")
with_objects = pytest.mark.skipif(SHARED is None, reason="LAHAR_SHARED does not name the directory of test data")


def directory() -> Path:
    return Path(SHARED or ".") / "pods"


def test_the_page_names_every_kind() -> None:
    page = DOCUMENT.read_text().partition(MARK)[0]
    for kind, why in IGNORED_KINDS.items():
        assert f"| {kind} | {why} |" in page
    assert all(kind in page for kind in READERS)
    for kind in OBJECT_KINDS:
        assert kind in page


@with_objects
def test_the_census_on_the_page_is_that_of_the_objects() -> None:
    """To write it anew: python tests/kubernetes/object_census.py $LAHAR_SHARED/pods"""
    assert DOCUMENT.read_text().partition(MARK)[2].strip() == census(objects(directory())).strip()


@with_objects
def test_every_object_is_read_and_classified() -> None:
    items = objects(directory())
    assert len(items) == 180
    assert all(isinstance(item, Document) for item in items)
    for item in items:
        assert not isinstance(to_inputs(item, "c", 0), Refused)
        json.dumps([inspect_pod(item), inspect_job(item)])
