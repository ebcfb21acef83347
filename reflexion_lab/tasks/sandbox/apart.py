"""Splits a check into calls for the candidate's process and a comparison that stays in the lab.

`assert f(2) == 4` becomes the call `f(2)`, which goes to the candidate's process, and `assert $0 == 4`, which stays in
the lab. A check can be split if it is one assertion, possibly after imports, that calls only the program and the
functions of `comparison`. Any other check runs whole, which is slower: in a trusted child (`standin.py`) if it needs no
more of the program than plain data (`needs.py`), else beside the program, marked `in_process`. That includes calls of
functions of the task's setup, which may be the reference solution, and short-circuited calls.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Collection, Sequence
from types import CodeType
from typing import Any, NamedTuple

from reflexion_lab.records import Check
from reflexion_lab.tasks.sandbox.child import SIDES
from reflexion_lab.tasks.sandbox.comparison import FUNCTIONS, WORK, Opaque, Work, comparable, evaluate, name_of, size
from reflexion_lab.tasks.sandbox.needs import is_class, is_plain
from reflexion_lab.tasks.sandbox.suites import with_calls
from reflexion_lab.text.replies import syntax
from reflexion_lab.text.replies.syntax import NAME, UNPARSABLE, bound_anywhere, bound_names, read_names, tree_of

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
FOLDED = 1 << 14
"""Maximum parts of a value that is kept in place of its expression."""
DEF = r"(?:async[ \t]+)?def[ \t]+"
TEST = re.compile(rf"^{DEF}(test\w*|check)\b", re.MULTILINE)
CASE = re.compile(rf"^class[ \t]+(\w+).*\n(?:(?:[ \t].*)?\n)*?[ \t]+{DEF}test", re.MULTILINE)
UNREAD = "raise ValueError('tests of a check that is too long or deep for the lab are not run')"
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
    code: CodeType | str = ""
    """A whole check; source if it does not compile, so that its process reports the error."""
    in_process: bool = False
    """Whether the check runs beside the program, which can forge it."""

    def result(self, outcome: str, **fields: Any) -> Check:
        return Check(name=self.name, in_process=self.in_process, outcome=outcome, **fields)


@functools.lru_cache(maxsize=1 << 14)
def prepare(
    check: str,
    entry_point: str,
    setup: str = "",
    foreign: frozenset[str] = frozenset(),
    earlier: tuple[str, ...] = (),
    elsewhere: frozenset[str] = frozenset(),
) -> Prepared:
    """Split `check` if possible. Executes nothing, because a model may have written the check.

    `foreign`: names that other checks of the same run define, and not the program; `earlier`: checks whose names it
    reads; `elsewhere`: names of its tests that other checks read.
    """
    name = " ".join(check.split())[:200].encode(errors="replace").decode()  # UTF-8 has no lone surrogates
    try:
        tree = tree_of(check)
        if split := _split(tree, entry_point, setup, foreign):
            calls, test, reads = split
            known = BUILT_IN.union((entry_point, "candidate"), bound_names(tree), foreign, _set_up(setup).bound)
            return Prepared(name, calls, test, in_process=not reads <= known)  # a helper of the program can forge it
        tree = tree_of(check)  # again: the split has changed it
        before = ast.Module([node for source in (setup, *earlier) for node in _tree(source).body], [])
        try:
            in_process = not is_plain(tree, before, entry_point)
        except RecursionError:  # in doubt beside the program
            in_process = True
        code = compiled(_with_sides(with_calls(tree, entry_point, elsewhere)))
        return Prepared(name, code=code, in_process=in_process)
    except UNPARSABLE as problem:  # too long or deep for the lab
        needed = [f"{name}[(]" for name in TEST.findall(check)]
        needed += [rf"(?![\s#]|class\b).*\b{name}[()]" for name in CASE.findall(check)]
        is_called = all(re.search(f"^{call}", check, re.MULTILINE) for call in needed)
        is_wrong = isinstance(problem, SyntaxError)
        return Prepared(name, code=check if is_wrong or is_called else UNREAD, in_process=not is_wrong)


def prepare_all(checks: tuple[str, ...], entry_point: str, setup: str, called: Collection[int] = ()) -> list[Prepared]:
    """Each check, prepared; those at `called` run beside the program, as whole checks that share names with such."""
    foreign = defined_by(checks)
    earlier = [_read_from(checks[:i], check) if foreign else () for i, check in enumerate(checks)]
    elsewhere = [_read_elsewhere(checks, i) if foreign else frozenset() for i in range(len(checks))]
    each = zip(checks, earlier, elsewhere, strict=True)
    prepared = [prepare(check, entry_point, setup, foreign, before, others) for check, before, others in each]
    for i in called:
        prepared[i] = prepared[i]._replace(in_process=True)
    beside = [i for i, check in enumerate(prepared) if check.in_process]
    if foreign and beside:
        names = [_own_and_needed(check) for check in checks]
        for i in beside:  # grows
            for j, other in enumerate(prepared):
                shared = names[i][0] & names[j][1] or names[j][0] & names[i][1]
                if shared and not (other.calls or other.in_process):
                    prepared[j] = other._replace(in_process=True)
                    beside.append(j)
    return prepared


def _read_from(checks: tuple[str, ...], check: str) -> tuple[str, ...]:
    """Those of `checks` whose names `check` reads, directly or not."""
    _, needed = _own_and_needed(check)
    used = list[str]()
    for other in checks[::-1]:
        own, more = _own_and_needed(other)
        if own & needed:
            needed = needed | more
            used.insert(0, other)
    return tuple(used)


def _read_elsewhere(checks: tuple[str, ...], place: int) -> frozenset[str]:
    """Names of tests in one of `checks` that others read."""
    own, _ = _own_and_needed(checks[place])
    tests = {name for name in own if name.lower().startswith(("test", "check"))}
    others = checks[:place] + checks[place + 1 :] if tests else ()
    return frozenset(tests.intersection(set[str]().union(*(_own_and_needed(other)[1] for other in others))))


@functools.lru_cache(maxsize=1 << 10)
def _own_and_needed(check: str) -> tuple[set[str], set[str]]:
    """Names that a check binds, and those that it reads and that others may bind."""
    tree = _tree(check)
    changes = (node for node in ast.walk(tree) if isinstance(node, ast.AugAssign | ast.Delete))
    changed = {part.id for node in changes for part in ast.walk(node) if isinstance(part, ast.Name)}
    bound = bound_anywhere(tree)
    return bound, (read_names(tree) - bound) | changed


def _split(
    tree: ast.Module, entry_point: str, setup: str, foreign: frozenset[str]
) -> tuple[Calls, ast.expr, set[str]] | None:
    """Calls of the candidate, the comparison, and names that the calls read; None for a check that cannot be split."""
    *before, last = tree.body or [ast.Pass()]
    if not isinstance(last, ast.Assert) or not all(isinstance(s, ast.Import | ast.ImportFrom) for s in before):
        return None
    imported, setup_names = _names(ast.Module(before, [])), _set_up(setup)
    cut = _Cut((entry_point, "candidate"), imported.bound | setup_names.bound | foreign)
    test = cut.visit(last.test)
    known = imported.known | setup_names.known
    named = {part.id for part in ast.walk(test) if isinstance(part, ast.Name)}
    if named & (cut.foreign - known) or not comparable(test, known) or _may_skip(test):
        return None
    if _objects_meet(test, cut.calls, cut.ours):
        return None
    try:
        test = _fold(test, _with_values(test), Work(WORK // 4))
    except Exception:  # `evaluate` refuses large values that Python computes
        return None
    calls = [compiled(ast.Expression(_without_position(call)), "eval") for call in cut.calls]
    imports = compiled(ast.Module(before, [])) if before else None
    return (imports, calls), test, read_names(*cut.calls).difference(*map(bound_anywhere, cut.calls))


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
    return _names(_tree(setup))


@functools.lru_cache(maxsize=1 << 10)
def _tree(source: str) -> ast.Module:
    """The tree, which must not be changed; empty if the source does not compile."""
    try:
        return tree_of(source)
    except UNPARSABLE:
        return ast.Module([], [])


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


def _objects_meet(test: ast.expr, calls: Sequence[ast.expr], ours: Collection[str]) -> bool:
    """Whether values of the program may be objects of its classes and meet each other: `f(1) == Point(4, 6)`."""
    if sum(isinstance(call, ast.Call) and is_class(name_of(call.func)) for call in calls) > 1:
        return True
    comparisons = [part for part in ast.walk(test) if isinstance(part, ast.Compare)]
    shared = any(all(any(map(_is_value, ast.walk(s))) for s in (c.left, *c.comparators)) for c in comparisons)
    return shared and not read_names(*calls) <= BUILT_IN.union(name for name in ours if not is_class(name))


def _may_skip(test: ast.expr) -> bool:
    """Whether the test can hold without one of its calls, which could raise, as in `f(1) or f(2)`."""
    for part in ast.walk(test):
        chain = isinstance(part, ast.Compare) and len(part.ops) > 1
        if chain or isinstance(part, ast.BoolOp):
            several = sum(map(_is_value, ast.walk(part))) > 1
            if isinstance(getattr(part, "op", None), ast.Or) or (several and part is not test):
                return True
    return False


def _with_values(node: ast.AST) -> set[int]:
    """Ids of the nodes under `node` that contain a call's value."""
    inside = set[int]().union(*map(_with_values, ast.iter_child_nodes(node)))
    return {*inside, id(node)} if inside or _is_value(node) else inside


