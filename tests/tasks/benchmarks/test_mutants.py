import ast

import pytest

from reflexion_lab.tasks.benchmarks.mutants import mutants
from tests.builders import TABLES


def mutated(program: str) -> set[str]:
    return {mutant.program for mutant in mutants(program)}


@pytest.mark.parametrize(("program", "mutant"), TABLES["small mistakes"])
def test_the_usual_small_mistakes_are_made(program: str, mutant: str) -> None:
    assert mutant in mutated(program)


PROGRAM = '''
def f(numbers: list[int], k: "int" = 3) -> "dict[str, int]":
    """Count 1 or 2."""
    total = 0
    for i, n in enumerate(sorted(numbers)):
        if n > k and not i % 2 == 0:
            total += n * 2
    return {"total": -total, "rest": numbers[1:k]}
'''


def test_mutants_are_different_programs_that_parse_and_leave_docstrings_and_types() -> None:
    items = list(mutants(PROGRAM))
    assert len({mutant.program for mutant in items}) == len(items) > 20
    for mutant in items:
        assert ast.dump(ast.parse(mutant.program)) != ast.dump(ast.parse(PROGRAM))
    for mutant in mutants(PROGRAM):
        assert '"""Count 1 or 2."""' in mutant.program
        assert ": list[int], k: 'int'" in mutant.program
        assert "-> 'dict[str, int]'" in mutant.program


def test_a_mutant_differs_in_the_line_that_it_names() -> None:
    origin = ast.unparse(ast.parse(PROGRAM)).splitlines()
    for mutant in mutants("\n".join(origin)):
        changed = mutant.program.splitlines()
        if len(changed) == len(origin):
            (line,) = (i for i, pair in enumerate(zip(origin, changed, strict=True), 1) if pair[0] != pair[1])
            assert line == mutant.line, mutant


def test_lines_before_the_first_are_left_as_they_are() -> None:
    items = list(mutants("a = 1\nb = 2\nc = 3\n", first_line=2))
    assert [mutant.line for mutant in items] == [2, 2, 3, 3]
    assert all("a = 1" in mutant.program for mutant in items)
    assert not mutated("x = a")  # nothing to change
    with pytest.raises(SyntaxError):
        mutated("def f(:")
