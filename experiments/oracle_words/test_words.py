"""Oracle words: true differences from the solution that quote nothing of it; and a known share of wrong ones."""

import ast
import random
import re
from functools import partial

import pytest

from experiments.oracle_words.constructs import by_constructs
from experiments.oracle_words.differences import differences, untrue
from experiments.oracle_words.words import CORRUPTED, Corrupted, Oracle
from reflexion_lab.agent.reflectors.placebo import Generic
from reflexion_lab.agent.reflectors.reviewed import Reviewed
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Check, Task
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.studies.run import finish
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.benchmarks.mutants import mutants
from tests import builders as make
from tests.contract.test_reflectors import ODD

FOLDERS = "hydra.searchpath=[file://experiments/oracle_words/conf,file://experiments/dose_and_response_simulated/conf]"
ALLOWED = 3
"""Consecutive tokens of a solution that words may share with it by chance: `(`, `1`, `,`."""
TOKEN = re.compile(r"\w+|[^\w\s]")
TASK = Task(
    task_id="t/1",
    prompt='def add(xs):\n    """The sum."""\n',
    entry_point="add",
    canonical_solution="    total = 0\n    for x in xs:\n        if x > 0:\n            total += x\n    return total\n",
    hidden_tests=("assert add([1]) == 1",),
)


def program(*changes, body=TASK.canonical_solution):
    """The canonical program with replaced texts."""
    for old, new in changes:
        assert old in body
        body = body.replace(old, new)
    return TASK.prompt + body


def failed(solution, task_id="t/1", number=1):
    check = Check(name="assert add([1, 2]) == 3", outcome="fail", actual="2", expected="3", message="got 2")
    judged = {"passed": False, "outcome": "fail"}
    return make.attempt(check, judged=judged, acted={"solution": solution}, task_id=task_id, number=number)


@pytest.mark.parametrize(
    ("wrong", "kind", "change"),
    [
        (program(("x > 0", "x >= 0")), "comparison", "Replace `>=` by `>` in line 5."),
        (program(("total = 0", "total = 1")), "constant", "Replace `1` by `0` in line 3."),
        (program(("+=", "-=")), "operator", "Replace `-` by `+` in line 6."),
        (program(("return total", "return x")), "name", "Replace `x` by `total` in line 7."),
        (program(("            total += x\n", "            pass\n")), "other statement", None),
        (program(("    return total\n", "")), "missing statement", "Add a `return` after line 4."),
        (program(("total = 0", "return 0\n    total = 0")), "superfluous statement", "Remove the `return` in line 3."),
        (program(("if x > 0", "if not x > 0")), "branches", "Invert the condition in line 5."),
        (program(("in xs", "in xs[1:]")), "expression", "Put `xs` in place of a slice in line 4."),
        ("def add(xs):\n    return", "missing statement", "Add an assignment after line 1."),
        ("def add(xs):\n" + "    print(1)\n" * 9, "lacks loop", "Use a `for` loop."),
        ("def sub(xs):\n    return 1\n", "no function", "Define `add` by that name."),
        ("def add(xs:\n", "no program", "Write `add` whole, in valid Python."),
        ("", "no program", "Write `add` whole, in valid Python."),
    ],
)
def test_each_kind_of_difference_is_named(wrong, kind, change):
    first = differences(wrong, TASK.canonical_program, "add")[0]
    assert first.kind == kind
    assert change is None or first.change == by_text(change, wrong)


def by_text(change, program):
    """The change with the text of the line that it numbers."""
    lines = program.splitlines()
    return re.sub(r"line (\d+)", lambda match: f"`{lines[int(match[1]) - 1].strip()}`", change)


def returns(value, parameters="x"):
    return f"def add({parameters}):\n    return {value}\n"


