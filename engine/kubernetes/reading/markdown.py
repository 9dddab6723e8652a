"""Manifests in Markdown pages, such as the Kubernetes blog."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from engine.kubernetes.errors import ManifestError
from engine.kubernetes.reading.yaml_values import UnreadableYamlError, read_yaml

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_LANGUAGES: Final = frozenset({"yaml", "yml", "json"})
_ESCAPE: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
"""CommonMark escape: a backslash before ASCII punctuation."""


def extract_manifest(text: str) -> dict[str, Any]:
    r"""Return the first manifest in the code blocks of a page.

    A page from a converter has its language in the first line of the block, and Markdown escapes (`your\_repo`), which would be
    literal in a true code block; they are removed in such blocks only.

    Args:
        text: the page.

    Raises:
        ManifestError: no block has a mapping with `apiVersion` and `kind`; the message has the fault of the last one.
    """
    wrong = "it has no code block in YAML"
    for block in _blocks(text):
        try:
            documents = read_yaml(block.encode(errors="replace"))
        except UnreadableYamlError as error:
            wrong = f"a code block holds {error}"
            continue
        for document in documents:
            if isinstance(document, dict) and "apiVersion" in document and "kind" in document:
                return document
        wrong = "no code block has apiVersion and kind"
    message = f"the page holds no manifest: {wrong}"
    raise ManifestError(message)


def _blocks(text: str) -> Iterator[str]:
    """Yield the code blocks that may be YAML, unescaped if they came from a converter."""
    fence, language, lines = "", "", list[str]()
    for line in text.splitlines():
        mark = _FENCE.fullmatch(line)
        words = mark[2].split() if mark is not None else []
        if not fence:
            if mark is not None and len(words) <= 1:
                fence, language, lines = mark[1], "".join(words).lower(), []
        elif mark is not None and mark[1].startswith(fence) and not words:
            if language in _LANGUAGES:
                yield "\n".join(lines)
            elif not language:
                yield _unescaped(lines)
            fence = ""
        else:
            lines.append(line)


def _unescaped(lines: list[str]) -> str:
    first = next((index for index, line in enumerate(lines) if line.strip()), None)
    if first is None or lines[first].strip().lower() not in _LANGUAGES:
        return "\n".join(lines)
    return _ESCAPE.sub(r"\1", "\n".join(lines[first + 1 :]))
