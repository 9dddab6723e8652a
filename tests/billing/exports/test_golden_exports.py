"""Exports are the bytes that are committed: on this machine as on the one that wrote them."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest
from focus_checker import check
from golden_files import FILES
from pyarrow import parquet
from usage_records import SELLER, sample

from engine.billing.exports.formats import export


@pytest.mark.parametrize("name", FILES)
def test_the_sample_is_exported_as_committed(name: str) -> None:
    stream = io.BytesIO()
    export(name, sample(), SELLER, stream)
    committed = FILES[name].read_bytes()
    if name == "parquet" and (writer := parquet.read_metadata(FILES[name]).created_by) != _writer():
        pytest.skip(f"written by {writer}, which pyarrow {pa.__version__} need not match")
    assert stream.getvalue() == committed, "`python tests/billing/exports/golden_files.py` writes it anew"


def _writer() -> str:
    stream = io.BytesIO()
    export("parquet", [], SELLER, stream)
    created: str = parquet.read_metadata(stream).created_by
    return created


@pytest.mark.parametrize("version", ["1.2", "1.4"])
def test_the_committed_files_keep_the_specification(version: str) -> None:
    assert check(FILES[f"focus-{version}"].read_bytes(), version) == []


def test_the_committed_files_are_all_there_is() -> None:
    folder: Path = FILES["csv"].parent
    assert sorted(folder.iterdir()) == sorted(FILES.values())