@pytest.mark.parametrize(
    ("wrong", "correct", "change"),
    [
        (
            returns("sqrt(x)"),
            f"from math import sqrt\n{returns('sqrt(x)')}",
            "Define or import `sqrt`, used in line 2.",
        ),
        (returns("a - b", "a, b"), returns("a - b", "b, a"), "Write the task's parameters in line 1."),
        (returns("x", "x, n=2"), returns("x", "x, n=1"), "Write the task's parameters in line 1."),
        (f"async {returns('x')}", returns("x"), "Give `add` no `async` in line 1."),
        (f"K = 2\n{returns('x * K')}", f"K = 3\n{returns('x * K')}", "Replace `2` by `3` in line 1."),
        (f"{returns('x')}add = None\n", returns("x"), "Remove the assignment in line 3."),
        (returns("f'{x!r}'"), returns("f'{x!s}'"), "Correct an expression in line 2."),
        (returns("x.a.c"), returns("x.b.c"), "Replace `a` by `b` in line 2."),
        (returns(""), returns("x"), "Use `x` in line 2."),
        (returns("x"), returns(""), "Leave out `x` in line 2."),
        (returns("max(x, key=abs)"), returns("max(x)"), "Leave out the argument `key` in line 2."),
        (returns("max(x)"), returns("max(x, key=abs)"), "Give `max` the argument `key` in line 2."),
        (returns("[y for y in x]"), returns("[y for y in x if y]"), "Use more parts in line 2."),
        (returns("max(x, key=lambda y: y)"), returns("max(x, key=lambda y, z=1: y)"), "Use more parts in line 2."),
    ],
)
def test_differences_outside_statements_of_the_body_are_named(wrong, correct, change):
    assert [each.change for each in differences(wrong, correct, "add")] == [by_text(change, wrong)]


@pytest.mark.parametrize(
    ("wrong", "correct", "kinds"),
    [
        (returns("0"), returns("add(x - 1)"), {"lacks recursion", "lacks operator", "lacks constant"}),
        (returns("add(x)"), returns("len(x)"), {"lacks call", "has recursion"}),
        (returns("x"), returns("sum(len(y) for y in x)"), {"lacks call", "lacks comprehension"}),
    ],
)
def test_constructs_that_one_program_has_alone_are_named(wrong, correct, kinds):
    own = {"has result", "has constant", "has operator"}  # of the wrong program, beside those in question
    assert {each.kind for each in by_constructs(wrong, correct)} - own == kinds


@pytest.mark.parametrize(
    "wrong",
    [
        "from math import *\ndef add(a):\n    return sqrt(a) + 1\n",
        "def add(a):\n    match a:\n        case [sqrt, *_]:\n            return sqrt\n",
        "def add(a):\n    match a:\n        case {1: _, **sqrt}:\n            return sqrt\n",
    ],
)
def test_a_name_that_the_program_binds_is_not_said_to_be_unbound(wrong):
    correct = "from math import sqrt\ndef add(a):\n    return sqrt(a)\n"
    assert "unbound name" not in {each.kind for each in differences(wrong, correct, "add")}


def test_a_name_bound_in_another_order_is_no_difference():
    nested = "def add(x):\n    def {0}(y):\n        return y\n    return {0}(x)\n"
    loop = "def add(xs):\n    {0} = 0\n    for {1} in xs:\n        {0} += {1}\n    return {0}\n"
    assert not differences(nested.format("inner"), nested.format("helper"), "add")
    assert not differences(loop.format("s", "y"), loop.format("total", "x"), "add")
    deeper = loop.replace("    {0} = 0", "    if xs:\n        {0} = 0").format("total", "x")
    kinds = [
        [each.kind for each in differences(loop.format(*names), deeper, "add")] for names in ("sy", ("total", "x"))
    ]
    assert kinds[0] == kinds[1]


def test_other_names_of_variables_are_no_difference():
    assert differences(program(("total", "s"), ("x ", "y "), ("x\n", "y\n")), TASK.canonical_program, "add") == []


def texts(reflection):
    return (reflection.root_cause, reflection.what_to_change, *reflection.action_items)


def shingles(text, size):
    """Runs of `size` tokens."""
    tokens = TOKEN.findall(text)
    return {tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)}


