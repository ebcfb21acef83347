"""Splits a check into calls for the candidate's process and a comparison that stays in the lab.

`assert f(2) == 4` becomes the call `f(2)`, which goes to the candidate's process, and `assert $0 == 4`, which stays in
the lab. A check can be split if it is one assertion, possibly after imports, that calls only the program and the
functions of `comparison`. Any other check runs in a process of its own (`checker.py`), which is slower. That includes
calls of functions of the task's setup, which may be the reference solution, comparisons of two values of the program,
and properties that plain data do not have: whether two values are the same object, and short-circuited calls.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
from collections.abc import Collection, Sequence
from types import CodeType
from typing import Any, NamedTuple

from reflexion_lab.tasks.sandbox.checker import LIBRARY, SIDES
from reflexion_lab.tasks.sandbox.comparison import FUNCTIONS, Opaque, comparable, evaluate, name_of
from reflexion_lab.text.replies.syntax import NAME, UNPARSABLE, bound_names, module_nodes, read_names, tree_of

CONVERSIONS = (
    "list", "tuple", "set", "frozenset", "dict", "sorted", "next", "len", "sum", "min", "max", "any", "all", "str",
    "float", "int", "bool",
)  # fmt: skip
"""Computed by the candidate together with the enclosed call: iterators, ranges and long values are no plain data."""
MODULES = ("math", "collections")
"""Modules with functions that comparisons support."""
BUILT_IN = frozenset(dir(builtins))
SHOWN = 200
"""Maximum characters of a value in the feedback."""
NOWHERE = ast.Constant(None, lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
Calls = tuple[CodeType | None, list[CodeType]]
"""Imports, and calls to evaluate."""


class Prepared(NamedTuple):
    """One check, split for the candidate's process and the lab if possible."""

    name: str
    """The source, shortened to one line."""
    calls: Calls | None = None
    """None if the check cannot be split."""
    test: ast.expr | None = None
    """The comparison, with `$0`, `$1` … for the values of the calls."""


@functools.lru_cache(maxsize=1 << 14)
def prepare(check: str, entry_point: str, setup: str = "", foreign: frozenset[str] = frozenset()) -> Prepared:
    """Split `check` if possible. Executes nothing, because a model may have written the check.

    `foreign`: names that other checks of the same run define, and not the program.
    """
    name = " ".join(check.split())[:200].encode(errors="replace").decode()  # UTF-8 has no lone surrogates
    try:
        tree = tree_of(check)
        split = _split(tree, entry_point, setup, foreign)
        return Prepared(name, *split) if split else Prepared(name)
    except UNPARSABLE:
        return Prepared(name)


def _split(tree: ast.Module, entry_point: str, setup: str, foreign: frozenset[str]) -> tuple[Calls, ast.expr] | None:
    """Calls of the candidate, and the comparison; None for a check that cannot be split."""
    *before, last = tree.body or [ast.Pass()]
    if not isinstance(last, ast.Assert) or not all(isinstance(s, ast.Import | ast.ImportFrom) for s in before):
        return None
    imported, setup_names = _names(ast.Module(before, [])), _set_up(setup)
    cut = _Cut((entry_point, "candidate"), imported.bound | setup_names.bound | foreign)
    test = cut.visit(last.test)
    known = imported.known | setup_names.known
    named = {part.id for part in ast.walk(test) if isinstance(part, ast.Name)}
    if named & (cut.foreign - known) or not comparable(test, known) or _may_skip(test) or _is_shared(test):
        return None
    try:
        test = _fold(test)
    except Exception:  # `evaluate` refuses large numbers that Python computes
        return None
    calls = [compiled(ast.Expression(_without_position(call)), "eval") for call in cut.calls]
    imports = compiled(ast.Module(before, [])) if before else None
    return (imports, calls), test


def compiled(source: str | ast.Module | ast.Expression, mode: str = "exec", name: str = NAME) -> CodeType:
    """`compile` without this module's `__future__` imports, and with assertions even under `-O`."""
    code: CodeType = compile(source, name, mode, dont_inherit=True, optimize=0)
    return code


def _without_position(call: ast.expr) -> ast.expr:
    """`call` without line and column, which would reveal the length of the text before it, as of `True` or `False`."""
    for part in ast.walk(call):
        ast.copy_location(part, NOWHERE)
    return call


