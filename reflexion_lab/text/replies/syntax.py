"""Syntax of Python that a model wrote: names it defines and needs. Parses within bounds; never compiles or executes."""

from __future__ import annotations

import ast
import builtins
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping

CODE_CHARS = 64_000
"""Longest text that is parsed."""
PARSES = 40
"""Most texts that are parsed for one reply."""
NAME = "<reply>"
UNPARSABLE = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
"""What `compile`, `ast.unparse` and `ast.literal_eval` raise on text that is not Python, too deep or too large."""
QUIET = ("ignore", None, Warning, re.compile(NAME), 0)
"""An entry of `warnings.filters`: hides Python's warnings about a model's code, as about invalid escapes."""
ALLOW_INCOMPLETE_INPUT = 0x4000
"""The compiler's flag that distinguishes incomplete from wrong code; as in the module `codeop`."""
_ONE_AT_A_TIME = threading.Lock()
# CPython 3.11 counts the depth of trees under construction for all threads together, and mistakes one for another.
BUILTINS = frozenset(dir(builtins))
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
IMPORTS = ast.Import | ast.ImportFrom
INTERACTIVE = {"input", "exit", "quit"}
"""Builtins that no program needs after its entry point, and that end it without a terminal."""
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Parser:
    """Parses hostile text, bounded in length, number of texts and depth."""

    def __init__(self) -> None:
        self.left = PARSES
        self.fault = 0
        """Line of the last text's syntax error, 1-based; 0 when there was none or it has no place."""

    def parse(self, code: str) -> ast.Module | None:
        """The tree of `code`, or None where it is no Python, too long, or one text too many."""
        return self._parse(code, 0)[0]

    def ran_out(self, code: str) -> bool:
        """Whether `code` is incomplete Python, rather than faulty in its middle."""
        tree, message = self._parse(code, ALLOW_INCOMPLETE_INPUT)
        return tree is None and (message == "incomplete input" or self.fault > code.rstrip().count("\n"))

    def _parse(self, code: str, flags: int) -> tuple[ast.Module | None, str]:
        self.fault = 0
        if len(code) > CODE_CHARS or self.left <= 0:
            return None, ""
        self.left -= 1
        try:
            tree = tree_of(code, flags)
        except SyntaxError as problem:
            self.fault = problem.lineno or 0
            return None, problem.msg
        except (ValueError, MemoryError, RecursionError, SystemError):  # null bytes, lone surrogates; too deep
            return None, ""
        return tree, ""


def tree_of(source: str, flags: int = 0) -> ast.Module:
    """The tree of `source`, without warnings. Raises what `ast.parse` does."""
    silence()
    with _ONE_AT_A_TIME:
        tree: ast.Module = compile(source, NAME, "exec", ast.PyCF_ONLY_AST | flags, dont_inherit=True)
    return tree


def silence() -> None:
    """Hide warnings about sources named `NAME`.

    By file name, not by `catch_warnings`, which affects other threads; again only if a newer filter precedes it.
    """
    if list(warnings.filters[:1]) != [QUIET]:
        warnings.filterwarnings("ignore", module=NAME)


def module_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node that runs in the module's own namespace: functions and classes themselves, not what is in them."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def bound_names(tree: ast.Module) -> set[str]:
    """Names of functions, classes, imports and variables of the module."""
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


def unbound_names(tree: ast.Module) -> set[str]:
    """Names that are read and defined nowhere, not even inside a function, nor by Python itself."""
    inner = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    inner |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    inner |= {node.name for node in ast.walk(tree) if isinstance(node, Function | ast.ClassDef)}
    inner |= {node.name or "" for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)}
    return read_names(tree) - bound_names(tree) - inner - BUILTINS


def definition(tree: ast.Module, name: str) -> Definition | None:
    """The last function or class `name` of the module."""
    definitions = [node for node in module_nodes(tree) if isinstance(node, Definition) and node.name == name]
    return max(definitions, key=lambda node: node.lineno, default=None)


def is_stub(definition: Definition) -> bool:
    """Whether the definition's body holds nothing but a docstring, `pass` or `...`."""
    return all(
        isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in definition.body
    )


def gives_back(definition: Definition) -> bool:
    """Whether the function itself, not one inside it, returns, yields or raises."""
    waiting: list[ast.AST] = list(definition.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return | ast.Raise | ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, SCOPES):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def returns_outside(tree: ast.Module) -> bool:
    """Whether a `return` stands outside every function, which the parser accepts and the compiler does not."""
    return any(isinstance(node, ast.Return) for node in module_nodes(tree))


def usage(tree: ast.Module, entry_point: str, before: ast.Module) -> list[ast.stmt]:
    """Top-level statements after the entry point that only use it: asserts, calls of it or of its tests, prompts for
    input, and statements that read their results, but none that changes a name which the entry point needs.

    `before`: the code of the prompt in front of it.
    """
    entry = definition(tree, entry_point)
    if entry is None:
        return []
    whole = ast.Module([*before.body, *tree.body], [])
    imported = {name for node in whole.body if isinstance(node, IMPORTS) for name in _changed(node)}
    changeable = bound_names(whole) - imported  # `math.floor(...)` changes no module
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
    for node in reversed(tree.body):  # a statement stays where a later one that stays reads its names
        if id(node) not in tried or _changed(node) & needed & changeable:
            tried.discard(id(node))
            needed |= _reached(global_reads(node, at_once=True) - needed, reads)
    return [node for node in tree.body if id(node) in tried]


def global_reads(statement: ast.stmt, *, at_once: bool = False) -> set[str]:
    """The module's and Python's names that `statement` reads: no argument or variable of a function in it.

    `at_once`: when it runs, so not in the bodies of functions that it defines.
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
    """Local names in the body of a function; `outer`: those of the functions around it."""
    shared = {name for node in module_nodes(body) if isinstance(node, ast.Global) for name in node.names}
    own = {node.arg for node in ast.walk(arguments) if isinstance(node, ast.arg)}
    return (outer | own | bound_names(body)) - shared


def _reads(tree: ast.Module) -> dict[str, set[str]]:
    """By name, the names that its binding or changing statements read."""
    reads: dict[str, set[str]] = {}
    for node in tree.body:
        free = global_reads(node)
        for name in _changed(node):
            reads.setdefault(name, set()).update(free)
    return reads


def _reached(names: set[str], reads: Mapping[str, set[str]]) -> set[str]:
    """`names` and those that they read, by themselves or by what they call."""
    reached, waiting = set(names), list(names)
    while waiting:
        new = reads.get(waiting.pop(), set()) - reached
        reached |= new
        waiting.extend(new)
    return reached


def _changed(statement: ast.stmt) -> set[str]:
    """Names that a top-level statement binds or whose values it changes: items, attributes, calls of methods."""
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
    """Top-level statements without effect, such as prose that happens to be Python (a word, `Note: text`)."""
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
    """Top-level statements that define nothing, or only by a call of the entry point."""
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
    """`code` without the lines of these top-level statements; a line that another statement shares stays."""
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
