"""The calls of a template of `basics`, which wrong programs each distinguishes, and the choice of tests among them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from random import Random
from typing import Any, NamedTuple, cast

from reflexion_lab.tasks.benchmarks.basics_template import Template, calls
from reflexion_lab.tasks.benchmarks.mutants import mutants

CALLS = 120
"""Calls drawn per template and constant."""
EXAMPLES = 2
HIDDEN = 6
"""Minimum; more where these do not distinguish every wrong program."""
NEAR = 40
"""Calls that a draw looks at first, so that draws differ in their tests."""
STEPS = 500
"""Rounds of loops that one call of a mutant may make; no reference makes a tenth of them."""
LOOP = re.compile(r"^ *(for|while) ", re.MULTILINE)

Program = Callable[..., object]


class Case(NamedTuple):
    """One call and what it must return, as Python source."""

    arguments: str
    value: str
    rejects: int
    """Bit i: the i-th wrong program raises or returns something else."""


class Pool(NamedTuple):
    """The data that depend on template and constant only; all draws choose from them."""

    cases: tuple[Case, ...]
    shown: int
    """Bits of the wrong programs that the examples distinguish: the stubs and the slip."""
    every: int
    """Bits of the wrong programs that some case distinguishes; the others count as equivalent."""
    kept: frozenset[Case]
    """Cases without which a wrong program might go undetected; they are never shown as examples."""


def pool(template: Template, k: Any, rng: Random) -> Pool:
    """Draw calls, run the reference on them, and determine which wrong programs each call distinguishes."""
    reference = compiled(source(template, template.solution, k))
    drawn = {repr(call): call for call in islice(calls(template, k, rng), CALLS)}
    values = [reference(*call) for call in drawn.values()]
    wrong = wrong_programs(template, k)
    killers = [_killers(program, drawn.values(), values) for program in wrong]
    cases = tuple(
        Case(_arguments(call), repr(value), sum((killed >> i & 1) << n for n, killed in enumerate(killers)))
        for i, (call, value) in enumerate(zip(drawn.values(), values, strict=True))
    )
    rare = [killed for killed in killers if killed.bit_count() <= EXAMPLES]
    return Pool(
        cases=cases,
        shown=(1 << (3 if template.slip else 2)) - 1,
        every=sum(1 << n for n, killed in enumerate(killers) if killed),
        kept=frozenset(case for i, case in enumerate(cases) if any(killed >> i & 1 for killed in rare)),
    )


def wrong_programs(template: Template, k: Any) -> list[Program]:
    """Two stubs, the slip, the reference with every other constant, and its mutants, in this order."""
    slip = [compiled(source(template, template.slip, k))] if template.slip else []
    others = [compiled(source(template, template.solution, other)) for other in template.constants if other != k]
    changed = [compiled(mutant.program) for mutant in mutants(source(template, template.solution, k))]
    return [lambda *_: None, lambda first, *_: first, *slip, *others, *changed]


def chosen(pool: Pool, rng: Random) -> tuple[list[Case], list[Case]]:
    """The examples, which distinguish stubs and slip, and the hidden cases, which distinguish every wrong program."""
    shuffled = rng.sample(pool.cases, len(pool.cases))
    examples = _rejecting(pool.shown, [case for case in shuffled if case not in pool.kept], EXAMPLES)
    rest = [case for case in shuffled if case not in examples]
    hidden = _rejecting(pool.every, rest[:NEAR], HIDDEN)
    left = pool.every
    for case in hidden:
        left &= ~case.rejects
    return examples, hidden + _rejecting(left, rest[NEAR:], 0)


def _rejecting(wrong: int, cases: Sequence[Case], size: int) -> list[Case]:
    """Choose greedily: most of `wrong` newly rejected, then the value least seen; more than `size` while that helps."""
    picked: list[Case] = []
    seen = Counter[str]()
    waiting = list(cases)
    while waiting:
        best = max(waiting, key=lambda case: ((case.rejects & wrong).bit_count(), -seen[case.value]))
        if len(picked) >= size and not best.rejects & wrong:
            break
        wrong &= ~best.rejects
        seen[best.value] += 1
        picked.append(best)
        waiting.remove(best)
    return picked


def _killers(program: Program, calls: Iterable[tuple[object, ...]], values: Sequence[object]) -> int:
    """Bit i: `program` raises on the i-th call or returns something else."""
    killed = 0
    for i, (call, value) in enumerate(zip(calls, values, strict=True)):
        try:
            differs = program(*call) != value
        except Exception:  # a wrong program may fail in any way
            differs = True
        killed |= differs << i
    return killed


def source(template: Template, body: Sequence[str], k: Any) -> str:
    return f"def program{template.signature}:\n{body_of(body, k)}"


def body_of(body: Sequence[str], k: Any) -> str:
    return "".join(f"    {line.format(k=k)}\n" for line in body)


def compiled(program: str) -> Program:
    """The function of `program`; a loop that does not end raises."""
    namespace: dict[str, Any] = {}
    if not LOOP.search(program):
        exec(program, namespace)
        return cast(Program, namespace["program"])
    tree = ast.parse(program)
    for loop in [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]:
        loop.body.insert(0, ast.Expr(ast.Call(ast.Name("step", ast.Load()), [], [])))
    exec(compile(ast.fix_missing_locations(tree), "<basics>", "exec"), namespace)
    function: Program = namespace["program"]

    def bounded(*arguments: object) -> object:
        namespace["step"] = iter(range(STEPS)).__next__
        return function(*arguments)

    return bounded


def _arguments(call: tuple[object, ...]) -> str:
    return f"({', '.join(map(repr, call))})"
