"""YAML as Kubernetes uses it, a notation for JSON. Any bytes give plain JSON values or an error.

Values are built from libyaml's events, not by its composer, which recurses in C without a limit on nesting and needs about 500
bytes per scalar. Here nesting, size and the expansion of aliases are limited during parsing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import yaml

from engine.events.bounds import NESTING, NUMBER_CHARACTERS, VALUES, YAML_TAG_DIRECTIVES
from engine.events.values import OddlyWritten

_TAGS: Final = "tag:yaml.org,2002:"
_KINDS: Final = {"map": "mapping", "set": "mapping", "seq": "sequence", "omap": "sequence", "pairs": "sequence"}
"""Kind of collection by tag."""


class UnreadableYamlError(ValueError):
    """Raised when bytes are not YAML, or YAML without an equivalent in JSON."""

    def __init__(self, fault: str, line: int | None = None) -> None:
        super().__init__(fault if line is None else f"{fault} (line {line} of the document)")
        self.fault = fault
        self.line = line
        """Line of the fault, from 1; `None`: unknown."""


class RepeatedKeyError(UnreadableYamlError):
    """Raised when a mapping has a repeated key."""

    def __init__(self, key: str, line: int) -> None:
        super().__init__(f"the key {key[:80]!r} stands there twice", line)


# libyaml is ten times faster, but PyYAML may be built without it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]  # the base is chosen at run time
    """YAML loader that leaves times as strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag not in {f"{_TAGS}timestamp", f"{_TAGS}value"}]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


class _Built(NamedTuple):
    """A value and the cost of an alias to it."""

    value: object
    values: int
    """Number of values in it, including itself, with aliases expanded."""
    levels: int
    """Nesting of collections."""


class _Merge:
    """Marker of the merge key `<<`."""


class _Open:
    """Collection that has not ended."""

    __slots__ = ("anchor", "is_mapping", "items", "keys", "levels", "values")

    def __init__(self, anchor: str | None, *, is_mapping: bool) -> None:
        self.anchor = anchor
        self.is_mapping = is_mapping
        self.items: list[Any] = []
        """Entries; alternating keys and values for a mapping."""
        self.keys: set[str] = set()
        self.values = 1
        self.levels = 0


def read_yaml(content: bytes, values: int = VALUES, *, unique: bool = True) -> list[object]:
    """Return the documents of a YAML stream as plain JSON values, without empty documents.

    Keys become strings; anchors and merge keys are resolved, within bounds. A whole number is `OddlyWritten` unless its digits are
    plain.

    Args:
        content: the bytes.
        values: maximum number of values, counting each use of an alias.
        unique: reject a repeated key in a mapping; otherwise its last value wins.

    Raises:
        RepeatedKeyError: a mapping has a repeated key.
        UnreadableYamlError: it is not YAML, refers to itself, nests deeper than `NESTING`, or has too many values or too long a
            number; the message has the bound.
    """
    try:
        return _Documents(content, values, unique=unique).read()
    except UnreadableYamlError:
        raise
    except Exception as error:  # noqa: BLE001  # PyYAML lets through whatever its constructors meet (ValueError, OverflowError, …)
        # libyaml's own bound, since 0.2.6, may be reached first, because it reads brackets ahead.
        if getattr(error, "problem", None) == "exceeded maximum nesting depth":
            raise _too_deep() from None
        mark = getattr(error, "problem_mark", None)
        raise UnreadableYamlError(f"not YAML: {_short(error)}", None if mark is None else mark.line + 1) from None


