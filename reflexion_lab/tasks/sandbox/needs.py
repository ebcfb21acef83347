"""Whether a check needs more of the program than plain data, decided from the test's text alone.

A check that is `plain` calls the program with plain data and uses plain data of what comes back, so that it can run
apart from the program (`standin.py`). Any other runs beside the program, which can forge it. In doubt it needs more,
except that results may be objects: those of the program's own classes then equal nothing.
"""

from __future__ import annotations

import ast
import builtins
import importlib
from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random

from reflexion_lab.tasks.sandbox.comparison import is_single
from reflexion_lab.text.replies.syntax import bound_anywhere, read_names

MODULES = (
    "array", "bisect", "calendar", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "heapq",
    "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "textwrap", "time",
    "unittest", "uuid",
)  # fmt: skip
"""Modules of which plain checks may import."""
ITERATORS = {"enumerate", "filter", "iter", "map", "reversed", "zip"}
"""Built-in functions whose values are no plain data; those of `itertools` are the same."""
OF_OBJECTS = {
    "callable", "classmethod", "compile", "delattr", "dir", "eval", "exec", "getattr", "globals", "hasattr", "help",
    "id", "input", "issubclass", "locals", "memoryview", "next", "object", "open", "property", "repr", "setattr",
    "staticmethod", "super", "type", "vars",
}  # fmt: skip
"""Built-in functions that tell objects from plain data."""
BY_NAME = {"attrgetter", "methodcaller", "seed"}
"""Functions of modules that reach into objects, or change what the program draws."""
PLAIN = (str, bytes, bytearray, int, float, complex, list, tuple, dict, set, range, bool, BaseException)
LIBRARY = (Counter, deque, datetime, timedelta, Decimal, Fraction)
ATTRIBUTES = {name for kind in (*PLAIN, *LIBRARY) for name in dir(kind) if not name.startswith("_")}
"""Attributes of plain data."""
FIELDS = {name for name in ATTRIBUTES if not any(callable(getattr(kind, name, None)) for kind in (*PLAIN, *LIBRARY))}
"""Those that are no methods."""
TYPES = {kind.__name__ for kind in PLAIN} | {"frozenset"}
VIEWS = {"items", "keys", "values"}
"""Methods whose values are read at once, and cannot be sent."""
DRAWS = {name for name in dir(Random) if not name.startswith("_")}
ROUNDS = 50
"""Maximum passes over the assignments of a check."""
NODES = (
    ast.AsyncFor, ast.AsyncFunctionDef, ast.AsyncWith, ast.Await, ast.Match, ast.Yield, ast.YieldFrom, ast.Delete,
)  # fmt: skip
"""Statements and expressions that a plain check does not have."""


def is_plain(check: ast.Module, setup: ast.Module, entry_point: str) -> bool:
    """Whether the check, with what it uses of the setup, exchanges only plain data with the program."""
    return not is_class(entry_point) and _Text(check, setup, entry_point).is_plain()


def is_class(name: str) -> bool:
    """Whether the name is written as that of a class."""
    return name[:1].isupper() and "_" not in name


