"""Tests that a check defines, and the calls with which a test runner would run them. Executes nothing."""

from __future__ import annotations

import ast
from collections.abc import Collection

from reflexion_lab.tasks.sandbox.child import HAS_RUN, RUN_REST
from reflexion_lab.text.replies.syntax import Definition, Function, module_nodes, read_names


def with_calls(tree: ast.Module, entry_point: str, elsewhere: Collection[str] = ()) -> ast.Module:
    """`tree`, whose tests say that they run, and that ends with a call of those that did not (`child.Tests`):
    functions `test…`, `check(candidate)`, classes of `unittest` and pytest.

    `elsewhere`: names that other checks read.
    """
    names = list[ast.expr]()
    nodes = [*module_nodes(ast.Module([node for node in tree.body if not is_main_guard(node)], []))]
    calls = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    acts = bool(calls) or any(isinstance(node, ast.Assert | ast.Raise) for node in nodes)
    for node in sorted((node for node in nodes if isinstance(node, Definition)), key=lambda node: node.lineno):
        match node:
            case ast.ClassDef(name=name):
                tests = [part for part in node.body if isinstance(part, Function) and part.name.startswith("test")]
                for test in (test for test in tests if test.args.args):
                    test.body.insert(0, _call(HAS_RUN, ast.Constant(test.name), _read(test.args.args[0].arg)))
                if not (tests or node.bases):
                    continue
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if is_test(node):
                node.body.insert(0, _call(HAS_RUN, ast.Constant(name)))
            case _:
                continue
        if name != entry_point and name not in elsewhere:
            names.append(ast.Constant(name))
    tree.body += [_call(RUN_REST, ast.Constant(entry_point), ast.Constant(acts), *names)] if names else []
    return tree


def is_test(node: Function) -> bool:
    """Whether the function is a test by its name; `check` needs a parameter."""
    return node.name.startswith("test") or (node.name == "check" and bool(node.args.posonlyargs or node.args.args))


def is_main_guard(node: ast.stmt) -> bool:
    """Whether `node` is `if __name__ == "__main__"`; no check runs as a script."""
    return isinstance(node, ast.If) and "__name__" in read_names(node.test)


def _call(name: str, *arguments: ast.expr) -> ast.Expr:
    return ast.Expr(ast.Call(_read(name), [*arguments], []))


def _read(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())
