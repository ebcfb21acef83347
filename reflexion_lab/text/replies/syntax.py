"""Static analysis of Python from replies: names defined and needed. Bounded; never compiles or executes."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

CODE_CHARS = 64_000
"""Length limit of parsed texts in characters."""
LARGEST = 1 << 17
"""The same for checks, setups and programs of logs."""
PARSES = 40
"""Largest number of parses per reply."""
NAME = "<reply>"
UNPARSABLE = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
"""Exceptions of `compile`, `ast.unparse` and `ast.literal_eval` on text that is not Python, too deep or too large."""
QUIET = ("ignore", None, Warning, re.compile(NAME), 0)
"""Entry of `warnings.filters` that hides Python's warnings about parsed code, such as invalid escapes."""
ALLOW_INCOMPLETE_INPUT = 0x4000
"""Compiler flag that distinguishes incomplete from invalid code, as in the module `codeop`."""
_ONE_AT_A_TIME = threading.RLock()
BUILTINS = frozenset(dir(builtins))
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
IMPORTS = ast.Import | ast.ImportFrom
INTERACTIVE = {"input", "exit", "quit"}
"""Builtins that end a program or need a terminal."""
SETTERS = re.compile(r"(?:id|attr)='(?:seed|setrecursionlimit|set_int_max_str_digits|getcontext|setcontext)'")
"""In the dump of a statement: a function that changes what no name shows."""
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
BLOCKS = (ast.For, ast.While, ast.With, ast.If, ast.Try)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Parser:
    """Parser of hostile text, bounded in length, number of texts and depth."""

    def __init__(self) -> None:
        self.left = PARSES
        self.fault = 0
        """Line of the last syntax error, 1-based; 0 if there was none or its line is unknown."""

    def parse(self, code: str) -> ast.Module | None:
        """The tree of `code`; None if it is not Python, too long, or beyond the number of texts."""
        return self._parse(code, 0)[0]

    def is_incomplete(self, code: str) -> bool:
        """Whether `code` is incomplete Python, not invalid before its end."""
        tree, message = self._parse(code, ALLOW_INCOMPLETE_INPUT)
        return tree is None and (message == "incomplete input" or self.fault > code.rstrip().count("\n"))

    def _parse(self, code: str, flags: int) -> tuple[ast.Module | None, str]:
        self.fault = 0
        if len(code) > CODE_CHARS or self.left <= 0:
            return None, ""
        self.left -= 1
        try:
            tree = parse(code, flags=flags)
        except SyntaxError as problem:
            self.fault = problem.lineno or 0
            return None, problem.msg
        except (ValueError, MemoryError, RecursionError, SystemError):  # null bytes, lone surrogates; too deep
            return None, ""
        return tree, ""


def tree_of(source: str) -> ast.Module:
    """The tree of `source`. Raises as `ast.parse`, and ValueError for a text that is too long."""
    if len(source) > LARGEST:
        raise ValueError(f"a text of more than {LARGEST} characters is not parsed")
    return cast(ast.Module, parse(source))


def parse(source: str | bytes, mode: str = "exec", flags: int = 0) -> Any:
    """`ast.parse` without warnings, and for threads: CPython 3.11 counts the depth of trees over all of them.

    It raises SystemError where trees interleave: ours are built in turn, and again if a library built one meanwhile.
    """
    if list(warnings.filters[:1]) != [QUIET]:  # by file name, since `catch_warnings` affects other threads
        warnings.filterwarnings("ignore", module=NAME)
    build = functools.partial(compile, source, NAME, mode, ast.PyCF_ONLY_AST | flags, dont_inherit=True)
    with _ONE_AT_A_TIME:
        for _ in range(9):
            with contextlib.suppress(SystemError):
                return build()
        return build()


def literal_eval(source: str) -> Any:
    """`ast.literal_eval` of a text, by `parse`."""
    return ast.literal_eval(parse(source.lstrip(" \t"), "eval"))


def module_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes that run in the module's namespace: functions and classes, but not their bodies."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def bound_names(tree: ast.Module) -> set[str]:
    """Names of the functions, classes, imports and variables of the module."""
    names = set()
    for node in module_nodes(tree):
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
    return names


