from __future__ import annotations

from random import Random

import pytest

from reflexion_lab.benchmarks.basics import THEMES
from reflexion_lab.benchmarks.basics_pool import chosen, compiled, pool, source, wrong_programs
from reflexion_lab.benchmarks.basics_template import Template
from reflexion_lab.benchmarks.mutants import mutants

ROWS = [(template, k) for templates in THEMES.values() for template in templates for k in template.constants]
POOLS = {(template, k): pool(template, k, Random("a test's own")) for template, k in ROWS}


def fails(program: object, calls: list[tuple[object, ...]], values: list[object]) -> bool:
    for call, value in zip(calls, values, strict=True):
        try:
            if program(*call) != value:  # type: ignore[operator]
                return True
        except Exception:
            return True
    return False


def one_of_each() -> list[tuple[Template, object]]:
    return list({template.names[0]: (template, k) for template, k in ROWS}.values())


def test_hidden_cases_reject_every_wrong_program_that_any_call_tells_apart() -> None:
    for template, k in ROWS:
        found = POOLS[template, k]
        examples, hidden = chosen(found, Random(1))
        rejected = 0
        for case in hidden:
            rejected |= case.rejects
        assert rejected == found.every, (template.names[0], k)
        assert not set(examples) & set(hidden)


def test_examples_reject_the_stubs_and_the_slip_whatever_is_drawn() -> None:
    for template, k in ROWS:
        found = POOLS[template, k]
        for draw in range(8):
            rejected = 0
            for case in chosen(found, Random(draw))[0]:
                rejected |= case.rejects
            assert rejected & found.shown == found.shown, (template.names[0], k, draw)


def test_no_wrong_program_of_any_template_counts_as_equivalent() -> None:
    for template, k in ROWS:
        wrong = 2 + bool(template.slip) + len(template.constants) - 1
        wrong += len(list(mutants(source(template, template.body, k))))
        assert POOLS[template, k].every == (1 << wrong) - 1, (template.names[0], k)


def test_a_mutant_that_no_call_tells_apart_is_left_out() -> None:
    template = Template(
        "easy",
        ("at_least_zero",),
        "(n: int) -> int",
        "Return n, but 0 if it is negative.",
        "return n if n > 0 else 0",
        lambda r, k: (r.randint(-20, 20),),
    )
    found = pool(template, None, Random(0))
    programs = [mutant.program for mutant in mutants(source(template, template.body, None))]
    same = sum(1 << 2 + i for i, program in enumerate(programs) if "n >= 0" in program or "n > -1" in program)
    assert same.bit_count() == 2
    assert found.every == (1 << 2 + len(programs)) - 1 - same
    assert len(chosen(found, Random(0))[1]) >= 6


def test_no_program_changes_the_calls_that_the_next_one_gets() -> None:
    for template, k in one_of_each():
        calls = [template.inputs(Random(i), k) for i in range(20)]
        before = repr(calls)
        for program in wrong_programs(template, k):
            fails(program, calls, [object()] * len(calls))
            for call in calls:
                try:
                    program(*call)
                except Exception:
                    continue
        assert repr(calls) == before, template.names[0]


def test_a_loop_that_does_not_end_raises_and_the_next_call_starts_anew() -> None:
    program = compiled("def program(n):\n    while n != 3:\n        n += 2\n    return n\n")
    assert program(1) == 3
    with pytest.raises(StopIteration):
        program(2)
    assert program(-1) == 3


def test_every_template_has_mutants() -> None:
    counts = [len(list(mutants(source(template, template.body, k)))) for template, k in ROWS]
    assert min(counts) >= 2
    assert sum(counts) / len(counts) > 5
