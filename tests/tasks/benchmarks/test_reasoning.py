import ast
import inspect
import json
import os
import subprocess
import sys
import textwrap

import pytest

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.solutions import OURS, _harmless
from reflexion_lab.tasks.benchmarks import reasoning as module
from reflexion_lab.tasks.benchmarks.reasoning import REFUSED, reasoning, score
from reflexion_lab.tasks.evaluators.answers import answered
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.text.replies.answers import extract_answer, key

EVALUATING = {"eval", "exec", "compile", "parse_expr", "sympify", "S", "Fraction", "parse_latex", "system", "Popen"}
"""Last names of calls that evaluate a text, or take unbounded time for one, such as Fraction("1e99999999")."""
HOSTILE = [
    "", " ", "\n", "x", "no", "None", "[]", "()", "nan", "inf", "1e999", "1e99999999", "-0", "1/0", "\u0663\u0664",
    "\x00", "x" * 10_000, "[" * 5_000, "(" * 5_000, '{"a":' * 1_500, "9" * 9_000, "0\n" * 4_000, "\ud800",
    "wrong draft 0a1b",
]  # fmt: skip


DIGESTS = """import sys
from reflexion_lab.tasks.benchmarks.reasoning import reasoning
for family in sys.argv[1:]:
    print(family, reasoning([family], n=3, seed=5).tasks_digest)
"""


@pytest.fixture(scope="module")
def families():
    from reasoning_gym.factory import DATASETS

    return DATASETS


def admitted(datasets):
    return sorted(datasets.keys() - REFUSED.keys())


def called(function, of_class, seen):
    """Last names of all calls that a scorer makes, through its class and module."""
    if function in seen:
        return set()
    seen.add(function)
    names = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Call):
            owner, _, name = ast.unparse(node.func).rpartition(".")
            names.add(name)
            where = of_class if owner in ("self", "cls", of_class.__name__) else sys.modules[function.__module__]
            callee = getattr(where, name, None) if owner in ("", "self", "cls", of_class.__name__) else None
            if inspect.isfunction(callee) and callee.__module__.startswith("reasoning_gym"):
                names |= called(callee, of_class, seen)
    return names


def test_no_admitted_scorer_evaluates_an_answer_and_those_refused_for_it_do(families):
    evaluates = {name: called(kind.score_answer, kind, set()) & EVALUATING for name, (kind, _) in families.items()}
    assert not {name: calls for name, calls in evaluates.items() if calls and name not in REFUSED}
    refused = {name for name, why in REFUSED.items() if "evaluates the text" in why}
    assert refused == {name for name, calls in evaluates.items() if calls - {"Fraction"}}
    assert len(admitted(families)) == 77 and REFUSED.keys() <= families.keys()


@pytest.mark.parametrize("share", range(6))
def test_every_admitted_family_accepts_its_own_answers_and_rejects_hostile_ones(families, share):
    for family in admitted(families)[share::6]:
        tasks = reasoning([family], n=2, seed=3).tasks
        assert reasoning([family], n=3, seed=3).tasks[:2] == tasks, family
        for task in tasks:
            assert run_tests(None, task, task.canonical_solution, task.hidden_tests).passed, family
            wrong = [text for text in HOSTILE if text.strip() != task.canonical_solution]
            passing = [text for text in wrong if answered(text, task.hidden_tests).checks[0].outcome == "pass"]
            assert not {*passing} - {"-0"}, (family, passing, task.canonical_solution)  # which may equal a 0


def test_a_seed_gives_the_same_questions_in_another_process(families):
    def digests(hash_seed):
        env = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-W", "ignore", "-c", DIGESTS, *admitted(families)]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    assert (first := digests("1")) == digests("2") and len(first.splitlines()) == len(admitted(families))


def test_only_a_full_score_passes_and_a_check_alone_gives_the_verdict():
    (task,) = reasoning(["letter_jumble"], n=1, seed=1).tasks
    words = task.canonical_solution.split()
    partly = " ".join([*words[:-1], "x" * len(words[-1])])
    check = json.loads(task.hidden_tests[0])
    assert 0 < score(check, partly) < 1 and not run_tests(None, task, partly, task.hidden_tests).passed
    assert score(json.loads(json.dumps(check)), task.canonical_solution) == 1.0
    assert check["version"] and check["family"] == "letter_jumble"


