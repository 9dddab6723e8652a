"""YAML as manifests use it: what JSON can say, and nothing else.

Times stay texts, keys are texts, numbers are finite, and anchors may not blow a small text up: what comes out can be put into
an event as it is. JSON is YAML, so it is read too.
"""

from __future__ import annotations

import math
from typing import Any, Final

import yaml

from engine.kubernetes.errors import ManifestError

__all__ = ["read_yaml"]

_DEEPEST: Final = 64
_MOST: Final = 200_000
"""Values in one document, anchors written out. A manifest of the largest size that an API server takes has fewer."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without its guess that some texts are times."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(text: str) -> list[Any]:
    """Read the documents of a text; an empty document is `None`.

    Raises:
        ManifestError: the text is no YAML, or says what JSON cannot.
    """
    try:
        # A subclass of the safe loader builds nothing but plain values.
        documents = list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:
        # The last four are what PyYAML's constructors let through: numbers without digits, unhashable keys, deep nesting.
        message = f"is not YAML: {error}"
        raise ManifestError(message) from error
    return [_Copy().of(document, 0) for document in documents]


class _Copy:
    """Copies a document, counting."""

    def __init__(self) -> None:
        self._values = 0

    def of(self, value: object, depth: int) -> Any:  # noqa: ANN401 - JSON has no narrower type
        self._values += 1
        if self._values > _MOST:
            raise ManifestError(f"holds more than {_MOST} values, anchors written out")
        if depth > _DEEPEST:
            raise ManifestError(f"is nested more than {_DEEPEST} deep")
        if isinstance(value, dict):
            return {_key(key): self.of(one, depth + 1) for key, one in value.items()}
        if isinstance(value, list):
            return [self.of(one, depth + 1) for one in value]
        if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        raise ManifestError(f"holds a {type(value).__name__} ({value!r:.40}), which JSON cannot say")


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    raise ManifestError(f"has a key that is no text: {key!r:.40}; put it in quotes")
