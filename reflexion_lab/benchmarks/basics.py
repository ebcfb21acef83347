"""`basics`: forty easy tasks in HumanEval's form, with names, constants and calls drawn by seed.

The texts are our own. Ideas such as the sum of digits are old, and a model may know them; the constants and
calls are drawn by seed. No expected value is typed by hand: each comes from running the
template's reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, zip_longest
from random import Random
from textwrap import dedent, indent
from typing import Any, NamedTuple

from reflexion_lab.benchmarks.basics_lists import LISTS
from reflexion_lab.benchmarks.basics_numbers import NUMBERS
from reflexion_lab.benchmarks.basics_strings import STRINGS
from reflexion_lab.benchmarks.basics_template import Template
from reflexion_lab.records import Task

THEMES = {"numbers": NUMBERS, "strings": STRINGS, "lists": LISTS}
EXAMPLES = 2
HIDDEN = 6
POOL = 100
"""Calls drawn per task, from which the examples and the hidden tests are chosen."""

Program = Callable[..., object]


class Case(NamedTuple):
    """One call of a task's function and what it must return."""

    arguments: tuple[object, ...]
    value: object

    def rejects(self, program: Program) -> bool:
        """True if `program` raises or returns something else."""
        try:
            return program(*self.arguments) != self.value
        except Exception:  # a wrong program may fail in any way
            return True


def basics(seed: int = 0, n: int = 40) -> list[Task]:
    """Draw `n` tasks; the first ones are the same for every `n`, and any prefix mixes the levels.

    Beyond forty, every template is drawn again, with another name and another constant as long as they last.
    The visible tests are the examples of the docstring; they reject the template's slip and the stubs that
    return None or their first argument. The hidden tests are other calls and reject every other constant too.

    Raises:
        ValueError: `n` is below 1.
    """
    if n < 1:
        raise ValueError(f"benchmark.load.n must be at least 1, found {n}: ask `basics` for one task or more.")
    order = _order(seed)
    return [_task(*order[i % len(order)], seed=seed, draw=i // len(order)) for i in range(n)]


def _order(seed: int) -> list[tuple[str, Template]]:
    """All templates with their themes: easy, medium, hard and again, shuffled within a level."""
    rng = Random(f"{seed}:order")
    rows = [(theme, template) for theme, templates in THEMES.items() for template in templates]
    levels = [[row for row in rows if row[1].level == level] for level in ("easy", "medium", "hard")]
    shuffled = [rng.sample(level, len(level)) for level in levels]
    return [row for row in chain.from_iterable(zip_longest(*shuffled)) if row]


def _task(theme: str, template: Template, *, seed: int, draw: int) -> Task:
    key = template.names[0]
    name = _nth(template.names, Random(f"{seed}:{key}:name"), draw)
    k = _nth(template.constants, Random(f"{seed}:{key}:constant"), draw)
    examples, hidden = _cases(template, k, Random(f"{seed}:{key}:{draw}"))
    sentence = template.sentence.format(k=k)
    docstring = "\n".join([sentence, *(f">>> {_call(name, case)}\n{case.value!r}" for case in examples)])
    return Task(
        task_id=f"basics/{key}/{draw}",
        prompt=f"def {name}{template.signature}:\n" + indent(f'"""{docstring}\n"""\n', "    "),
        entry_point=name,
        visible_tests=tuple(_check(name, case) for case in examples),
        hidden_tests=tuple(_check(name, case) for case in hidden),
        canonical_solution=_body(template.body, k),
        tags=("basics", theme, template.level),
    )


def _nth(choices: Sequence[Any], rng: Random, draw: int) -> Any:
    """One of `choices`, in an order of the seed's own: none comes twice before all came once."""
    return rng.sample(choices, len(choices))[draw % len(choices)]


def _cases(template: Template, k: Any, rng: Random) -> tuple[list[Case], list[Case]]:
    """Draw calls, run the reference on them, and choose the examples and the hidden cases."""
    compiled = partial(_program, template.signature)
    reference = compiled(template.body, k)
    calls = (template.inputs(rng, k) for _ in range(POOL))
    pool = [Case(call, reference(*call)) for call in {repr(call): call for call in calls}.values()]
    others = [compiled(template.body, other) for other in template.constants if other != k]
    wrong: list[Program] = [lambda *_: None, lambda first, *_: first]
    if template.slip:
        wrong.append(compiled(template.slip, k))
    examples = _rejecting(wrong, pool, EXAMPLES)
    return examples, _rejecting(wrong + others, [case for case in pool if case not in examples], HIDDEN)


def _rejecting(wrong: Sequence[Program], pool: Sequence[Case], size: int) -> list[Case]:
    """Choose `size` cases greedily: most wrong programs newly rejected, then the value least seen so far."""
    chosen: list[Case] = []
    for _ in range(size):
        alive = [program for program in wrong if not any(case.rejects(program) for case in chosen)]
        values = [case.value for case in chosen]
        rest = (case for case in pool if case not in chosen)
        chosen.append(max(rest, key=lambda case: (sum(map(case.rejects, alive)), -values.count(case.value))))
    return chosen


def _program(signature: str, body: str, k: Any) -> Program:
    namespace: dict[str, Any] = {}
    exec(f"def program{signature}:\n{_body(body, k)}", namespace)
    program: Program = namespace["program"]
    return program


def _body(body: str, k: Any) -> str:
    return indent(dedent(body).strip().format(k=k), "    ") + "\n"


def _call(name: str, case: Case) -> str:
    return f"{name}({', '.join(map(repr, case.arguments))})"


def _check(name: str, case: Case) -> str:
    return f"assert {_call(name, case)} == {case.value!r}"