class _Documents:
    """Conversion of one stream from events to values."""

    def __init__(self, content: bytes, values: int, *, unique: bool) -> None:
        # UTF-16, which libyaml accepts too, has a zero beside each byte.
        if content.replace(b"\0", b"").count(b"%TAG") > YAML_TAG_DIRECTIVES:
            raise UnreadableYamlError(f"more than {YAML_TAG_DIRECTIVES} %TAG directives")  # libyaml compares all pairs
        self._loader = _Loader(content)
        self._unique = unique
        # Without aliases there are fewer values than bytes; with them a few lines may expand to billions of values.
        self._most = min(values, 10 * len(content) + 1000)
        self._left = self._most
        self._open: list[_Open] = []
        self._anchors: dict[str, _Built | None] = {}
        """Value by anchor; `None`: not complete yet."""
        self._found: list[object] = []
        self._event: Any = None
        """Current collection."""

    def read(self) -> list[object]:
        loader = self._loader
        while loader.check_event():
            event = self._event = loader.get_event()
            match event:
                case yaml.ScalarEvent():
                    self._add(_Built(self._scalar(event), 1, 0), event.anchor)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._begin(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._end()
                case yaml.AliasEvent():
                    self._add(self._aliased(str(event.anchor)), None)
                case yaml.DocumentStartEvent():
                    self._anchors.clear()
        return self._found

    def _begin(self, event: Any) -> None:  # noqa: ANN401 - PyYAML's types are not precise here
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in {None, "!"} and _KINDS.get(event.tag.removeprefix(_TAGS)) != ("mapping" if is_mapping else "sequence"):
            raise UnreadableYamlError(f"not YAML: no JSON can stand for the tag {event.tag[:80]}")
        if len(self._open) == NESTING:
            raise _too_deep()
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Open(event.anchor, is_mapping=is_mapping))

    def _end(self) -> None:
        ended = self._open.pop()
        value = self._mapping(ended) if ended.is_mapping else ended.items
        self._add(_Built(value, ended.values, ended.levels + 1), ended.anchor)

    def _add(self, built: _Built, anchor: str | None) -> None:
        """Add a value to its parent."""
        self._spend(1)
        if anchor is not None:
            self._anchors[anchor] = built
        if not self._open:
            if built.value is not None:
                self._found.append(built.value)
            return
        parent = self._open[-1]
        is_key = parent.is_mapping and len(parent.items) % 2 == 0 and built.value is not _Merge
        parent.items.append(self._new_key(built.value, parent.keys) if is_key else built.value)
        parent.values += built.values
        parent.levels = max(parent.levels, built.levels)

    def _new_key(self, value: object, keys: set[str]) -> str:
        key = _key(value)
        if self._unique and key in keys:
            raise RepeatedKeyError(key, self._line())
        keys.add(key)
        return key

    def _line(self) -> int:
        line: int = self._event.start_mark.line
        return line + 1

    def _aliased(self, name: str) -> _Built:
        built = self._anchors.get(name)
        if built is None:
            fault = "anchors that refer to themselves" if name in self._anchors else f"the alias {name[:80]} names no anchor"
            raise UnreadableYamlError(fault)
        if len(self._open) + built.levels > NESTING:
            raise _too_deep()
        self._spend(built.values)
        return built

    def _mapping(self, ended: _Open) -> dict[str, Any]:
        pairs = list(zip(ended.items[::2], ended.items[1::2], strict=True))
        content: dict[str, Any] = {}
        for key, value in pairs:
            if key is not _Merge:
                continue
            sources = value if isinstance(value, list) else [value]
            for source in reversed(sources):  # the first one wins
                if not isinstance(source, Mapping):
                    raise UnreadableYamlError("not YAML: a merge key (<<) takes a mapping or a list of mappings")
                self._spend(len(source))
                ended.values += len(source)
                content |= source
        content |= {key: value for key, value in pairs if key is not _Merge}
        return content

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        loader, text = self._loader, event.value
        tag = event.tag
        if tag in {None, "!"}:
            tag = loader.resolve(yaml.ScalarNode, text, event.implicit)
        match tag.removeprefix(_TAGS):
            case "str" | "timestamp" | "binary":
                return text
            case "null":
                return None
            case "bool":
                return loader.construct_yaml_bool(yaml.ScalarNode(tag, text))
            case "int" | "float" as kind:
                if len(text) > NUMBER_CHARACTERS:
                    raise UnreadableYamlError(f"not YAML: a number of more than {NUMBER_CHARACTERS} characters")
                node = yaml.ScalarNode(tag, text)
                number = loader.construct_yaml_int(node) if kind == "int" else loader.construct_yaml_float(node)
                if isinstance(number, float) and number - number != 0:
                    raise UnreadableYamlError(f"not YAML: a number that is not finite, {text}", self._line())
                return number if kind == "float" or str(number) == text else OddlyWritten(number)
            case "merge" if self._open and self._open[-1].is_mapping and len(self._open[-1].items) % 2 == 0:
                return _Merge
            case "merge":
                return text
        raise UnreadableYamlError(f"not YAML: no JSON can stand for the tag {tag[:80]}")

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise UnreadableYamlError(
                f"more than {self._most:,} values: too large, or anchors and merge keys that expand without bound"
            )


def _too_deep() -> UnreadableYamlError:
    return UnreadableYamlError(f"nested more than {NESTING} levels deep")


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, list | dict):
        raise UnreadableYamlError("not YAML: a key that is a list or a mapping")
    return "null" if key is None else str(key)


def _short(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        return error.problem or error.context or type(error).__name__
    return (str(error).splitlines() or [type(error).__name__])[0]