def read_names(*nodes: ast.AST) -> set[str]:
    """Names that are read anywhere in `nodes`."""
    every = (inner for node in nodes for inner in ast.walk(node))
    return {node.id for node in every if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def bound_anywhere(tree: ast.AST) -> set[str]:
    """Names that the code binds, function bodies included; `*` if an `import *` may bind any."""
    names: set[str | None] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name) | ast.ExceptHandler(name=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.MatchAs(name=name) | ast.MatchStar(name=name) | ast.MatchMapping(rest=name):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add((other or name).partition(".")[0])
    return {name for name in names if name}


def unbound_names(tree: ast.Module) -> set[str]:
    """Names that are read but neither builtin nor bound anywhere in the module."""
    return read_names(tree) - bound_anywhere(tree) - BUILTINS


def definition(tree: ast.Module, name: str) -> Definition | None:
    """The last function or class `name` of the module."""
    definitions = [node for node in module_nodes(tree) if isinstance(node, Definition) and node.name == name]
    return max(definitions, key=lambda node: node.lineno, default=None)


def is_stub(definition: Definition) -> bool:
    """Whether the body consists of a docstring, `pass` or `...` only."""
    return all(
        isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in definition.body
    )


def has_result(definition: Definition) -> bool:
    """Whether the function itself, not a nested one, returns, yields or raises."""
    results = ast.Return | ast.Raise | ast.Yield | ast.YieldFrom
    return any(isinstance(node, results) for node in module_nodes(ast.Module(definition.body, [])))


def returns_outside(tree: ast.Module) -> bool:
    """Whether there is a `return` outside of functions, which the parser accepts and the compiler rejects."""
    return any(isinstance(node, ast.Return) for node in module_nodes(tree))


def usage(tree: ast.Module, entry_point: str, before: ast.Module) -> list[ast.stmt]:
    """Top-level statements after the entry point that only use it: asserts, calls of it or of its tests, prompts for
    input, and statements that read their results, except those that change a name which the entry point needs.

    `before`: the code of the prompt before the entry point.
    """
    entry = definition(tree, entry_point)
    if entry is None:
        return []
    whole = ast.Module([*before.body, *tree.body], [])
    imported = {name for node in whole.body if isinstance(node, IMPORTS) for name in _changed(node)}
    changeable = bound_names(whole) - imported  # `math.floor(...)` does not change the module
    reads = _reads(whole)
    needed = _reached({entry_point}, reads)
    earlier = [node for node in tree.body if node.lineno <= (entry.end_lineno or 0) or isinstance(node, Definition)]
    bound = bound_names(ast.Module([*before.body, *earlier], []))
    definitions = [node for node in tree.body if isinstance(node, Definition)]
    users = {entry_point, *(INTERACTIVE - bound_names(whole))}
    users |= {node.name for node in definitions if users & global_reads(node)}
    kinds = ast.Expr | ast.For | ast.While | ast.With | ast.If | ast.Try
    variables = ast.Assign | ast.AnnAssign | ast.AugAssign
    tried = set[int]()
    for node in tree.body:
        if node.lineno <= (entry.end_lineno or 0) or isinstance(node, Definition):
            continue
        uses = bool(users & global_reads(node)) or any(map(_ends_program, ast.walk(node)))
        if isinstance(node, ast.Assert):
            tried.add(id(node))
        elif uses and isinstance(node, kinds | variables) and not _changed(node) & needed & changeable:
            tried.add(id(node))
            users |= _changed(node) - bound - imported
    for node in reversed(tree.body):  # a statement is kept if a later one that is kept reads its names
        if id(node) not in tried or _changed(node) & needed & changeable:
            tried.discard(id(node))
            needed |= _reached(global_reads(node, at_once=True) - needed, reads)
    return [node for node in tree.body if id(node) in tried]


def set_up(before: ast.Module, tree: ast.Module, entry_point: str) -> list[ast.stmt]:
    """Statements of the prompt that bind no name but may change what `tree` reads (`PRICE["a"] = 3`, a loop that fills
    a table) or have one of `SETTERS`, with the definitions that they need; without those that `tree` repeats.

    `before`: the code of the prompt before the entry point.
    """
    reads, names = _reads(before), bound_names(before)
    repeated, chosen, needed = {ast.dump(node) for node in tree.body}, set[int](), set[str]()
    variables = names - {name for node in module_nodes(before) if isinstance(node, IMPORTS) for name in _changed(node)}
    used = _reached(set().union(*map(global_reads, tree.body)), reads)
    for node in reversed(before.body):
        own, reached = bound_names(ast.Module([node], [])), _reached(global_reads(node), reads)
        is_used = (used | needed) & reached & variables or SETTERS.search(ast.dump(node))
        binds = own and not (isinstance(node, BLOCKS) and _changed(node) - own)
        if binds or isinstance(node, ast.Assert) or ast.dump(node) in repeated:
            continue
        if is_used and not {entry_point, *INTERACTIVE} & reached and ("*" in names or reached <= names | BUILTINS):
            chosen.add(id(node))
            needed |= reached
    return [node for node in before.body if id(node) in chosen or bound_names(ast.Module([node], [])) & needed]


def global_reads(statement: ast.stmt, *, at_once: bool = False) -> set[str]:
    """Module-level and builtin names that `statement` reads, without arguments and variables of functions in it.

    `at_once`: only names read when the statement runs, not in the bodies of functions that it defines.
    """
    names = set[str]()
    waiting: list[tuple[ast.AST, frozenset[str]]] = [(statement, frozenset())]
    while waiting:
        node, local = waiting.pop()
        body: list[ast.stmt] = []
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store) and node.id not in local:
            names.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id not in local:
            names.add(node.target.id)
        elif isinstance(node, COMPREHENSIONS):
            local |= bound_names(ast.Module([ast.Expr(part.target) for part in node.generators], []))
        elif isinstance(node, Function | ast.Lambda):
            body = node.body if isinstance(node, Function) else [ast.Expr(node.body)]
            if not at_once:
                inner = _local(node.args, ast.Module(body, []), local)
                waiting.extend((child, inner) for child in body)
        inside = {id(child) for child in body} | ({id(node.body)} if isinstance(node, ast.Lambda) else set())
        waiting.extend((child, local) for child in ast.iter_child_nodes(node) if id(child) not in inside)
    return names


