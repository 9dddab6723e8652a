"""A file is read within bounds before anything is made of it: no line, row or page costs more than its bytes."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from pathlib import Path

import pytest
from cost_meter import Meter

from engine.application import files as manifest_files
from engine.application.files import read_objects
from engine.events.bounded_lines import LongLineError, bounded_lines
from engine.kubernetes.errors import ManifestError
from engine.kubernetes.reading.markdown import extract_manifest
from engine.simulation.errors import TraceError
from engine.simulation.traces import files, importing
from engine.simulation.traces.importing import read_trace

STATUS = "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\n"
MIB = 1 << 20


def test_one_line_of_a_small_archive_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(STATUS.encode() + b"x" * (64 * MIB)))
    assert path.stat().st_size < MIB
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match="line 2 has more than 65,536 bytes, which no row of a trace has"):
            read_trace(path, "philly-status")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB


@pytest.mark.parametrize("bound", ["TRACE_ROWS", "TRACE_PODS"])
def test_a_trace_of_too_many_rows_or_pods_is_refused_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(importing, bound, 2)
    path = tmp_path / "t.csv"
    path.write_text(STATUS + "".join(f"{number},u,1,1,1,1,1,1,Pass\n" for number in range(3)), encoding="ascii")
    with pytest.raises(TraceError, match=r"line 4: more than .*; split the file"):
        read_trace(path, "philly-status")


@pytest.mark.parametrize("line", ["\n", ";\n", "  \n"], ids=["blank", "comment", "spaces"])
def test_lines_of_a_trace_that_are_no_rows_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr(files, "TRACE_LINES", 10)
    path = tmp_path / "t.swf.gz"
    path.write_bytes(gzip.compress(line.encode() * 1_000))
    with pytest.raises(TraceError, match="line 11: a trace has at most 10 lines; split the file"):
        read_trace(path, "swf")


def test_lines_are_read_up_to_their_bound_and_no_further() -> None:
    file = io.BytesIO(b"1234\n" + b"x" * 100)
    lines = bounded_lines(file, 5)
    assert next(lines) == b"1234\n"
    with pytest.raises(LongLineError, match="line 2 has more than 5 bytes"):
        next(lines)
    assert file.tell() == 5 + 6


def test_a_file_of_manifests_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_files, "FILE_BYTES", 100)
    path = tmp_path / "job.yaml"
    path.write_bytes(b"#" * 101)
    with pytest.raises(ValueError, match="has more than 100 bytes; split it"):
        read_objects(path)


def page(content: bytes) -> None:
    with pytest.raises(ManifestError):
        extract_manifest(content.decode())


@pytest.mark.parametrize("line", ["```{}a a", "~~~{}", "    {}```", "```{}`", "```\n{}x"])
@pytest.mark.parametrize("filling", [" ", "`", "~"])
def test_a_line_of_a_page_costs_what_its_length_is(line: str, filling: str) -> None:
    meter = Meter()
    meter.run = page
    meter.check(line.format(filling * 60_000).encode())