def _with_sides(tree: ast.Module) -> ast.Module:
    """`tree`, which keeps both sides of `assert actual == expected` at its end, for the feedback."""
    match tree.body[-1:]:
        case [ast.Assert(test=ast.Compare(ops=[ast.Eq()]) as test) as last]:
            sides = zip(SIDES, (test.left, test.comparators[0]), strict=True)
            kept = [ast.Assign([ast.Name(name, ast.Store())], value) for name, value in sides]
            test.left, test.comparators = ast.Name(SIDES[0], ast.Load()), [ast.Name(SIDES[1], ast.Load())]
            tree.body[-1:] = [ast.copy_location(statement, last) for statement in kept] + [last]
    return ast.fix_missing_locations(tree)


@functools.lru_cache(maxsize=1 << 10)
def whole(checks: tuple[str, ...], entry_point: str) -> tuple[list[CodeType | str], frozenset[str]]:
    """Code of checks that run as they are, and the names that they read and that are not built in.

    A check that does not compile stays source, so that its process reports the error.
    """
    codes, names = list[CodeType | str](), set[str]()
    for check in checks:
        try:
            tree = tree_of(check)
            names |= read_names(tree)
            codes.append(compiled(_with_sides(tree)))
        except UNPARSABLE:
            codes.append(check)
    return codes, frozenset(names - (BUILT_IN - {entry_point}))


def library_imports(program: str, names: Collection[str]) -> list[str]:
    """Statements that import `names` from the standard library as the program does, if it defines them nowhere else."""
    try:
        nodes = list(module_nodes(tree_of(program)))
    except UNPARSABLE:
        return []
    own = bound_names(ast.Module([node for node in nodes if isinstance(node, ast.stmt) and not _is_import(node)], []))
    statements = dict[str, str]()
    for node in nodes:
        match node:
            case ast.Import():
                for alias in node.names:
                    if alias.name in LIBRARY and (name := alias.asname or alias.name) in names:
                        statements[name] = f"import {alias.name} as {name}"
            case ast.ImportFrom(module=module, level=0) if module in LIBRARY:
                every = (
                    names if node.names[0].name == "*" else {a.name for a in node.names if a.asname in (None, a.name)}
                )
                for name in {*every} & {*names} & {*dir(importlib.import_module(module))}:
                    statements[name] = f"from {module} import {name}"
    return [statement for name, statement in sorted(statements.items()) if name not in own]


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


class Names(NamedTuple):
    bound: frozenset[str]
    """Names that a module defines, so that the program does not."""
    known: frozenset[str]
    """Names among them that comparisons support with the same meaning."""


@functools.lru_cache(maxsize=1 << 10)
def defined_by(checks: tuple[str, ...]) -> frozenset[str]:
    """Names that checks define for later checks."""
    return frozenset().union(*(_set_up(check).bound for check in checks if not check.startswith("assert ")))


@functools.lru_cache(maxsize=1 << 10)
def _set_up(setup: str) -> Names:
    try:
        return _names(tree_of(setup))
    except UNPARSABLE:
        return Names(frozenset(), frozenset())


def _names(tree: ast.Module) -> Names:
    known = set()
    for node in tree.body:
        match node:
            case ast.Import():
                known |= {alias.name for alias in node.names if alias.name in MODULES and alias.asname is None}
            case ast.ImportFrom(module=module) if module in MODULES:
                known |= {alias.name for alias in node.names if alias.asname is None}
            case ast.FunctionDef(name="close") if [a.arg for a in node.args.args] == ["actual", "expected", "atol"]:
                known.add("close")
    return Names(frozenset(bound_names(tree)), frozenset(known))


def _is_shared(test: ast.expr) -> bool:
    """Whether both sides of all comparisons call the program, as in `f(1) == Point(4, 6)`."""
    comparisons = [part for part in ast.walk(test) if isinstance(part, ast.Compare)]
    compared = {id(part) for comparison in comparisons for part in ast.walk(comparison)}
    if not comparisons or any(isinstance(part, ast.Constant) and id(part) not in compared for part in ast.walk(test)):
        return False
    return all(all(any(map(_is_value, ast.walk(side))) for side in (c.left, *c.comparators)) for c in comparisons)


