"""Values: immutable structs that msgspec makes, reads and writes and pydantic validates, from one declaration."""

from __future__ import annotations

from typing import Any, dataclass_transform, get_type_hints

from msgspec import NODEFAULT, Struct, StructMeta, field
from msgspec.structs import fields, force_setattr
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

__all__ = ["Value"]


class _SharedDefaults(StructMeta):
    """Puts a default in the place of an equal value; msgspec leaves out of JSON only what *is* the default.

    `None`, Booleans, small numbers, and empty texts and tuples are one object each in CPython, so they need nothing.
    """

    def __new__(cls, name: str, bases: tuple[type[Any], ...], namespace: dict[str, Any], **config: Any) -> _SharedDefaults:  # noqa: ANN401  # options of a struct
        stated = {key: namespace[key] for key in namespace.get("__annotations__", ()) if key in namespace}
        inherited = dict(shared for base in reversed(bases) for shared in getattr(base, "SHARED", ()))
        shared = tuple(
            (inherited | {key: value for key, value in stated.items() if isinstance(value, str | Struct) and value}).items()
        )
        if shared:

            def share(self: Struct) -> None:
                for key, default in shared:
                    value = getattr(self, key)
                    if value is not default and value == default:
                        force_setattr(self, key, default)

            namespace |= {"SHARED": shared, "__post_init__": share}
        return super().__new__(cls, name, bases, namespace, **config)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False, metaclass=_SharedDefaults):
    """Base of values. Bounds stand in the annotations, for both libraries."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        hints, known = get_type_hints(cls, include_extras=True), []
        for one in fields(cls):
            schema = handler.generate_schema(hints[one.name])
            if one.default is not NODEFAULT:
                schema = core_schema.with_default_schema(schema, default=one.default)
            elif one.default_factory is not NODEFAULT:
                schema = core_schema.with_default_schema(schema, default_factory=one.default_factory)
            known.append(core_schema.dataclass_field(one.name, schema, kw_only=False))

        def made(read: tuple[dict[str, Any], None]) -> Value:
            return cls(**read[0])

        named = core_schema.dataclass_args_schema(cls.__name__, known)
        ref = f"{cls.__module__}.{cls.__qualname__}"
        return core_schema.no_info_after_validator_function(made, named, ref=ref, metadata={"value": cls})