def test_families_take_turns_and_their_clusters_ids_and_difficulty_are_stated():
    easy = {"basic_arithmetic": {"max_terms": 2, "max_digits": 1}}
    tasks = reasoning(["basic_arithmetic", "gcd"], n=5, seed=2, difficulty=easy).tasks
    assert [task.cluster.rpartition("/")[2] for task in tasks] == ["basic_arithmetic", "gcd"] * 2 + ["basic_arithmetic"]
    assert tasks[1].task_id == "reasoning/gcd/2/0" and tasks[1].tags == ("reasoning", "gcd")
    assert all(len(task.prompt) < len("Calculate 9 + 9 + 9.") + 60 for task in tasks[::2])
    prompts = [{task.prompt for task in reasoning(["gcd"], n=100, seed=seed).tasks} for seed in (0, 1)]
    assert [*map(len, prompts)] == [100, 100] and len(prompts[0] & prompts[1]) < 5, "seeds draw other questions"
    assert [task.cluster for task in reasoning(["gcd", "lcm"], n=1).tasks] == ["reasoning/gcd"]


def test_the_right_answer_stands_in_nothing_that_the_loop_reads():
    for task in reasoning(["caesar_cipher", "needle_haystack"], n=4).tasks:
        oracle = task.hidden_tests
        evaluation = run_tests(None, task, "my own guess", oracle)
        empty = run_tests(None, task, "", oracle, "length")
        for verdict in (evaluation, empty):
            assert not verdict.passed and oracle[0] not in (text := repr(verdict))
            assert repr(task.canonical_solution)[1:-1] not in text and verdict.checks[0].name == "the answer"
        assert evaluation.feedback == "The answer 'my own guess' is wrong."
        assert empty.feedback == "No answer was found in the reply, which broke off at max_tokens."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"families": ["countdown"]}, "evaluates the text"),
        ({"families": ["no_such"]}, "unknown, expected some of ab,"),
        ({"families": []}, "one or several"),
        ({"families": ["gcd", "gcd"]}, "different"),
        ({"difficulty": {"gcd": {}}}, "some of basic_arithmetic"),
        ({"difficulty": {"basic_arithmetic": {"terms": 3}}}, "max_terms"),
        ({"difficulty": {"basic_arithmetic": {"min_terms": 9, "max_terms": 2}}}, "min_terms"),
        ({"families": ["coin_flip"]}, "unbounded time"),
        (
            {"families": ["binary_alternation"], "n": 5000, "difficulty": {"binary_alternation": {"max_n": 11}}},
            "or fewer",
        ),
    ],
)
def test_errors_name_what_is_admitted(arguments, message):
    with pytest.raises(ConfigError, match=message):
        reasoning(**arguments)


def test_without_the_package_the_command_that_installs_it_is_named(monkeypatch):
    module._generator.cache_clear()
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ConfigError, match=r"pip install 'reflexion-lab\[worlds\]'"):
        reasoning(["gcd"], n=1)


def test_the_benchmark_of_a_recorded_run_is_loaded_with_lists_and_objects_but_no_targets():
    load = {"_target_": "reflexion_lab.tasks.benchmarks.reasoning.reasoning", "families": ["gcd"], "n": 3}
    assert _harmless({**load, "difficulty": {"gcd": {"max_value": 9}}}, OURS)
    for bad in ({"_target_": "os.system"}, {"a": [{"_target_": "os.system"}]}, {"a": "${oc.env:HOME}"}):
        assert not _harmless({**load, "difficulty": bad}, OURS)


@pytest.mark.parametrize("family", ["gsm_symbolic", "lcm", "basic_arithmetic"])
def test_the_form_of_a_number_does_not_count_and_its_sign_does(family):
    tasks = [task for task in reasoning([family], n=40) if abs(float(task.canonical_solution or 0)) >= 1000]
    assert tasks or family == "basic_arithmetic"
    for task in tasks:
        right = int(task.canonical_solution)
        for form, outcome in (
            (f"{right:,}", "pass"),
            (f"${right}", "pass"),
            (f"{right}.0", "pass"),
            (str(-right), "fail"),
        ):
            answer = extract_answer(f"Answer: {form}", task).program
            assert answered(answer, task.hidden_tests).checks[0].outcome == outcome, form


@pytest.mark.parametrize("family", ["number_filtering", "time_intervals"])
def test_answers_that_differ_in_signs_and_points_are_not_the_same_vote(family):
    for task in reasoning([family], n=20):
        for mark in {*"-.:"} & {*task.canonical_solution}:
            assert key(task, task.canonical_solution) != key(task, task.canonical_solution.replace(mark, "", 1))