def _may_skip(test: ast.expr) -> bool:
    """Whether the test can hold without one of its calls, which could raise, as in `f(1) or f(2)`."""
    for part in ast.walk(test):
        chain = isinstance(part, ast.Compare) and len(part.ops) > 1
        if chain or isinstance(part, ast.BoolOp):
            several = sum(map(_is_value, ast.walk(part))) > 1
            if isinstance(getattr(part, "op", None), ast.Or) or (several and part is not test):
                return True
    return False


def _fold(node: ast.expr) -> ast.expr:
    """`node` with all parts that contain no call's value evaluated. Raises as `evaluate`."""
    if not any(map(_is_value, ast.walk(node))):
        return ast.Constant(evaluate(node, {}))
    for field, inner in ast.iter_fields(node):
        if isinstance(inner, list):
            setattr(node, field, [_fold(part) if isinstance(part, ast.expr) else part for part in inner])
        elif isinstance(inner, ast.expr) and field != "func":
            setattr(node, field, _fold(inner))
    return node


class _Cut(ast.NodeTransformer):
    """Replaces the program's calls in an expression by `$0`, `$1` …"""

    def __init__(self, ours: Sequence[str], theirs: Collection[str]) -> None:
        self.ours = ours
        self.foreign = frozenset(theirs)
        self.theirs = BUILT_IN.union(theirs, FUNCTIONS)
        self.calls: list[ast.expr] = []

    def cut(self, node: ast.expr) -> ast.expr:
        if not self.computes(node):
            return self.generic_visit(node)  # type: ignore[return-value]
        self.calls.append(node)
        return ast.Name(f"${len(self.calls) - 1}", ast.Load())

    visit_Call = visit_Subscript = visit_Attribute = cut  # noqa: N815 (method names of `ast`)

    def computes(self, node: ast.expr) -> bool:
        """Whether `node` calls a function that only the program can define, or is part of such a call's value."""
        if isinstance(node, ast.Attribute):
            return self.computes(node.value)
        if isinstance(node, ast.Subscript):
            named = any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node.slice))
            return self.computes(node.value) and not named
        if not isinstance(node, ast.Call):
            return False
        name = name_of(node.func)
        if name in self.ours:
            return True
        if name in CONVERSIONS:
            plain = all(isinstance(keyword.value, ast.Constant) for keyword in node.keywords)
            return plain and len(node.args) == 1 and self.computes(node.args[0])
        return isinstance(node.func, ast.Name) and name not in self.theirs


class Verdict(NamedTuple):
    outcome: str
    expected: str = ""
    actual: str = ""
    error_type: str = ""
    message: str = ""


def judge(test: ast.expr, computed: list[Any]) -> Verdict:
    """Verdict of a comparison on these values; an exception is the outcome `error`. Raises nothing."""
    values = {f"${number}": value for number, value in enumerate(computed)}
    try:
        if evaluate(test, values):
            return Verdict("pass")
        expected, actual = _sides(test, values)
    except Exception as problem:
        return Verdict("error", error_type=type(problem).__name__, message=str(problem)[:500])
    return Verdict("fail", expected, actual, message=f"expected {expected}, got {actual}" if expected else "")


def _sides(test: ast.expr, values: dict[str, Any]) -> tuple[str, str]:
    """Expected and actual value of a failing comparison; the expected one is "" if there is none."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            expected, actual = (right, left) if any(map(_is_value, ast.walk(left))) else (left, right)
            return show(evaluate(expected, values)), show(evaluate(actual, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return "a false value", show(evaluate(operand, values))
        case ast.Name():
            return "a true value", show(evaluate(test, values))
    return "", ", ".join(map(show, values.values()))[:SHOWN]


def _is_value(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id.startswith("$")


def show(value: Any) -> str:
    """`repr`, truncated."""
    try:
        return repr(value)[:SHOWN]
    except ValueError:  # an integer with more digits than Python converts to text
        if isinstance(value, int):
            return f"an integer of about {int(value.bit_length() * 0.30103)} digits"
        return "a value too long to show"


def literal(value: Any) -> str | None:
    """Python source of plain data; None for other values."""
    if isinstance(value, Opaque):
        return None
    try:
        source = repr(_built_in(value))
        return source if ast.literal_eval(source) == value else None
    except UNPARSABLE:
        return None


def _built_in(value: Any) -> Any:
    """`value` with plain dictionaries in place of their subclasses, which have no literal."""
    if isinstance(value, dict):
        return {key: _built_in(item) for key, item in value.items()}
    return type(value)(map(_built_in, value)) if type(value) in (list, tuple) else value