class _Text:
    """The text of a check, with what each name in it may hold."""

    def __init__(self, check: ast.Module, setup: ast.Module, entry_point: str) -> None:
        self.ours = {entry_point, "candidate"}
        tree = ast.Module([*_used(check, setup), *check.body], [])
        self.nodes = list(ast.walk(tree))
        self.called = {id(node.func) for node in self.nodes if isinstance(node, ast.Call)}
        self.bound = bound_anywhere(tree)
        self.read = read_names(tree)
        self.functions = {node.name: node for node in self.nodes if isinstance(node, ast.FunctionDef)}
        self.classes = {node.name for node in self.nodes if isinstance(node, ast.ClassDef)}
        self.imported = dict(_imports(self.nodes))
        methods = (node for c in self.nodes if isinstance(c, ast.ClassDef) for node in c.body)
        self.selves = {
            node.args.args[0].arg for node in methods if isinstance(node, ast.FunctionDef) and node.args.args
        }
        self.odd = {*self.functions, *self.classes, *self.imported}
        """Names that may hold something that cannot be sent to the program, and calls `name()` that may return it."""
        self.tainted = {argument.arg for argument in self.nodes if isinstance(argument, ast.arg)} - self.selves
        """Names that may hold something of the program."""
        self.tainted |= {node.name for node in self.nodes if isinstance(node, ast.ExceptHandler) and node.name}
        for node in self.nodes:
            if isinstance(node, ast.withitem) and node.optional_vars:
                self.tainted |= bound_anywhere(node.optional_vars)
        self.reaching: set[int] | None = None
        """Ids of the nodes that may be something of the program, once that is known."""
        self._flow()
        self.reaching = set()
        for node in reversed(self.nodes):  # the parts of a node before the node
            inside = any(id(part) in self.reaching for part in ast.iter_child_nodes(node))
            if inside or (isinstance(node, ast.Name) and node.id in self.ours | self.tainted):
                self.reaching.add(id(node))

    def is_plain(self) -> bool:
        known = self.bound | self.ours | set(dir(builtins))
        if not self.read <= known or "*" in self.bound:
            return False
        if any(module not in MODULES or name in BY_NAME for module, name in self.imported.values()):
            return False
        return not any(isinstance(node, NODES) or self._needs_more(node) for node in self.nodes)

    def _flow(self) -> None:
        """Spread oddity and taint along the assignments until nothing changes."""
        pairs = list(self._assignments())
        returns = {
            f"{name}()": [n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value]
            for name, node in self.functions.items()
        }
        for _ in range(ROUNDS):
            size = len(self.odd) + len(self.tainted)
            self.odd |= {call for call, values in returns.items() if not all(map(self._sendable, values))}
            for targets, value, is_sendable in pairs:
                names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
                if not is_sendable(value):
                    self.odd |= names
                if self._of_program(value):
                    self.tainted |= names
            if size == len(self.odd) + len(self.tainted):
                return
        raise RecursionError("names that depend on each other in too many steps")

    def _assignments(self) -> Iterator[tuple[list[ast.expr], ast.expr, Callable[[ast.expr], bool]]]:
        for node in self.nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    yield targets, value, self._sendable
                case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                    yield [target], value, self._sendable
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    yield [target], value, self._sendable
                case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                    yield [target], value, self._iterable
                case ast.Call(func=ast.Name(id=name), args=args) if name in self.functions:
                    parameters = self.functions[name].args.args
                    for parameter, value in zip(parameters, args, strict=False):
                        if not self._is_ours(value):
                            yield [ast.Name(parameter.arg)], value, self._sendable

    def _needs_more(self, node: ast.AST) -> bool:  # noqa: PLR0911 (one for each kind of node)
        match node:
            case ast.Call(func=ast.Name(id=name), args=args) if name in OF_OBJECTS:
                always = {"next", "globals", "locals", "eval", "exec", "open", "setattr", "delattr"}
                return name in always or any(map(self._of_program, args))
            case ast.Call(func=ast.Name(id="isinstance"), args=[value, kinds]):
                return self._of_program(value) and not read_names(kinds) <= TYPES
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if self._may_be_program(name):
                values = (*args, *(keyword.value for keyword in keywords))
                return not all(map(self._sendable, values))
            case ast.Call(func=ast.Call() | ast.Subscript() as inner) if self._of_program(inner):
                return True
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name in self.imported:
                return True  # the program may read it
            case ast.Call(func=function, args=args) if any(map(self._is_ours, args)):  # as `map(f, [1])`
                is_known = isinstance(function, ast.Name) and function.id in self.functions
                return not is_known and not all(self._is_ours(arg) or self._iterable(arg) for arg in args)
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [left, *others]
                pairs = zip(ops, sides, others, strict=False)
                return any(isinstance(op, ast.Is | ast.IsNot) and not any(map(is_single, (a, b))) for op, a, b in pairs)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in self.ours or attribute in BY_NAME:
                return True
            case ast.Attribute(value=value, attr=attribute):
                is_self = isinstance(value, ast.Name) and value.id in self.selves
                allowed = ATTRIBUTES if id(node) in self.called else FIELDS
                return not is_self and attribute not in allowed and self._of_program(value)
            case ast.With(items=items):
                calls = [item.context_expr for item in items]
                return not all(isinstance(c, ast.Call) and ast.unparse(c.func).startswith("self.assert") for c in calls)
            case ast.FunctionDef(decorator_list=decorators) | ast.ClassDef(decorator_list=decorators):
                bases = getattr(node, "bases", [])
                return bool(decorators) or any(map(self._of_program, bases))
        return False

    def _is_ours(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.ours

    def _may_be_program(self, name: str) -> bool:
        return name in self.ours or not (name in self.odd or name in dir(builtins))

    def _of_program(self, node: ast.AST) -> bool:
        """Whether the value of `node` may be something of the program."""
        if self.reaching is not None:
            return id(node) in self.reaching
        return any(isinstance(part, ast.Name) and part.id in self.ours | self.tainted for part in ast.walk(node))

    def _sendable(self, node: ast.expr) -> bool:  # noqa: PLR0911 (one for each kind of node)
        """Whether the value of `node` is plain data, or a result of the program."""
        match node:
            case ast.Name(id=name):
                return name not in self.odd and name not in self.ours and name not in OF_OBJECTS | ITERATORS
            case ast.Lambda() | ast.GeneratorExp():
                return False
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                module = self.imported.get(name)
                value = getattr(importlib.import_module(module[0]), attribute, None) if module in _PARENTS else len
                return not callable(value)
            case ast.Attribute():
                return False
            case ast.Call(func=ast.Name(id=name), args=args):
                if name in self.functions:
                    return f"{name}()" not in self.odd
                if name in self.imported:
                    return self._is_library(self.imported[name]) and all(map(self._iterable, args))
                return name not in self.odd | OF_OBJECTS | ITERATORS and all(map(self._iterable, args))
            case ast.Call(func=ast.Attribute(value=value, attr=attribute), args=args):
                root = self.imported.get(value.id) if isinstance(value, ast.Name) else None
                if root:
                    return self._is_library((root[0], attribute)) and all(map(self._iterable, args))
                return attribute in (ATTRIBUTES | DRAWS) - VIEWS and all(map(self._iterable, args))
            case ast.Call():
                return False
        return all(self._sendable(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))

    @staticmethod
    def _is_library(name: tuple[str, str]) -> bool:
        module, function = name
        return module not in ("itertools", "unittest") and function != "namedtuple"

    def _iterable(self, node: ast.expr) -> bool:
        """Whether the items of `node`, which is read at once, are plain data."""
        match node:
            case ast.GeneratorExp(elt=element):
                return self._sendable(element)
            case ast.Lambda():
                return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name)), args=args) if (
                name in ITERATORS or self.imported.get(name, ("",))[0] == "itertools"
            ):
                return all(map(self._iterable, args))
            case ast.Name(id=name) if name in self.functions or name in dir(builtins):
                return True
            case ast.Call(func=ast.Attribute(attr=attribute), args=[]) if attribute in VIEWS:
                return True
        return self._sendable(node)


_PARENTS = tuple((name, "") for name in ("math", "cmath", "string"))
"""Modules with constants."""


def _used(check: ast.Module, setup: ast.Module) -> list[ast.stmt]:
    """Statements of the setup that the check uses, directly or not."""
    used, names, waiting = list[ast.stmt](), read_names(check), setup.body
    while needed := [node for node in waiting if names & bound_anywhere(node)]:
        names = names.union(*map(read_names, needed))
        waiting = [node for node in waiting if node not in needed]
        used += needed
    return used


def _imports(nodes: list[ast.AST]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Names that the text imports, each with its module and name there; of a module the latter is ""."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    root = alias.name if alias.asname else alias.name.partition(".")[0]
                    yield alias.asname or root, (root.partition(".")[0] if "." in root else root, "")
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    yield alias.asname or alias.name, ((module or "").partition(".")[0], alias.name)