@pytest.mark.parametrize("load", [partial(basics, n=138), humaneval])
@pytest.mark.slow
def test_words_never_quote_a_solution(load):
    """Mutants, another task's program, and no program: no line and no run of tokens that only the solution has."""
    rng, tasks = random.Random(0), list(load())
    oracle, seen = Oracle(tasks), 0
    for task in tasks:
        other = rng.choice(tasks)
        foreign = other.canonical_program.replace(other.entry_point, task.entry_point)
        start = task.prompt.count("\n")
        wrong = [mutant.program for mutant in mutants(task.canonical_program, start, 4, rng)]
        for text in (*wrong, foreign, ""):
            words = "\n".join(texts(oracle.reflect(task.public, failed(text, task.task_id), [])))
            own = shingles(f"{text}\n{task.prompt}", ALLOWED + 1)
            assert not (shingles(task.canonical_solution, ALLOWED + 1) - own) & shingles(words, ALLOWED + 1), words
            lines = {line.strip() for line in task.canonical_solution.splitlines() if len(TOKEN.findall(line)) > 1}
            assert not any(line in words for line in lines if line not in " ".join(text.split())), words
            assert max(map(len, words.splitlines())) <= 160, words  # the shortest limit of the default templates
            seen += 1
    assert seen > 3 * len(tasks)


def test_words_name_the_change_and_the_failing_check():
    reflection = Oracle([TASK]).reflect(TASK.public, failed(program(("x > 0", "x >= 0"))), [])
    assert reflection.source == "control:oracle"
    assert reflection.root_cause == "In `if x >= 0:`, `>=` is wrong; it must be `>`."
    assert "assert add([1, 2]) == 3" in reflection.what_went_wrong
    assert "got 2" in reflection.what_went_wrong


def test_applying_the_named_change_repairs_a_mutant():
    """Replacements of one token by another, carried out in the line that the words name."""
    applied, tasks = 0, list(basics(n=138))
    for task in tasks:
        canonical = ast.unparse(ast.parse(task.canonical_program))
        for mutant in mutants(task.canonical_program, task.prompt.count("\n"), 6, random.Random(0)):
            first, *others = differences(mutant.program, task.canonical_program, task.entry_point)
            parts = re.fullmatch(r"Replace `(.+)` by `(.+)` in `(.+?)(…?)`\.", first.change)
            if not parts or others:
                continue
            old, new, lines = parts[1], parts[2], mutant.program.splitlines()
            versions = []
            for number, text in enumerate(lines):
                is_named = (
                    " ".join(text.split()).startswith(parts[3]) if parts[4] else " ".join(text.split()) == parts[3]
                )
                for match in re.finditer(re.escape(old), text) if is_named else ():
                    line = text[: match.start()] + new + text[match.end() :]
                    versions.append("\n".join([*lines[:number], line, *lines[number + 1 :]]))
            assert any(_unparsed(version) == canonical for version in versions), (first, mutant)
            applied += 1
    assert applied > len(tasks)


def _unparsed(text):
    try:
        return ast.unparse(ast.parse(text))
    except SyntaxError:
        return ""


def test_wrong_words_do_not_hold():
    tasks = list(basics())
    rng, solutions = random.Random(0), [task.canonical_program for task in tasks]
    for task in tasks[:40]:
        for mutant in mutants(task.canonical_program, task.prompt.count("\n"), 2, rng):
            true = {each.change for each in differences(mutant.program, task.canonical_program, task.entry_point)}
            wrong = untrue(mutant.program, solutions, task.canonical_program, task.entry_point, rng)
            assert wrong
            assert not true & {each.change for each in wrong}


def test_wrong_words_have_the_form_and_the_length_of_true_ones():
    tasks = list(basics())
    oracle, corrupted = Oracle(tasks), Corrupted(Oracle(tasks), tasks, share=1.0)
    gaps = []
    for task in tasks:
        for mutant in mutants(task.canonical_program, task.prompt.count("\n"), 1, random.Random(0)):
            attempt = failed(mutant.program, task.task_id)
            true, wrong = oracle.reflect(task.public, attempt, []), corrupted.reflect(task.public, attempt, [])
            assert wrong.what_to_change != true.what_to_change
            assert wrong.what_went_wrong == true.what_went_wrong
            assert len(wrong.action_items) == len(true.action_items)
            gaps.append(len(wrong.what_to_change) - len(true.what_to_change))
    assert abs(sum(gaps)) / len(gaps) < 3


