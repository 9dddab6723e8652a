"""YAML as Kubernetes means it: JSON in other clothes. Whatever the bytes, the answer is plain JSON values or a reason."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

__all__ = ["UnreadableYamlError", "read_yaml"]

_DEEPEST: Final = 200
_SLIDE: Final = re.compile(rb"[ \t?:-]{1000}")
"""Indentation deep enough to overflow the stack of the C parser, which does not guard it."""
_TAGS: Final = "tag:yaml.org,2002:"


class UnreadableYamlError(ValueError):
    """Raised when bytes are no YAML, or YAML that no JSON can stand for."""


# libyaml is ten times faster; PyYAML is at times built without it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]  # the base is chosen at run time
    """Reads times, and other scalars that JSON lacks, as the strings that stand there."""

    merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        self.merged += len(node.value)
        if self.merged > 100_000:
            raise yaml.YAMLError("merge keys (<<) that grow without bound")


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag not in {f"{_TAGS}timestamp", f"{_TAGS}value"}]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
for _tag in ("timestamp", "binary"):
    _Loader.add_constructor(_TAGS + _tag, _Base.construct_yaml_str)
for _tag in ("omap", "pairs"):
    _Loader.add_constructor(_TAGS + _tag, _Base.construct_yaml_seq)
_Loader.add_constructor(f"{_TAGS}set", _Base.construct_yaml_map)


def read_yaml(content: bytes) -> list[object]:
    """Return the documents of a YAML stream as plain JSON values; empty documents are left out.

    Keys become strings; anchors and merge keys are resolved, within bounds.

    Raises:
        UnreadableYamlError: it is no YAML, or refers to itself, nests too deeply, or expands without bound.
    """
    if _SLIDE.search(content):
        raise UnreadableYamlError("not YAML: indented by 1,000 columns or more")
    try:
        found = [document for document in yaml.load_all(content, Loader=_Loader) if document is not None]
    except Exception as error:  # noqa: BLE001  # PyYAML lets through whatever its constructors meet (ValueError, RecursionError, …)
        raise UnreadableYamlError(f"not YAML: {_short(error)}") from None
    # Without anchors there are fewer values than bytes; with them a few lines can stand for billions.
    budget = [10 * len(content) + 1000]
    return [_plain(document, budget, _DEEPEST) for document in found]


def _plain(value: object, budget: list[int], depth: int) -> object:
    budget[0] -= 1
    if budget[0] < 0 or depth < 0:
        raise UnreadableYamlError("anchors that refer to themselves, or expand without bound, or more than 200 levels")
    if isinstance(value, dict):
        return {_key(key): _plain(entry, budget, depth - 1) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry, budget, depth - 1) for entry in value]
    if isinstance(value, float) and value - value != 0:
        raise UnreadableYamlError("a number that is not finite")
    return value


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def _short(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark
        place = f" (line {mark.line + 1} of the document)" if mark is not None else ""
        return f"{error.problem or error.context or type(error).__name__}{place}"
    return (str(error).splitlines() or [type(error).__name__])[0]