def _fold(node: ast.expr, kept: Collection[int], work: Work) -> ast.expr:
    """`node` with all parts outside of `kept` evaluated, and replaced unless their value is large.

    Raises as `evaluate`.
    """
    if id(node) not in kept:
        value = evaluate(node, {}, work)
        try:
            return ast.Constant(value) if size(value, FOLDED) else node
        except OverflowError:
            return node
    for field, inner in ast.iter_fields(node):
        if isinstance(inner, list):
            setattr(node, field, [_fold(part, kept, work) if isinstance(part, ast.expr) else part for part in inner])
        elif isinstance(inner, ast.expr) and field != "func":
            setattr(node, field, _fold(inner, kept, work))
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
        if name in self.ours or _is_of_class(node, self.ours):
            return True
        if name in CONVERSIONS:
            plain = all(isinstance(keyword.value, ast.Constant) for keyword in node.keywords)
            return plain and len(node.args) == 1 and self.computes(node.args[0])
        return isinstance(node.func, ast.Name) and name not in self.theirs


def _is_of_class(node: ast.Call, ours: Collection[str]) -> bool:
    """Whether `node` calls a method of a fresh object of the program's class: `Solution().solve(3)`."""
    match node.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(owner))):
            return owner in ours and is_class(owner)
    return False