def flagged(share, tasks, first=None):
    corrupted = Corrupted(first or Oracle(tasks), tasks, share=share)
    reflections = {task.task_id: corrupted.reflect(task.public, failed("", task.task_id), []) for task in tasks}
    assert {reflection.source for reflection in reflections.values()} == {f"control:{CORRUPTED}"}
    return {name for name, reflection in reflections.items() if CORRUPTED in reflection.flags}


def test_the_share_of_wrong_words_is_as_said_and_nested():
    tasks = list(basics(n=138))[:60]
    wrong = [flagged(share, tasks) for share in (0, 0.25, 0.75, 1)]
    assert [len(names) for names in wrong[:1] + wrong[3:]] == [0, 60]
    assert wrong[1] < wrong[2]
    assert 5 <= len(wrong[1]) <= 25
    assert 35 <= len(wrong[2]) <= 55


@pytest.mark.parametrize("attempt", ODD)
def test_odd_evidence_gives_words(attempt):
    for reflector in (Oracle([TASK]), Corrupted(Oracle([TASK]), [TASK], share=1.0)):
        first, again = (reflector.reflect(TASK.public, attempt, []) for _ in range(2))
        assert first == again
        assert first.root_cause
        assert (first.about_attempt, first.reflection_id) == (attempt.number, "t/1#1")


def test_any_reflector_can_be_corrupted():
    tasks = list(basics(n=138))[:8]
    corrupted = Corrupted(Generic(), tasks, share=1.0)
    reflection = corrupted.reflect(tasks[0].public, failed("", tasks[0].task_id), [])
    assert Generic().reflect(tasks[0].public, failed(""), []).what_to_change != reflection.what_to_change
    assert reflection.flags == (CORRUPTED,)


def test_the_review_keeps_the_flag():
    review = Reviewed(Corrupted(Oracle([TASK]), [TASK], share=1.0), "reject")
    assert CORRUPTED in review.reflect(TASK.public, failed(program(("x > 0", "x >= 0"))), []).flags


@pytest.fixture
def run(tmp_path):
    """Runs an experiment with the simulated student; returns the run."""

    def run(experiment, *overrides):
        own = ("model=simulated_student", "actor=single_shot", "model.first=0", "tracker=none", f"run_root={tmp_path}")
        shared = ("benchmark=basics", "benchmark.load.n=4", "loop.max_attempts=2", "cache.mode=off", "quiet=true")
        cfg = compose(FOLDERS, experiment, *own, *shared, *overrides)
        lab = assemble(cfg)
        finish(lab)
        return lab.folder

    return run


@pytest.mark.parametrize(
    "overrides", [("experiment=oracle_words",), ("experiment=corrupted_sweep", "reflector.share=1")]
)
@pytest.mark.slow
def test_no_figure_of_such_a_run_is_a_pass_at_1(run, overrides):
    folder = run(*overrides)
    log = Log.read(folder)
    assert log.is_upper_bound
    flags = {flag for attempt in log.every if attempt.reflection for flag in attempt.reflection.flags}
    assert (CORRUPTED in flags) == (len(overrides) > 1)
    with pytest.raises(ConfigError, match="got a store with a part that reads canonical solutions"):
        run(*overrides, "store=sqlite")
    other = ("reflector=shuffled", f"reflector.pool=[{folder.path}]", "arm=reflexion_shuffled")
    with pytest.raises(ConfigError, match="words of a loop that was shown canonical solutions"):
        run("experiment=reflexion", *other)


def test_a_share_outside_its_range_is_named(run):
    with pytest.raises(ConfigError, match=r"reflector\.share: got 1\.5"):
        run("experiment=corrupted_sweep", "reflector.share=1.5")


@pytest.mark.parametrize(("lines", "most"), [(59, 60), (60, 60), (120, 30), (600, 6)])
@pytest.mark.slow
def test_fewer_mutants_of_a_long_program_are_built(monkeypatch, lines, most):
    built = []

    def counted(*args, **options):
        built.extend(mutants(*args, **options))
        return built

    monkeypatch.setattr("experiments.oracle_words.differences.mutants", counted)
    long = "def add(x, y):\n" + "    x = x + y - 3\n" * (lines - 2) + "    return x\n"
    assert untrue(long, [TASK.canonical_program], TASK.canonical_program, "add", random.Random(0))
    assert len(built) == most