def _local(arguments: ast.arguments, body: ast.Module, outer: frozenset[str]) -> frozenset[str]:
    """Local names in the body of a function; `outer`: local names of the enclosing functions."""
    shared = {name for node in module_nodes(body) if isinstance(node, ast.Global) for name in node.names}
    own = {node.arg for node in ast.walk(arguments) if isinstance(node, ast.arg)}
    return (outer | own | bound_names(body)) - shared


def _reads(tree: ast.Module) -> dict[str, set[str]]:
    """For each name, the names read by the statements that bind or change it."""
    reads: dict[str, set[str]] = {}
    for node in tree.body:
        free = global_reads(node)
        for name in _changed(node):
            reads.setdefault(name, set()).update(free)
    return reads


def _reached(names: set[str], reads: Mapping[str, set[str]]) -> set[str]:
    """`names` and all names that they read, transitively."""
    reached, waiting = set(names), list(names)
    while waiting:
        new = reads.get(waiting.pop(), set()) - reached
        reached |= new
        waiting.extend(new)
    return reached


def _changed(statement: ast.stmt) -> set[str]:
    """Names that a top-level statement binds or whose values it may change by items, attributes or method calls."""
    names = bound_names(ast.Module([statement], []))
    for node in module_nodes(ast.Module([statement], [])):
        targets: list[ast.AST] = []
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            targets = [node]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            targets = [node.func]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            targets = list(node.args[:1])
        for target in targets:
            base = target
            while isinstance(base, ast.Subscript | ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name):
                names.add(base.id)
    return names


def _ends_program(node: ast.AST) -> bool:
    """Whether `node` is `sys.exit`, or `unittest.main`, which calls it."""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in (("sys", "exit"), ("unittest", "main"))
    )


def idle(tree: ast.Module) -> list[ast.stmt]:
    """Top-level statements without effect, such as prose that is valid Python (a word, `Note: text`)."""
    busy = ast.Call | ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr
    return [
        node
        for node in tree.body
        if (isinstance(node, ast.AnnAssign) and node.value is None)
        or (
            isinstance(node, ast.Expr)
            and not isinstance(node.value, ast.Constant)
            and not any(isinstance(inner, busy) for inner in ast.walk(node))
        )
    ]


def asides(tree: ast.Module, entry_point: str) -> list[ast.stmt]:
    """Top-level statements that define nothing except by a call of the entry point."""
    kinds = Function | ast.ClassDef | ast.Import | ast.ImportFrom
    variables = ast.Assign | ast.AnnAssign
    return [
        node
        for node in tree.body
        if not isinstance(node, kinds) and not (isinstance(node, variables) and entry_point not in read_names(node))
    ]


def future_imports(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]


def without(code: str, tree: ast.Module, statements: Iterable[ast.stmt]) -> str:
    """`code` without the lines of these top-level statements; lines shared with other statements are kept."""
    chosen = {id(node) for node in statements}
    gone, remaining = (
        {line for node in tree.body if (id(node) in chosen) is wanted for line in _lines(node)}
        for wanted in (True, False)
    )
    lines = code.split("\n")
    return "\n".join(line for number, line in enumerate(lines, 1) if number in remaining or number not in gone)


def _lines(node: ast.stmt) -> range:
    decorators = getattr(node, "decorator_list", [])
    return range(min(inner.lineno for inner in (node, *decorators)), (node.end_lineno or node.lineno) + 1)
