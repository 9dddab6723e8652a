"""Files of objects and manifests."""

from __future__ import annotations

from pathlib import Path

from engine.application.errors import RequestError
from engine.events.bounds import FILE_BYTES
from engine.kubernetes.ingest_report import IngestReport
from engine.kubernetes.reading.documents import Document, read_documents
from engine.kubernetes.reading.markdown import extract_manifest
from engine.kubernetes.reading.object_files import DamagedFileError, open_objects
from engine.kubernetes.reading.positions import Positions


def read_objects(path: Path, remedy: str = "nothing is applied") -> list[Document]:
    """Read the objects of a file: YAML, JSON or the YAML block of a Markdown page; `-` is standard input.

    Args:
        path: the file.
        remedy: what to say where a part cannot be read.

    Raises:
        ValueError: it is larger than `FILE_BYTES`, holds no object, or a part cannot be read: the text says how much, where, why.
        OSError: the file cannot be read.
    """
    with open_objects(path) as source:
        content = source.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise RequestError(f"{path}: has more than {FILE_BYTES:,} bytes; split it, or use `lahar ingest` for cluster state")
    if path.suffix.lower() in {".md", ".markdown"}:
        try:
            return [Document(1, "", extract_manifest(content.decode()))]
        except ValueError as error:
            raise RequestError(f"{path}: {error}") from None
    documents: list[Document] = []
    tally, positions = IngestReport(), Positions(content)
    for item in read_documents(content):
        tally.add(f"{path}: ", item)
        if isinstance(item, Document):
            documents.append(item._replace(positions=positions))
    if not tally.complete:
        raise RequestError(f"{tally.shortfall()}; {remedy}")
    if not documents:
        raise RequestError(f"{path}: holds no object")
    return documents


def read_given(path: Path) -> list[Document]:
    """Read the objects of a file that is only used, and not applied; as `read_objects`, but what cannot be read is bad input.

    Raises:
        ValueError: a part cannot be read, it is too large, or holds no object.
        OSError: the file cannot be read.
    """
    try:
        return read_objects(path, "correct the file")
    except DamagedFileError as error:
        raise RequestError(str(error)) from None


def read_manifests(path: Path) -> list[Document]:
    """Read the job manifests of a file.

    Raises:
        ValueError: it holds other objects, or cannot be read.
        OSError: the file cannot be read.
    """
    documents = read_objects(path)
    for document in documents:
        if document.kind != "Job":
            raise RequestError(
                f"{path}: {document.place}: {document.kind or 'no kind'} is not a Job; use `lahar apply` for other objects"
            )
    return documents
