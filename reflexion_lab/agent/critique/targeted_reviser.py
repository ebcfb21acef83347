"""Fixes by rules, without a model, for issues with one obvious remedy."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from reflexion_lab.protocols import Reviser
from reflexion_lab.records import Critique, Task, Trajectory
from reflexion_lab.text.replies.extract import extract
from reflexion_lab.text.replies.syntax import Parser, definition, future_imports, gives_back, unbound_names

STANDARD = """
bisect collections copy datetime decimal fractions functools heapq itertools json math operator random re statistics
string
"""
MODULES = frozenset(STANDARD.split())
"""Modules of the standard library that programs often forget to import, with names that are hardly used otherwise."""
NAMES = {
    **dict.fromkeys(("Counter", "OrderedDict", "defaultdict", "deque"), "collections"),
    **dict.fromkeys(("cmp_to_key", "lru_cache", "reduce"), "functools"),
    **dict.fromkeys(
        ("Any", "Callable", "Dict", "Iterable", "List", "Optional", "Sequence", "Set", "Tuple", "Union"), "typing"
    ),
}
"""Names of this kind, with their modules."""
SYNTAX = re.compile(r"\b(?:SyntaxError|IndentationError|TabError|invalid[ -]syntax|syntax error)\b", re.IGNORECASE)
UNDEFINED = re.compile(r"\bname '(\w+)' is not defined|\bundefined name [`'\"]?(\w+)|\bimport (\w+)|Name `(\w+)` used")
NO_RESULT = re.compile(r"\bgot None\b|\breturns? (?:None|nothing)\b")

Rule = Callable[[Task, str, str], str]
"""(task, program, all issues) to the fixed program, or the same one."""


class Targeted:
    """Applies the rules of `RULES` whose fault an issue names; `fallback` revises where none changes anything."""

    def __init__(self, fallback: Reviser) -> None:
        self.fallback = fallback

    def revise(self, task: Task, program: str, critique: Critique) -> Trajectory:
        """Raises only what `fallback` raises."""
        issues, fixed, applied = "\n".join(critique.issues), program, list[str]()
        for rule in RULES:
            result = rule(task, fixed, issues)
            if result != fixed:
                applied.append(rule.__name__)
                fixed = result
        if not applied:
            return self.fallback.revise(task, program, critique)
        words = ", ".join(applied)
        return Trajectory(solution=fixed, strategy="targeted", rationale=f"Mended: {words}", extraction=words)


def stray_text(task: Task, program: str, issues: str) -> str:
    """Of a program that is no Python, the definition of the entry point within it, without prose and fences."""
    if not SYNTAX.search(issues) or Parser().parse(program):
        return program
    extraction = extract(program, task)
    return extraction.program if "function" in extraction.rule.split("+") else program


def missing_imports(task: Task, program: str, issues: str) -> str:
    """Adds imports of `MODULES` and `NAMES` that an issue calls undefined and the program does not define."""
    tree = Parser().parse(program)
    if tree is None:
        return program
    named = {name for groups in UNDEFINED.findall(issues) for name in groups if name}
    lacking = sorted(named & unbound_names(tree) & (MODULES | NAMES.keys()))
    imports = [f"import {name}" if name in MODULES else f"from {NAMES[name]} import {name}" for name in lacking]
    lines = program.split("\n")
    after = max((node.end_lineno or 0 for node in future_imports(tree)), default=0)
    return "\n".join([*lines[:after], *imports, *lines[after:]])


def missing_return(task: Task, program: str, issues: str) -> str:
    """Where the entry point returns nothing at all: `return` before its last expression, or of the variable that its
    last statement assigns.
    """
    tree = Parser().parse(program)
    entry = tree and definition(tree, task.entry_point)
    if not entry or isinstance(entry, ast.ClassDef) or not NO_RESULT.search(issues) or gives_back(entry):
        return program
    last, lines = entry.body[-1], program.split("\n")
    first, margin = lines[last.lineno - 1], " " * last.col_offset
    if first[: last.col_offset] != margin:  # it shares its line, or stands behind tabs
        return program
    match last:
        case ast.Expr(value=ast.Constant(value=str())) | ast.Expr(value=ast.Call()):
            return program
        case ast.Expr():
            lines[last.lineno - 1] = f"{margin}return {first[last.col_offset :]}"
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
            lines.insert(last.end_lineno or last.lineno, f"{margin}return {name}")
    return "\n".join(lines)


RULES: tuple[Rule, ...] = (stray_text, missing_imports, missing_return)
