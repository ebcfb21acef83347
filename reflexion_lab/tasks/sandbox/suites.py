"""Tests that a check only defines, and the calls with which a test runner would run them. Executes nothing."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from reflexion_lab.text.replies.syntax import Function, read_names

UNITTEST = "import unittest\nunittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, ({}))).debug()"
"""Raises the first failure, also of `setUp` and `setUpClass`."""


def with_calls(tree: ast.Module, entry_point: str, elsewhere: Collection[str] = ()) -> ast.Module:
    """`tree` with calls of the tests that it defines and does not call: functions `test…`, `check(candidate)`, classes
    of `unittest` and pytest. Calls of `unittest.main`, which ends the process or hides a failure, go.

    `elsewhere`: names that other checks read.
    """
    run = [node for node in tree.body if not is_main_guard(node)]
    calls, cases = list[str](), dict[str, bool]()
    for node in tree.body:
        name = getattr(node, "name", entry_point)
        others = (other for other in run if getattr(other, "name", "") != name)
        is_called = name == entry_point or name in elsewhere or name in read_names(*others)
        match node:
            case ast.ClassDef(bases=bases) if any(_is_case(ast.unparse(base), cases) for base in bases):
                cases[name] = not is_called
            case ast.ClassDef() if name.startswith("Test") and not is_called:
                calls += _of_class(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not is_called:
                calls += _of_function(node, entry_point)
    if own := [f"{name}," for name, is_free in cases.items() if is_free]:
        calls.append(UNITTEST.format(" ".join(own)))
    if cases:
        tree.body = [node for node in tree.body if not _is_main(node)]
    tree.body += ast.parse("\n".join(calls)).body
    return tree


def is_main_guard(node: ast.stmt) -> bool:
    """Whether `node` is `if __name__ == "__main__"`; no check runs as a script."""
    return isinstance(node, ast.If) and "__name__" in read_names(node.test)


def _is_case(base: str, cases: Collection[str]) -> bool:
    return base.endswith("TestCase") or base in cases


def _is_main(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) in ("unittest.main", "main")


def _of_function(node: Function, entry_point: str) -> Iterator[str]:
    needed, ours = _needed(node), ("candidate", entry_point)
    is_test = node.name.startswith("test") and (not needed or needed[0] in ours)
    if len(needed) < 2 and (is_test or (node.name == "check" and needed)):
        call = f"{node.name}({'candidate' * len(needed)})"
        yield f"import asyncio\nasyncio.run({call})" if isinstance(node, ast.AsyncFunctionDef) else call


def _of_class(node: ast.ClassDef) -> Iterator[str]:
    methods = {method.name: _needed(method) for method in node.body if isinstance(method, ast.FunctionDef)}
    for name, needed in methods.items():
        if name.startswith("test") and len(needed) < 2:
            yield f"_case = {node.name}()"
            if (setup := methods.get("setup_method")) is not None:
                yield f"_case.setup_method({'None' * (len(setup) - 1)})"
            yield f"_case.{name}()"


def _needed(function: Function) -> list[str]:
    """Parameters without a default."""
    arguments = function.args
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return positional[: len(positional) - len(arguments.defaults)] + [a.arg for a, default in pairs if not default]
