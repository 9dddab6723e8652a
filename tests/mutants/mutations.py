"""Small changes to a module's source, one at a time, each of which its tests should notice."""

from __future__ import annotations

import ast
import copy
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Change = tuple[str, str]
"""What stands in a node's place, and what was left out of it: empty if the node became another one."""

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
SQL = re.compile(r"\s*(PRAGMA|BEGIN|SELECT|INSERT|DELETE|UPDATE|CREATE|WITH|DROP)\b")
SQL_WORDS = {
    "FULL": "OFF",
    "WAL": "MEMORY",
    "IMMEDIATE": "DEFERRED",
    "ASC": "DESC",
    "DESC": "ASC",
    "max(": "min(",
    "min(": "max(",
    "AND": "OR",
    "UNIQUE": "",
    "REPLACE": "IGNORE",
    "IGNORE": "REPLACE",
    ">=": ">",
    "<=": "<",
    " > ": " >= ",
    " < ": " <= ",
    " = ": " <> ",
}
SHOWN = 60
"""Longest text of a change that is shown in whole."""
LARGE = 100
"""From here on a number is a size or a time, of which one more is nothing; it is made a thousand times larger and smaller."""


@dataclass(frozen=True)
class Mutant:
    """One change to one module."""

    module: str
    """Path of the file below the root."""
    scope: str
    """Function, method, class or module variable in which it stands, else `module`."""
    change: str
    """`before → after`, numbered where a scope has the same one twice."""
    lines: range
    """Lines of the statement that was changed."""
    function: range | None
    """Lines of the function around it; `None`: the statement runs at import."""
    source: str
    """The whole module, changed."""

    @property
    def key(self) -> str:
        """What names the mutant as long as its code stays."""
        return f"{self.module} | {self.scope} | {self.change}"


def sampled(mutants: list[Mutant], share: float, seed: str) -> list[Mutant]:
    """Return a share of mutants, the same ones in every run; a change elsewhere in the code changes nothing here."""
    return [mutant for mutant in mutants if int(hashlib.sha256(f"{seed}{mutant.key}".encode()).hexdigest()[:8], 16) < share * 2**32]


