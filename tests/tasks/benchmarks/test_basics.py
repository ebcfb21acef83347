import ast
import doctest
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import accumulate, chain, product
from pathlib import Path
from random import Random

import msgspec
import pytest

import reflexion_lab
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.basics import LEVELS, Template, basics, templates
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.rows import repeated

TEMPLATES = {template.names[0]: template for template in templates()}
ONCE = len(TEMPLATES)
SEEDS = (0, 1)


@cache
def drawn(seed: int) -> list[Task]:
    """Every template three times. Made at its first use: at import, every process that collects would make them."""
    return basics(seed, 3 * ONCE)


@pytest.fixture(params=SEEDS, ids=[f"seed {seed}" for seed in SEEDS])
def tasks(request: pytest.FixtureRequest) -> list[Task]:
    return drawn(request.param)


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


def test_the_canonical_solution_passes_all_its_distinct_tests(tasks: list[Task]) -> None:
    for task in tasks:
        assert solves(task.canonical_solution, task, task.visible_tests + task.hidden_tests), task.task_id
    for task in tasks:
        tests = task.visible_tests + task.hidden_tests
        assert len(task.visible_tests) == 2
        assert 6 <= len(task.hidden_tests) <= 10, task.task_id
        assert len({check.split(" == ")[0] for check in tests}) == len(tests), task.task_id
        assert not repeated(task.hidden_tests, task.visible_tests, task.entry_point), task.task_id


def test_a_prompt_is_a_typed_function_whose_docstring_shows_exactly_the_visible_tests(tasks: list[Task]) -> None:
    for task in tasks:
        function = parsed(task.prompt + "    pass\n")
        assert function.name == task.entry_point
        assert function.returns and all(argument.annotation for argument in function.args.args)
        assert ast.get_docstring(function)
        assert not re.search(r"\{k[]!}[]|\{\{", task.prompt + task.canonical_solution), task.task_id
    for task in tasks:
        examples = doctest.DocTestParser().get_examples(ast.get_docstring(parsed(task.prompt)) or "")
        items = tuple(f"assert {example.source.strip()} == {example.want.strip()}" for example in examples)
        assert items == task.visible_tests


def test_draws_of_one_template_differ_in_name_and_constant(tasks: list[Task]) -> None:
    for key, template in TEMPLATES.items():
        draws = [task for task in tasks if template_of(task) is template]
        assert len({task.entry_point for task in draws}) == 3, key
        assert len({repr(constant_of(task)) for task in draws}) == min(3, len(template.constants)), key


def test_every_prefix_mixes_the_levels(tasks: list[Task]) -> None:
    share = {level: sum(template.level == level for template in TEMPLATES.values()) / ONCE for level in LEVELS}
    so_far = accumulate((Counter([task.tags[2]]) for task in tasks), lambda a, b: a + b)
    for size, counts in enumerate(so_far, start=1):
        assert all(abs(counts[level] - share[level] * size) < 1 for level in LEVELS), size


def test_the_first_tasks_are_all_templates_in_turn_with_their_tags(tasks: list[Task]) -> None:
    for draw in range(3):
        ids = {task.task_id for task in tasks[draw * ONCE : (draw + 1) * ONCE]}
        assert ids == {f"basics/{key}/{draw}" for key in TEMPLATES}
    for task in tasks:
        template = template_of(task)
        assert task.tags == ("basics", template.theme, template.level)


def test_a_hundred_templates_in_eight_themes_have_every_level() -> None:
    assert ONCE >= 100
    assert all(bool(template.slip) == (template.level != "easy") for template in TEMPLATES.values())
    levels = Counter(template.level for template in TEMPLATES.values())
    assert 0.35 < levels["easy"] / ONCE < 0.45
    assert 0.2 < levels["hard"] / ONCE < levels["medium"] / ONCE
    themes = {template.theme for template in TEMPLATES.values()}
    assert len(themes) == 8
    assert {(template.theme, template.level) for template in TEMPLATES.values()} == set(product(themes, LEVELS))


def test_names_are_never_shared_between_templates() -> None:
    names = [name for template in TEMPLATES.values() for name in template.names]
    assert len(names) == len(set(names))
    assert all(len(template.names) >= 3 for template in TEMPLATES.values())


def test_a_seed_names_its_tasks_and_asking_for_none_or_too_many_is_refused() -> None:
    assert basics() == basics(0, 40) == drawn(0)[:40]  # fewer tasks are a prefix of more
    assert basics(1, 10) == drawn(1)[:10]
    assert basics(0, ONCE + 5) == drawn(0)[: ONCE + 5]
    prompts = [{task.prompt for task in tasks} for tasks in map(drawn, SEEDS)]
    assert len(set.union(*prompts)) > 0.97 * 3 * len(SEEDS) * ONCE
    for n in (0, -3, 100_000_000):
        with pytest.raises(ValueError, match=rf"basics\.n: got {n}, expected 1 to 100000"):
            basics(0, n)


def test_the_tasks_of_a_seed_are_those_of_version_0_1() -> None:
    rows = [[msgspec.to_builtins(task) for task in basics(seed, 40)] for seed in (0, 1, 2)]
    for row in chain(*rows):
        later = {"initial_code": "", "base_tests": 0, "repetition": 1, "kind": "function", "data": {}, "requires": ()}
        assert {name: row.pop(name) for name in (*later, "released")} == {**later, "released": ""}
        assert row.pop("cluster") == row["task_id"].rpartition("/")[0]
    digests = [hashlib.sha256(msgspec.json.encode(tasks)).hexdigest()[:16] for tasks in rows]
    assert digests == ["9e2242cb98b67134", "9d36939979b0e525", "255b53709e486f2d"]
    # studies that were registered before a field came name this digest
    assert Benchmark("basics", tuple(basics(0, 40))).digest[:16] == "f324058ad93c358e"


@pytest.mark.parametrize("hash_seed", ["0", "random"])
@pytest.mark.slow
def test_tasks_do_not_depend_on_process_and_hash_seed(hash_seed: str) -> None:
    script = (
        "import sys, msgspec; from reflexion_lab.tasks.benchmarks.basics import basics; "
        f"sys.stdout.buffer.write(msgspec.json.encode(basics(1, {3 * ONCE})))"
    )
    root = str(Path(reflexion_lab.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    assert msgspec.json.decode(run.stdout, type=list[Task]) == drawn(1)


@pytest.mark.slow
def test_thousands_of_tasks_have_ids_and_prompts_of_their_own() -> None:
    tasks = basics(3, 2000)
    assert len({task.task_id for task in tasks}) == 2000
    assert len({task.prompt for task in tasks}) == 2000
    for task in Random(0).sample(tasks, 200):
        assert solves(task.canonical_solution, task, task.visible_tests + task.hidden_tests), task.task_id
