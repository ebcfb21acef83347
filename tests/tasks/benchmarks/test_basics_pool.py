from functools import cache
from random import Random

import pytest

from reflexion_lab.tasks.benchmarks.basics import (
    Pool,
    Template,
    calls,
    compiled,
    pool,
    select_cases,
    source,
    templates,
    wrong_programs,
)
from reflexion_lab.tasks.benchmarks.mutants import mutants

ROWS = [(template, k) for template in templates() for k in template.constants]


@cache
def pool_of(template: Template, k: object) -> Pool:
    """Made at its first use: at import, every process that collects would make all of them."""
    return pool(template, k, Random("a test's own"))


def fails(program: object, calls: list[tuple[object, ...]], values: list[object]) -> bool:
    for call, value in zip(calls, values, strict=True):
        try:
            if program(*call) != value:  # type: ignore[operator]
                return True
        except Exception:
            return True
    return False


def test_hidden_cases_reject_every_wrong_program_of_the_pool() -> None:
    for template, k in ROWS:
        pool = pool_of(template, k)
        examples, hidden = select_cases(pool, Random(1))
        rejected = 0
        for case in hidden:
            rejected |= case.rejects
        assert rejected == pool.every, (template.names[0], k)
        assert not set(examples) & set(hidden)


def test_examples_reject_the_stubs_and_the_slip_whatever_is_drawn() -> None:
    for template, k in ROWS:
        pool = pool_of(template, k)
        for draw in range(8):
            rejected = 0
            for case in select_cases(pool, Random(draw))[0]:
                rejected |= case.rejects
            assert rejected & pool.visible == pool.visible, (template.names[0], k, draw)


def test_no_wrong_program_of_any_template_counts_as_equivalent() -> None:
    for template, k in ROWS:
        wrong = 2 + bool(template.slip) + len(template.constants) - 1
        wrong += len(list(mutants(source(template, template.solution, k))))
        assert pool_of(template, k).every == (1 << wrong) - 1, (template.names[0], k)


def test_a_mutant_that_no_call_tells_apart_is_left_out() -> None:
    template = Template(
        theme="numbers", level="easy", names=("at_least_zero",), signature="(n: int) -> int",
        sentence="Return n, but 0 if it is negative.", solution=("return n if n > 0 else 0",), inputs="number(-20, 20)",
    )  # fmt: skip
    cases = pool(template, None, Random(0))
    programs = [mutant.program for mutant in mutants(source(template, template.solution, None))]
    same = sum(1 << 2 + i for i, program in enumerate(programs) if "n >= 0" in program or "n > -1" in program)
    assert same.bit_count() == 2
    assert cases.every == (1 << 2 + len(programs)) - 1 - same
    assert len(select_cases(cases, Random(0))[1]) >= 6


def test_no_program_changes_the_calls_that_the_next_one_gets() -> None:
    for template, k in {template.names[0]: (template, k) for template, k in ROWS}.values():
        items = [next(calls(template, k, Random(i))) for i in range(20)]
        before = repr(items)
        for program in wrong_programs(template, k):
            fails(program, items, [object()] * len(items))
            for call in items:
                try:
                    program(*call)
                except Exception:
                    continue
        assert repr(items) == before, template.names[0]


def test_an_endless_loop_raises_and_the_next_call_is_fresh() -> None:
    program = compiled("def program(n):\n    while n != 3:\n        n += 2\n    return n\n")
    assert program(1) == 3
    with pytest.raises(StopIteration):
        program(2)
    assert program(-1) == 3