def mutants_of(module: str, source: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of its lines."""
    tree = ast.parse(source)
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []
    seen: Counter[tuple[str, str]] = Counter()
    for place in _places(tree, None):
        node = place.node
        begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        before = " ".join(text[begin:end].decode().split())
        for after, removed in place.changes():
            changed = (text[:begin] + after.encode() + text[end:]).decode()
            try:
                compile(changed, module, "exec")
            except SyntaxError:
                continue
            change = f"{_short(before)}: without {_short(removed)}" if removed else _shown(before, " ".join(after.split()))
            seen[place.scope, change] += 1
            if (times := seen[place.scope, change]) > 1:
                change += f" ({times})"
            found.append(Mutant(module, place.scope or "module", change, place.lines, place.function, changed))
    return found


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _shown(before: str, after: str) -> str:
    """Return both texts, of long ones the part that differs."""
    same = next((number for number, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    start = 0 if max(len(before), len(after)) <= SHOWN else max(0, same - SHOWN // 2)
    return f"{_short(before[start:])} → {_short(after[start:])}"


@dataclass(frozen=True)
class _Place:
    """A node that can be changed, with what surrounds it."""

    node: ast.expr | ast.stmt
    scope: str
    lines: range
    function: range | None
    changes: Callable[[], Iterator[Change]]


@dataclass(frozen=True)
class _Around:
    scope: str
    lines: range
    function: range | None


def _places(node: ast.AST, around: _Around | None) -> Iterator[_Place]:
    for child in _children(node):
        inner = around
        if isinstance(child, ast.stmt):
            inner = _inside(child, around)
        assert inner is not None or not isinstance(child, ast.expr)
        if isinstance(child, ast.expr | ast.stmt) and inner is not None:
            yield _Place(child, inner.scope, inner.lines, inner.function, lambda child=child: _changes(child, node))
        yield from _places(child, inner)


def _inside(statement: ast.stmt, around: _Around | None) -> _Around:
    lines = range(statement.lineno, statement.end_lineno + 1)
    outer = around.scope if around else ""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return _Around(f"{outer}.{statement.name}".strip("."), range(statement.lineno, statement.lineno + 1), lines)
        case ast.ClassDef():
            return _Around(f"{outer}.{statement.name}".strip("."), range(statement.lineno, statement.lineno + 1), None)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if not (around and around.function):
            return _Around(f"{outer}.{name}".strip("."), lines, None)
    return _Around(outer, lines, around.function if around else None)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is inside a node and worth changing: no annotations, texts for people, imports, decorators."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            return
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return
        case ast.Subscript(value=ast.Name(id="Literal")):
            return
        case ast.Call(func=ast.Attribute(value=ast.Name(id="logger" | "_logger" | "_LOG" | "log"))):
            return
        case ast.Call(func=ast.Name(id="cast" | "TypeVar" | "NewType")):
            yield from node.args[1:]
            return
        case ast.Raise(exc=ast.Call()):
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from (default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None)
            yield from node.body
            return
        case ast.ClassDef():
            yield from node.body
            return
        case ast.AnnAssign():
            if node.value is not None:
                yield node.value
            return
    yield from ast.iter_child_nodes(node)


def _changes(node: ast.expr | ast.stmt, parent: ast.AST) -> Iterator[Change]:
    """Yield what may stand in a node's place, one for each mutant."""
    yield from ((text, "") for text in _replacements(node, parent))
    yield from _removals(node, parent)


def _replacements(node: Any, parent: ast.AST) -> Iterator[str]:
    match node:
        case ast.Compare():
            for number, operator in enumerate(node.ops):
                for other in COMPARISONS[type(operator)]:
                    yield _with(node, lambda it, number=number, other=other: it.ops.__setitem__(number, other()))
        case ast.UnaryOp(op=ast.Not()):
            yield f"({ast.unparse(node.operand)})"
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            yield _with(node, lambda it: setattr(it, "op", ARITHMETIC[type(it.op)]()))
        case ast.AugAssign() if type(node.op) in ARITHMETIC:
            yield _with(node, lambda it: setattr(it, "op", ARITHMETIC[type(it.op)]()), expression=False)
            yield "pass"
        case ast.Constant() if not (isinstance(node.value, str) and isinstance(parent, ast.List | ast.Tuple | ast.Set | ast.Dict)):
            yield from _constants(node.value)
        case ast.IfExp():
            yield f"({ast.unparse(node.body)})"
            yield f"({ast.unparse(node.orelse)})"
        case ast.If() | ast.While() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield _with(node, lambda it: setattr(it, "test", ast.UnaryOp(ast.Not(), it.test)), expression=False)
        case ast.Return(value=value) if value is not None and not (isinstance(value, ast.Constant) and not value.value):
            yield "return None"
        case ast.Raise() | ast.Delete() | ast.Continue() | ast.Break() | ast.Expr(value=ast.Call() | ast.Await()):
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass"


def _removals(node: Any, parent: ast.AST) -> Iterator[Change]:
    """Yield a node without one of its parts: an operand, an element, a row, an argument by name, a filter."""
    match node:
        case ast.BoolOp(values=parts):
            for number, part in enumerate(parts):
                yield _with(node, lambda it, number=number: it.values.pop(number)), ast.unparse(part)
        case ast.List(elts=parts, ctx=ast.Load()) | ast.Tuple(elts=parts, ctx=ast.Load()) | ast.Set(elts=parts) if _is_table(
            node, parent
        ):
            for number, part in enumerate(parts):
                yield _with(node, lambda it, number=number: it.elts.pop(number)), ast.unparse(part)
        case ast.Dict():
            for number, key in enumerate(node.keys):
                shown = ast.unparse(key) if key else "**"
                yield _with(node, lambda it, number=number: (it.keys.pop(number), it.values.pop(number))), shown
        case ast.Call():
            for number, keyword in enumerate(node.keywords):
                if keyword.arg is not None:
                    yield _with(node, lambda it, number=number: it.keywords.pop(number)), keyword.arg
        case ast.Try(handlers=handlers):
            for number, handler in enumerate(handlers):
                if len(handler.body) == 1 and isinstance(handler.body[0], ast.Raise) and handler.body[0].exc is None:
                    continue  # it is as if it were not there
                text = _with(node, lambda it, number=number: setattr(it.handlers[number], "body", [ast.Raise()]), expression=False)
                yield text, f"except {ast.unparse(handler.type) if handler.type else ''}".strip()
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            for number, loop in enumerate(node.generators):
                for place, condition in enumerate(loop.ifs):
                    text = _with(node, lambda it, number=number, place=place: it.generators[number].ifs.pop(place))
                    yield text, f"if {ast.unparse(condition)}"


def _is_table(node: ast.expr, parent: ast.AST) -> bool:
    """Tell whether each element of a literal is a case of its own; those of a pair that is returned or unpacked are not."""
    return not isinstance(node, ast.Tuple) or isinstance(parent, ast.Compare | ast.Assign | ast.AnnAssign | ast.Call | ast.For)


def _with(node: Any, change: Callable[[Any], object], *, expression: bool = True) -> str:
    """Return the text of a changed copy of a node."""
    changed = copy.deepcopy(node)
    change(changed)
    if isinstance(changed, ast.BoolOp) and len(changed.values) == 1:
        changed = changed.values[0]
    text = ast.unparse(ast.fix_missing_locations(changed))
    return f"({text})" if expression else text.replace("\n", "\n" + " " * node.col_offset)


def _constants(value: object) -> Iterator[str]:
    match value:
        case bool():
            yield repr(not value)
        case int() if abs(value) < LARGE:
            yield repr(value + 1)
        case int() | float() if value:
            yield repr(value * 1000)
            yield repr(type(value)(value / 1000))
        case str() if SQL.match(value):
            for word, other in SQL_WORDS.items():
                if word in value:
                    yield repr(value.replace(word, other, 1))
        case str() if value and not any(part.isspace() for part in value):
            yield repr(f"~{value}")
        case bytes() if value:
            yield repr(b"~" + value)
