"""Which tests say what others say already, however they are written."""

from __future__ import annotations

import ast
from collections.abc import Iterable


def repeated(tests: Iterable[str], others: Iterable[str], entry_point: str) -> tuple[str, ...]:
    """Those of `tests` with an assert that also stands in one of `others`, in their order.

    Spaces, quotes, messages and whether the function is called `candidate` or by its name make no difference.
    All tests must be Python.
    """
    known = {claim for other in others for claim in _claims(other, entry_point)}
    return tuple(test for test in tests if not known.isdisjoint(_claims(test, entry_point)))


def _claims(source: str, entry_point: str) -> list[str]:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "candidate":
            node.id = entry_point
    return [ast.dump(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)]
