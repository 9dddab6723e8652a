"""What became of each object of a directory, counted: the table at the end of docs/kubernetes-objects.md.

To write the table anew: `python tests/kubernetes/object_census.py DIRECTORY`, with the repository on PYTHONPATH.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from engine.events import decode
from engine.events.inputs import JobObserved, NodeObserved, PodObserved
from engine.kubernetes.edge import Ignored, Refused, to_inputs
from engine.kubernetes.reading.documents import Document, Unreadable, read_documents

DOCUMENT = Path(__file__).parents[2] / "docs" / "kubernetes-objects.md"
MARK = "<!-- census -->\n"


def objects(directory: Path) -> list[Document | Unreadable]:
    """Read every file of a directory but its own description."""
    files = sorted(path for path in directory.iterdir() if path.suffix in {".json", ".yaml"})
    return [item for path in files for item in read_documents(path.read_bytes())]


def became(item: Document | Unreadable) -> tuple[str, str, str]:
    """Return the kind, the event that it became, and what that says."""
    if isinstance(item, Unreadable):
        return "(none)", "unreadable", item.reason
    kind = item.kind or "(none)"
    if str(item.content.get("apiVersion", "")).startswith("batch.volcano.sh/"):
        kind += " (Volcano)"
    outcome = to_inputs(item, "sample", 0)
    if isinstance(outcome, Ignored):
        return kind, "ignored", outcome.reason
    if isinstance(outcome, Refused):
        return kind, "dead letter", outcome.reason
    [message] = outcome.messages
    data = decode(message).data
    match data:
        case PodObserved() | JobObserved():
            says = f"{data.phase} / {data.reason}" if data.reason else str(data.phase)
        case NodeObserved():
            says = f"ready: {data.ready}"
        case _:
            says = ""
    return kind, f"`{message.type}`", says


def census(items: list[Document | Unreadable]) -> str:
    """Return the table: one row for each kind and what became of it, with the number of objects."""
    counts = Counter(became(item) for item in items)
    rows = [f"| {kind} | {event} | {says} | {count} |\n" for (kind, event, says), count in sorted(counts.items())]
    return "| kind | became | which says | objects |\n|---|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    head, _, _ = DOCUMENT.read_text().partition(MARK)
    DOCUMENT.write_text(head + MARK + "\n" + census(objects(Path(sys.argv[1]))))
