from __future__ import annotations

import ast
import doctest

import pytest

from reflexion_lab.benchmarks.basics import THEMES, basics
from reflexion_lab.benchmarks.basics_template import Template
from reflexion_lab.records import Task

TEMPLATES = {template.names[0]: template for templates in THEMES.values() for template in templates}
DRAWS = {seed: basics(seed, 120) for seed in (0, 1, 2)}

every_seed = pytest.mark.parametrize("tasks", DRAWS.values(), ids=[f"seed {seed}" for seed in DRAWS])


def solves(body: str, task: Task, checks: tuple[str, ...]) -> bool:
    """True if the program that is the prompt and `body` passes all `checks`."""
    namespace: dict[str, object] = {}
    exec(task.prompt + body, namespace)
    try:
        exec("\n".join(checks), namespace)
    except Exception:
        return False
    return True


def template_of(task: Task) -> Template:
    return TEMPLATES[task.task_id.split("/")[1]]


def constant_of(task: Task) -> object:
    template = template_of(task)
    (constant,) = (k for k in template.constants if f'"""{template.sentence.format(k=k)}\n' in task.prompt)
    return constant


def parsed(source: str) -> ast.FunctionDef:
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    return function


@every_seed
def test_the_canonical_solution_passes_every_test(tasks: list[Task]) -> None:
    for task in tasks:
        assert solves(task.canonical_solution, task, task.visible_tests + task.hidden_tests), task.task_id


@every_seed
def test_two_examples_and_six_hidden_tests_are_eight_different_calls(tasks: list[Task]) -> None:
    for task in tasks:
        calls = {check.split(" == ")[0] for check in task.visible_tests + task.hidden_tests}
        assert (len(task.visible_tests), len(task.hidden_tests), len(calls)) == (2, 6, 8), task.task_id


@every_seed
def test_the_docstring_shows_exactly_the_visible_tests(tasks: list[Task]) -> None:
    for task in tasks:
        examples = doctest.DocTestParser().get_examples(ast.get_docstring(parsed(task.prompt)) or "")
        shown = tuple(f"assert {example.source.strip()} == {example.want.strip()}" for example in examples)
        assert shown == task.visible_tests


@every_seed
def test_a_prompt_with_pass_is_the_function_with_types_and_a_docstring(tasks: list[Task]) -> None:
    for task in tasks:
        function = parsed(task.prompt + "    pass\n")
        assert function.name == task.entry_point
        assert function.returns and all(argument.annotation for argument in function.args.args)
        assert ast.get_docstring(function)
        assert "{" not in task.prompt + task.canonical_solution


@every_seed
def test_stubs_fail_the_visible_and_the_hidden_tests(tasks: list[Task]) -> None:
    for task in tasks:
        first = parsed(task.prompt).args.args[0].arg
        for stub in ("    pass\n", f"    return {first}\n"):
            assert not solves(stub, task, task.visible_tests), (task.task_id, stub)
            assert not solves(stub, task, task.hidden_tests), (task.task_id, stub)


@every_seed
def test_feedback_and_judge_both_see_a_slip(tasks: list[Task]) -> None:
    for task in tasks:
        template = template_of(task)
        assert bool(template.slip) == (template.level != "easy"), task.task_id
        if template.slip:
            slip = f"    {template.slip.format(k=constant_of(task))}\n"
            assert not solves(slip, task, task.visible_tests), task.task_id
            assert not solves(slip, task, task.hidden_tests), task.task_id


@every_seed
def test_the_solution_of_another_draw_fails_the_hidden_tests(tasks: list[Task]) -> None:
    mutants = [
        (task, other)
        for task in tasks
        for other in tasks
        if template_of(task) is template_of(other) and constant_of(task) != constant_of(other)
    ]
    for task, other in mutants:
        assert not solves(other.canonical_solution, task, task.hidden_tests), (task.task_id, other.task_id)
    varied = sum(len(template.constants) > 1 for template in TEMPLATES.values())
    assert len(mutants) == varied * 3 * 2


@every_seed
def test_draws_of_one_template_differ_in_name(tasks: list[Task]) -> None:
    for key, template in TEMPLATES.items():
        names = {task.entry_point for task in tasks if template_of(task) is template}
        assert len(names) == 3, key


@every_seed
def test_every_prefix_mixes_the_levels(tasks: list[Task]) -> None:
    for size in range(3, 41):
        levels = [task.tags[2] for task in tasks[:size]]
        counts = [levels.count(level) for level in ("easy", "medium", "hard")]
        assert max(counts) - min(counts) <= 1, size


@every_seed
def test_forty_tasks_are_the_forty_templates(tasks: list[Task]) -> None:
    assert {task.task_id for task in tasks[:40]} == {f"basics/{key}/0" for key in TEMPLATES}
    assert len(TEMPLATES) == 40
    assert len({task.task_id for task in tasks}) == 120


@every_seed
def test_tags_name_benchmark_theme_and_level(tasks: list[Task]) -> None:
    for task in tasks:
        benchmark, theme, level = task.tags
        assert benchmark == "basics"
        assert template_of(task) in THEMES[theme]
        assert level == template_of(task).level


def test_names_are_never_shared_between_templates() -> None:
    names = [name for template in TEMPLATES.values() for name in template.names]
    assert len(names) == len(set(names))
    assert all(len(template.names) >= 3 for template in TEMPLATES.values())


def test_a_seed_names_its_tasks() -> None:
    assert basics(0) == basics(0)
    assert basics() == basics(0, 40)
    prompts = [{task.prompt for task in tasks} for tasks in DRAWS.values()]
    assert len(set.union(*prompts)) > 350  # a template with few names and no constant may repeat itself


def test_fewer_tasks_are_a_prefix_of_more() -> None:
    for seed, tasks in DRAWS.items():
        for n in (1, 10, 45):
            assert basics(seed, n) == tasks[:n]


@pytest.mark.parametrize("n", [0, -3])
def test_asking_for_no_task_is_refused_by_name(n: int) -> None:
    with pytest.raises(ValueError, match=rf"benchmark\.load\.n .* found {n}"):
        basics(0, n)
