"""Mutation testing: programs with one small mistake, which good tests reject.

The operators are the usual ones (DeMillo, Lipton, Sayward 1978; as in mutmut and cosmic-ray). A mutant may be
equivalent to its origin, which is undecidable in general.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, NamedTuple, TypeVar

from reflexion_lab.text.replies.syntax import tree_of

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip
"""The shifted boundary, and the opposite comparison."""
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
TWINS = {"min": "max", "any": "all", "upper": "lower", "lstrip": "rstrip", "startswith": "endswith", "find": "rfind"}
NAMES = {**TWINS, **{twin: name for name, twin in TWINS.items()}, "sorted": "list", "set": "list", "abs": "int"}
"""Built-in functions and methods that are easily confused."""
ANNOTATIONS = ("annotation", "returns", "decorator_list", "type_params")
N = TypeVar("N", bound=ast.AST)


class Mutant(NamedTuple):
    """A program that differs from its origin in one place."""

    kind: str
    line: int
    """Line of the change in the origin, 1-based."""
    program: str
    """Source by `ast.unparse`, without comments."""


def mutants(program: str, first_line: int = 1, most: int | None = None, rng: Random | None = None) -> Iterator[Mutant]:
    """Distinct mutants of `program` from `first_line` on, in order of their places.

    With `most`, at most that many changes are sampled by `rng`. Raises as `replies.syntax.tree_of` and `ast.unparse`.
    """
    tree = tree_of(program)
    places = sorted(_places(tree), key=lambda place: (place.node.lineno, place.node.col_offset))
    changes = [
        (place, kind, changed)
        for place in places
        if place.node.end_lineno >= first_line
        for kind, changed in _changes(place.node)
    ]
    if most is not None and most < len(changes):
        numbers = (rng or Random(0)).sample(range(len(changes)), most)
        changes = [changes[i] for i in sorted(numbers)]
    texts = {ast.unparse(tree)}
    for place, kind, changed in changes:
        place.put(changed)
        text = ast.unparse(tree)
        place.put(place.node)
        if text not in texts:
            texts.add(text)
            yield Mutant(kind, place.node.lineno, text)


class _Place(NamedTuple):
    parent: ast.AST
    field: str
    at: int | None
    node: Any

    def put(self, node: ast.AST) -> None:
        if self.at is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.at] = node


def _places(parent: ast.AST) -> Iterator[_Place]:
    """Every expression and statement, without docstrings and type annotations."""
    for field, value in ast.iter_fields(parent):
        if field in ANNOTATIONS:
            continue
        rows: Iterable[tuple[int | None, Any]] = enumerate(value) if isinstance(value, list) else [(None, value)]
        for at, node in rows:
            if not isinstance(node, ast.AST) or _is_docstring(node):
                continue
            if isinstance(node, ast.expr | ast.stmt):
                yield _Place(parent, field, at, node)
            yield from _places(node)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Replacements of `node`, each with the kind of mistake."""
    match node:
        case ast.Compare():
            for i, operator in enumerate(node.ops):
                for other in COMPARISONS[type(operator)]:
                    yield "comparison", _with(node, ops=[*node.ops[:i], other(), *node.ops[i + 1 :]])
        case ast.Constant():
            yield from (("constant", _with(node, value=value)) for value in _other_values(node.value))
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC:
            yield "arithmetic", _with(node, op=ARITHMETIC[type(node.op)]())
        case ast.BoolOp():
            yield "and/or", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "sign or not", node.operand
        case ast.Slice():
            yield from (("slice", other) for other in _other_slices(node))
        case ast.Name() | ast.Attribute():
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in NAMES and isinstance(node.ctx, ast.Load):
                yield "name", _with(node, **{"id" if isinstance(node, ast.Name) else "attr": NAMES[name]})
        case _:
            yield from _other_statements(node)


def _other_statements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.IfExp():
            yield "branches", _with(node, body=node.orelse, orelse=node.body)
        case ast.If() if node.orelse:
            yield "branches", _with(node, body=node.orelse, orelse=node.body)
        case ast.If() | ast.While():
            yield "branches", _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Return() if node.value is not None:
            yield "return", _with(node, value=ast.Constant(None))
        case ast.Expr():
            yield "left out", ast.Pass()
        case ast.Break():
            yield "break", ast.Continue()
        case ast.Continue():
            yield "break", ast.Break()
        case ast.FunctionDef() if node.args.args:
            start = int(_is_docstring(node.body[0]))
            body = [*node.body[:start], ast.Return(ast.Constant(0)), *node.body[start:]]
            yield "early return", _with(node, body=body)


def _other_values(value: object) -> tuple[object, ...]:
    match value:
        case bool():
            return (not value,)
        case int() | float():
            return (value + 1, value - 1)
        case str():
            return (value[:-1] or "x" * (not value),)
    return ()


def _other_slices(node: ast.Slice) -> Iterator[ast.Slice]:
    for side in ("lower", "upper", "step"):
        bound = getattr(node, side)
        if bound is None:
            continue
        yield _with(node, **{side: None})
        if side != "step" and not isinstance(bound, ast.Constant):
            yield _with(node, **{side: ast.BinOp(bound, ast.Add(), ast.Constant(1))})


def _with(node: N, **changed: object) -> N:
    """A shallow copy of `node` with some fields changed."""
    return ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), **changed}), node)
