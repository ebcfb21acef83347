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

from collections.abc import Sequence
from functools import cache, lru_cache
from random import Random
from textwrap import indent
from typing import Any

from reflexion_lab.limits import Positive, validated
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.basics_pool import Case, Pool, body_of, chosen, pool
from reflexion_lab.tasks.benchmarks.basics_template import Template, templates

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