def judge(test: ast.expr, computed: list[Any]) -> dict[str, str]:
    """Outcome and texts of a check by its comparison of these values; an exception is an `error`. Raises nothing."""
    values = {f"${number}": value for number, value in enumerate(computed)}
    try:
        if evaluate(test, values, Work()):
            return {"outcome": "pass"}
        expected, actual = _sides(test, values)
    except Exception as problem:
        return {"outcome": "error", "error_type": type(problem).__name__, "message": str(problem)[:500]}
    message = f"expected {expected}, got {actual}" if expected else ""
    return {"outcome": "fail", "expected": expected, "actual": actual, "message": message}


def _sides(test: ast.expr, values: dict[str, Any]) -> tuple[str, str]:
    """Expected and actual value of a failing comparison; the expected one is "" if there is none."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            is_left = _is_value(left) or any(map(_is_value, ast.walk(left)))
            expected, actual = (right, left) if is_left else (left, right)
            work = Work()
            return show(evaluate(expected, values, work)), show(evaluate(actual, values, work))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return "a false value", show(evaluate(operand, values, Work()))
        case ast.Name():
            return "a true value", show(evaluate(test, values, Work()))
    return "", ", ".join(map(show, values.values()))[:SHOWN]


def _is_value(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id.startswith("$")


def show(value: Any) -> str:
    """`repr`, truncated; of nested values only the beginning is computed."""
    try:
        return repr(_beginning(value, [SHOWN]) if type(value) in (list, tuple, dict) else value)[:SHOWN]
    except ValueError:  # an integer with more digits than Python converts to text
        if isinstance(value, int):
            return f"an integer of about {int(value.bit_length() * 0.30103)} digits"
        return "a value too long to show"


def _beginning(value: Any, left: list[int]) -> Any:
    """`value` with as many of its parts, in the order of `repr`, as `left` says: each takes at least one character."""
    left[0] -= 1
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_beginning(item, left) for item in value if left[0] > 0)
    if type(value) is dict:
        return {key: _beginning(item, left) for key, item in value.items() if left[0] > 0}
    return value


def literal(value: Any) -> str | None:
    """Python source of plain data; None for other values."""
    if isinstance(value, Opaque):
        return None
    try:
        source = repr(_built_in(value))
        return source if syntax.literal_eval(source) == value else None
    except UNPARSABLE:
        return None


def _built_in(value: Any) -> Any:
    """`value` with plain dictionaries in place of their subclasses, which have no literal."""
    if isinstance(value, dict):
        return {key: _built_in(item) for key, item in value.items()}
    return type(value)(map(_built_in, value)) if type(value) in (list, tuple) else value
