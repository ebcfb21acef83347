"""`basics`: parametric tasks in HumanEval's form, easy to hard, with names, constants and calls drawn by seed.

No expected value is typed by hand: each comes from running the template's reference. What the tests are worth is
measured, not hoped for: the hidden tests of a task reject the template's slip, its solution with every other
constant, and every mutant of its solution that any of the calls drawn for it tells from the solution.

Contamination. The texts, constants, calls and tests are our own and drawn by seed, so that no task can stand word
for word in a corpus that is older than its seed, and remembered tests are of no use. The ideas behind many templates
(the sum of digits, a palindrome) are old, and a model has met programs for them: `basics` measures whether it can
apply them to this name and this constant, not whether it could have invented them. Templates and default seeds
are public from the day of their release on; draw another seed where that matters.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import islice
from random import Random
from textwrap import indent
from typing import Any, NamedTuple, cast

from reflexion_lab.limits import Positive, validated
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.basics_template import Template, calls, templates
from reflexion_lab.tasks.benchmarks.mutants import mutants

LEVELS = ("easy", "medium", "hard")
TRIES = 20
"""Draws of examples before a prompt is let come twice."""


@validated
def basics(seed: int = 0, n: Positive = 40) -> list[Task]:
    """Draw `n` tasks; the first ones are the same for every `n`, and any prefix mixes the levels.

    Once every template had its turn, each is drawn again, with another name, constant and other calls as long as they
    last. The visible tests are the examples of the docstring; they reject the template's slip and the stubs that
    return None or their first argument. A task's tags are `basics`, its theme and its level.

    Raises
    ------
    ConfigError
        `n` is below 1.
    """
    return list(_drawn(seed, n))


@lru_cache(maxsize=8)
def _drawn(seed: int, n: int) -> tuple[Task, ...]:
    """Kept, since every cell of a sweep asks for the same."""
    order = _order(seed)
    prompts: set[str] = set()

    @cache
    def calls(at: int, constant: int) -> Pool:
        template = order[at]
        k = template.constants[constant]
        return pool(template, k, Random(f"{seed}:{template.names[0]}:{k!r}"))

    def drawn(number: int) -> Task:
        draw, at = divmod(number, len(order))
        template = order[at]
        key = template.names[0]
        name = _nth(template.names, f"{seed}:{key}:name", draw)
        constant = _nth(range(len(template.constants)), f"{seed}:{key}:constant", draw)
        rng = Random(f"{seed}:{key}:{draw}")
        for _ in range(TRIES):
            task = _task(template, draw, name, template.constants[constant], *chosen(calls(at, constant), rng))
            if task.prompt not in prompts:
                break
        prompts.add(task.prompt)
        return task

    return tuple(drawn(number) for number in range(n))


def _order(seed: int) -> list[Template]:
    """All templates, shuffled within a level; every prefix has the shares of the whole."""
    rng = Random(f"{seed}:order")
    placed = []
    for number, level in enumerate(LEVELS):
        of_level = [template for template in templates() if template.level == level]
        for i, template in enumerate(rng.sample(of_level, len(of_level))):
            placed.append(((i + 0.5) / len(of_level), number, template))
    return [template for _, _, template in sorted(placed, key=lambda place: place[:2])]


def _task(template: Template, draw: int, name: str, k: Any, examples: Sequence[Case], hidden: Sequence[Case]) -> Task:
    sessions = [f">>> {name}{case.arguments}\n{case.value}" for case in examples]
    docstring = "\n".join([template.sentence.format(k=k), *sessions])
    return Task(
        task_id=f"basics/{template.names[0]}/{draw}",
        prompt=f"def {name}{template.signature}:\n" + indent(f'"""{docstring}\n"""\n', "    "),
        entry_point=name,
        visible_tests=tuple(_check(name, case) for case in examples),
        hidden_tests=tuple(_check(name, case) for case in hidden),
        canonical_solution=body_of(template.solution, k),
        tags=("basics", template.theme, template.level),
    )


def _nth(choices: Sequence[Any], name: str, draw: int) -> Any:
    """One of `choices`, in orders of the name's own: none comes twice before all came once."""
    block, place = divmod(draw, len(choices))
    return Random(f"{name}:{block}").sample(choices, len(choices))[place]


def _check(name: str, case: Case) -> str:
    return f"assert {name}{case.arguments} == {case.value}"


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
