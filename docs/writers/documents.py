"""Writes the documents that are made from the code, the vocabulary and the commands: `python docs/writers/documents.py`.

They are committed under `docs/`; a test compares them with what is written from the code now.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from asyncapi import asyncapi
from catalogue import catalogue
from command_page import page

from engine.events.schema import json_schemas


def documents() -> dict[str, str]:
    """Return every document: path relative to the folder → text."""
    made = {
        f"schemas/{name}.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in json_schemas().items()
    }
    made["asyncapi.yaml"] = yaml.safe_dump(asyncapi(), sort_keys=False, allow_unicode=True, width=120)
    made["events.md"] = catalogue()
    made["cli.md"] = page()
    return made


def write_all(directory: Path) -> list[Path]:
    """Write every document below a folder, and remove schemas of types that are gone.

    Returns:
        The files that were written or removed because they differed.

    Raises:
        OSError: the folder cannot be written.
    """
    changed: list[Path] = []
    texts = documents()
    for name, text in texts.items():
        path = directory / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    for path in sorted((directory / "schemas").glob("*.json")):
        if f"schemas/{path.name}" not in texts:
            path.unlink()
            changed.append(path)
    return changed


if __name__ == "__main__":
    for written in write_all(Path(__file__).parents[1]):
        print(written)
