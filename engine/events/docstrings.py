"""Docstrings of a class's fields, read from its source.

Python keeps a class's docstring but drops the string behind a field. Schemas and the catalogue of events are generated from these
strings, so that the meaning of a field is written once.
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import fields
from functools import cache
from typing import Any

from engine.events.glossary import COMMON


def field_docs(cls: type[Any]) -> dict[str, str]:
    """Return the docstring of each field of a class of events' data: its own, that of a base, else the glossary's."""
    docs = {field.name: COMMON[field.name] for field in fields(cls) if field.name in COMMON}
    for base in reversed(cls.__mro__):
        docs |= _module_docs(base.__module__).get(base.__qualname__, {})
    return docs


def summary(cls: type[Any]) -> str:
    """Return the docstring of a class as text; empty for one that has none (a dataclass's signature does not count)."""
    text = inspect.cleandoc(cls.__doc__ or "")
    return "" if text.startswith(f"{cls.__name__}(") else _for_readers(text)


@cache
def _module_docs(module: str) -> dict[str, dict[str, str]]:
    if not module.startswith(("engine.", "statemachines.")):
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _class_docs(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _for_readers(text: str) -> str:
    # Fields that hold their default are left out of the JSON, so a None is never seen there.
    return text.replace("`None`", "absent")


def _class_docs(node: ast.ClassDef) -> dict[str, str]:
    docs: dict[str, str] = {}
    for statement, following in zip(node.body, node.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = _for_readers(" ".join(text.split()))
            case _:
                pass
    return docs
