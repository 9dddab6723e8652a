"""Values: immutable structs that msgspec makes, reads and writes and pydantic validates, from one declaration."""

from __future__ import annotations

import dataclasses
from functools import cache
from inspect import get_annotations
from typing import Any, ClassVar, dataclass_transform, get_type_hints

from msgspec import NODEFAULT, Struct, StructMeta, field
from msgspec.structs import fields, force_setattr
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class _SharedDefaults(StructMeta):
    """Puts a default in the place of an equal value; msgspec leaves out of JSON only what *is* the default.

    `None`, Booleans, small numbers, and empty texts and tuples are one object each in CPython, so they need nothing.
    """

    def __new__(cls, name: str, bases: tuple[type[Any], ...], namespace: dict[str, Any], **config: Any) -> _SharedDefaults:  # noqa: ANN401  # options of a struct
        shared = [one for base in reversed(bases) for one in getattr(base, "SHARED", ())]
        for key in namespace.get("__annotations__", ()):
            value = namespace.get(key)
            if isinstance(value, str | Struct) and value:
                shared.append((key, value))
        if shared:
            if "__post_init__" in namespace:
                raise TypeError(f"{name}.__post_init__ would not be called: its defaults are shared by one")

            def share(self: Struct) -> None:
                for key, default in shared:
                    value = getattr(self, key)
                    if value is not default and value == default:
                        force_setattr(self, key, default)

            namespace |= {"SHARED": tuple(shared), "__post_init__": share}
        return super().__new__(cls, name, bases, namespace, **config)


@cache
def _dataclass_fields(cls: type[Value]) -> dict[str, dataclasses.Field[Any]]:
    known, hints = {one.name: one for one in fields(cls)}, get_type_hints(cls, include_extras=True)
    found: dict[str, dataclasses.Field[Any]] = {}
    for name in hints:  # msgspec puts fields by keyword only last
        if name in known:
            stated = {"default": known[name].default, "default_factory": known[name].default_factory}
            given: Any = {key: value for key, value in stated.items() if value is not NODEFAULT}
            one = found[name] = dataclasses.field(**given)
            one.name, one.type = name, hints[name]
            one._field_type = dataclasses._FIELD  # type: ignore[attr-defined]  # noqa: SLF001  # as for any dataclass
    return found


class _DataclassFields:
    """Fields for `dataclasses` (`fields`, `replace`, `asdict`) and pydantic, in order of declaration."""

    def __get__(self, _value: object, cls: type[Value]) -> dict[str, dataclasses.Field[Any]]:
        return _dataclass_fields(cls)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False, metaclass=_SharedDefaults):
    """Base of values. Bounds stand in the annotations, for both libraries."""

    __dataclass_fields__: ClassVar[Any] = _DataclassFields()

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        known: list[core_schema.DataclassField] = []
        inherited: list[core_schema.DataclassField] = []
        for one in dataclasses.fields(cls):
            schema, default = handler.generate_schema(one.type), one.default
            if isinstance(default, Struct):  # its content is no part of the schema, as of a default that a function makes
                schema = core_schema.with_default_schema(schema, default_factory=lambda default=default: default)
            elif default is not dataclasses.MISSING:
                schema = core_schema.with_default_schema(schema, default=default)
            elif one.default_factory is not dataclasses.MISSING:
                schema = core_schema.with_default_schema(schema, default_factory=one.default_factory)
            # Schemas name inherited fields with a default last: the fields of every attempt's event behind its own.
            optional = schema["type"] == "default" and one.name not in get_annotations(cls)
            (inherited if optional else known).append(core_schema.dataclass_field(one.name, schema, kw_only=False))
        arguments = core_schema.dataclass_args_schema(cls.__name__, [*known, *inherited])
        names, ref = [one.name for one in dataclasses.fields(cls)], f"{cls.__module__}.{cls.__qualname__}"
        return core_schema.dataclass_schema(cls, arguments, names, ref=ref, slots=True, post_init=hasattr(cls, "__post_init__"))


def _blank(cls: type[Value]) -> Value:
    return cls(**dict.fromkeys(cls.__struct_fields__))


Value.__new__ = _blank  # type: ignore[assignment]  # pydantic makes a value so, then sets its fields; msgspec never does
