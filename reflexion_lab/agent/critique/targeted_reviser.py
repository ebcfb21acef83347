"""Revisions by rules, without a model, for issues with one obvious fix."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from reflexion_lab.protocols import Reviser
from reflexion_lab.records import Critique, Task, Trajectory
from reflexion_lab.text.replies.extract import extract
from reflexion_lab.text.replies.syntax import Parser, definition, future_imports, has_result, unbound_names

STANDARD = """
bisect collections copy datetime decimal fractions functools heapq itertools json math operator random re statistics
string
"""
MODULES = frozenset(STANDARD.split())
"""Modules of the standard library that programs often fail to import, with names that are rarely used otherwise."""
NAMES = {
    **dict.fromkeys(("Counter", "OrderedDict", "defaultdict", "deque"), "collections"),
    **dict.fromkeys(("cmp_to_key", "lru_cache", "reduce"), "functools"),
    **dict.fromkeys(
        ("Any", "Callable", "Dict", "Iterable", "List", "Optional", "Sequence", "Set", "Tuple", "Union"), "typing"
    ),
}
"""Likewise: names and their modules."""
SYNTAX = re.compile(r"\b(?:SyntaxError|IndentationError|TabError|invalid[ -]syntax|syntax error)\b", re.IGNORECASE)
UNDEFINED = re.compile(r"\bname '(\w+)' is not defined|\bundefined name [`'\"]?(\w+)|\bimport (\w+)|Name `(\w+)` used")
NO_RESULT = re.compile(r"\bgot None\b|\breturns? (?:None|nothing)\b")

Rule = Callable[[Task, str, str], str]
"""Maps (task, program, all issues) to the fixed or unchanged program."""


class Targeted:
    """Applies the `RULES` that match an issue; calls `fallback` if none changes the program."""

    def __init__(self, fallback: Reviser) -> None:
        self.fallback = fallback

    def revise(self, task: Task, program: str, critique: Critique) -> Trajectory:
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
    """Reduces a program that is not Python to the definition of the entry point in it."""
    if not SYNTAX.search(issues) or Parser().parse(program):
        return program
    extraction = extract(program, task)
    return extraction.program if "function" in extraction.rule.split("+") else program


def missing_imports(task: Task, program: str, issues: str) -> str:
    """Imports those of `MODULES` and `NAMES` that an issue calls undefined and the program does not define."""
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
    """If the entry point has no `return`: returns its last expression, or the variable of its last assignment."""
    tree = Parser().parse(program)
    entry = tree and definition(tree, task.entry_point)
    if not entry or isinstance(entry, ast.ClassDef) or not NO_RESULT.search(issues) or has_result(entry):
        return program
    last, lines = entry.body[-1], program.split("\n")
    first, margin = lines[last.lineno - 1], " " * last.col_offset
    if first[: last.col_offset] != margin:  # the statement shares its line, or is indented by tabs
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
