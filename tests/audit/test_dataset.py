"""Each check of a benchmark reports its defect, and nothing in a sound task."""

import io
import json
import re

import pytest
from msgspec.structs import replace
from rich.console import Console

from reflexion_lab.audit.lint_dataset import CHECKS, Finding, Linted, difference, lint, sampled_mutants
from reflexion_lab.audit.lint_report import as_json, figures, show
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.tasks.benchmarks.similar import near_duplicates
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

SOUND = Task(
    task_id="own/limit",
    prompt='def limit(n):\n    """n, but 10 if it is more.\n    >>> limit(12)\n    10\n    """\n',
    entry_point="limit",
    visible_tests=("assert limit(12) == 10", "assert limit(4) == 4"),
    hidden_tests=("assert candidate(10) == 10", "assert candidate(9) == 9", "assert candidate(11) == 10"),
    canonical_solution="    if n > 10:\n        return 10\n    return n\n",
)


@pytest.fixture
def findings(sandbox):
    """Severity, task and detail of each finding of a check."""

    def run(check, *tasks):
        return [finding[1:] for finding in lint(tasks, sandbox).findings if finding.check == check]

    return run


def severities(check, linted):
    return [finding.severity for finding in linted.findings if finding.check == check]


def test_a_sound_task_has_only_equivalent_mutants_and_tasks_of_basics_no_finding(sandbox):
    linted = lint([SOUND], sandbox)
    assert [(finding.check, finding.severity, finding.detail) for finding in linted.findings] == [
        ("mutants fail", "warning", "comparison, line 6: if n > 10: -> if n >= 10:"),
        ("mutants fail", "warning", "constant, line 6: if n > 10: -> if n > 9:"),
    ]
    assert linted.errors == 0
    assert lint([SOUND], sandbox, strict=True).errors == 2
    linted = lint(basics(5, 8), sandbox, strict=True, workers=2)
    assert not linted.findings
    assert linted.score("hidden").share == 1.0
    assert linted.score("hidden").n == sum(trial.mutants for trial in linted.trials) > 20


def test_repeated_ids_and_prompts_are_named(findings):
    again = replace(SOUND, prompt=SOUND.prompt.replace("  ", "    "))
    assert findings("ids unique", SOUND, again) == [("error", "own/limit", "has the id of own/limit")]
    assert findings("prompts unique", SOUND, replace(again, task_id="b")) == [
        ("warning", "b", "has the prompt of own/limit")
    ]


def test_tasks_with_different_names_only_are_near_duplicates():
    names = ("prompt", "canonical_solution", "entry_point")
    renamed = replace(SOUND, task_id="b", **{name: getattr(SOUND, name).replace("limit", "bound") for name in names})
    other = basics(1, 8)[0]
    assert near_duplicates([SOUND, other, renamed]) == (("own/limit", "b"),)
    assert near_duplicates([SOUND, other]) == ()
    linted = Linted("own", 3, (), (), near_duplicates([SOUND, other, renamed]))
    assert "near-duplicate tasks: 3 tasks in 2 clusters (cosine >= 0.7): own/limit, b" in list(figures(linted))
    assert as_json(linted, 1.0)["near_duplicates"] == [["own/limit", "b"]]
    with pytest.raises(ConfigError, match="similarity"):
        near_duplicates([SOUND], similarity=0)


OTHER = {"canonical_solution": "def other(n):\n    return n\n", "prompt": "import math\n"}


@pytest.mark.parametrize(("check", "change", "severity", "detail"), [
    ("code parses", {"canonical_solution": "    return (\n"}, "error",
     'the canonical solution is not Python: def limit(n): """n, but 10 if it is more. >>> limit(12) 10 """ return ('),
    ("code parses", {"setup": "import"}, "error", "the setup is not Python: import"),
    ("code parses", {"visible_tests": ("assert limit(1",)}, "error", "visible test 1 is not Python: assert limit(1"),
    ("code parses", {"hidden_tests": ("pass", "assert =")}, "error", "hidden test 2 is not Python: assert ="),
    ("tests there", {"hidden_tests": ()}, "error", "no hidden test: nothing can be judged"),
    ("tests there", {"visible_tests": ()}, "warning", "no visible test: the loop gets no feedback"),
    ("tests there", {"hidden_tests": ("  \n",)}, "error", "an empty test passes every program"),
    ("tests there", {"hidden_tests": ("limit == 3",)}, "warning", "a comparison without `assert`: limit == 3"),
    ("entry point tested", OTHER, "error", "the canonical solution does not define limit"),
    ("entry point tested", {"hidden_tests": ("assert other(3)",)}, "error", "no hidden test mentions limit"),
    ("entry point tested", {"hidden_tests": ("assert other(3)", "assert limit(3) == 3")}, "warning",
     "1 of 2 hidden tests without limit, such as assert other(3)"),
    ("entry point tested", {"entry_point": "lim it"}, "error", "'lim it' is not a function name"),
    ("stub fails", {"hidden_tests": ("assert candidate(3) is None or True", "candidate(2)")}, "error",
     "the hidden tests check nothing: a program passes that only returns None"),
])  # fmt: skip
def test_a_defect_of_a_task_is_named(findings, check, change, severity, detail):
    assert findings(check, replace(SOUND, **change)) == [(severity, "own/limit", detail)]


@pytest.mark.parametrize(("hidden", "kind"), [
    ("assert limit(12)  ==  10", "text"), ("assert candidate( 12 )==10, 'no message matters'", "assert"),
    ("assert 10 == candidate(1_2)", "call (compared otherwise)"),
    ("assert limit(0xC) == 11 - 1", "call (compared otherwise)"),
])  # fmt: skip
def test_a_shown_hidden_test_is_recognised_in_another_form(findings, hidden, kind):
    some = replace(SOUND, hidden_tests=(*SOUND.hidden_tests, hidden))
    ((severity, _, detail),) = findings("hidden not shown", some)
    assert severity == "warning"
    assert detail.startswith(f"1 of 4 hidden tests, such as the {kind} of a visible test: ")
    assert findings("hidden not shown", replace(SOUND, hidden_tests=(hidden,)))[0][0] == "error"


def test_a_call_with_another_argument_is_another_test(findings):
    assert not findings(
        "hidden not shown", replace(SOUND, hidden_tests=("assert limit(12.5) == 10", "assert limit([12])"))
    )


@pytest.mark.parametrize("side", ["visible_tests", "hidden_tests"])
def test_a_failing_canonical_solution_is_an_error(findings, side):
    wrong = replace(SOUND, **{side: (*getattr(SOUND, side), "assert limit(3) == 4")})
    ((severity, task_id, detail),) = findings("canonical passes", wrong)
    assert (severity, task_id) == ("error", "own/limit")
    assert "fails 1 of 6 tests" in detail
    assert "limit(3) == 4" in detail
    assert findings("mutants fail", wrong) == [("not checked", "own/limit", "the canonical solution fails")]


def test_without_a_canonical_solution_a_task_is_not_checked(sandbox):
    linted = lint([replace(SOUND, canonical_solution="")], sandbox)
    assert severities("canonical passes", linted) == severities("mutants fail", linted) == ["not checked"]
    assert severities("stub fails", linted) == []
    assert linted.errors == 0
    assert linted.score("hidden").n == 0


def test_survivors_are_listed_with_line_and_lower_the_score(sandbox):
    weak = replace(SOUND, hidden_tests=("assert candidate(3) == 3",))
    linted = lint([SOUND, replace(weak, task_id="weak")], sandbox)
    survivors = [each for each in linted.findings if each.check == "mutants fail" and each.task_id == "weak"]
    assert "constant, line 7: return 10 -> return 11" in [finding.detail for finding in survivors]
    score = linted.score("hidden")
    assert score.n - score.k == 2 + len(survivors)
    assert score.low < score.share < score.high
    assert linted.score("visible").k == sum(trial.mutants - trial.visible_survivors for trial in linted.trials)


@pytest.mark.slow
@pytest.mark.soak
def test_a_mutant_that_never_ends_counts_as_failed():
    endless = replace(
        SOUND,
        canonical_solution="    while n > 10:\n        n -= 1\n    return n\n",
        hidden_tests=("assert candidate(50) == 10", "assert candidate(11) == 10", "assert candidate(3) == 3"),
    )
    with Sandbox(Limits(wall_seconds=1.0, cpu_seconds=1), servers=1) as impatient:
        linted = lint([endless], impatient)
    assert {finding.kind for finding in linted.trials[0].survivors} <= {"comparison"}
    assert linted.trials[0].mutants >= 6


def test_mutants_are_of_the_solution_alone_sampled_by_seed_up_to_the_limit():
    task = replace(SOUND, prompt="def twice(n):\n    return n + n\n\n\n" + SOUND.prompt)
    chosen = sampled_mutants(task, 100, 0)
    assert len(chosen) > 5
    assert all("return n + n" in mutant.program for mutant in chosen)
    every = [mutant.program for mutant in sampled_mutants(SOUND, 100, 0)]
    some = [mutant.program for mutant in sampled_mutants(SOUND, 3, 0)]
    assert len(some) == 3
    assert [program for program in every if program in some] == some
    assert some == [mutant.program for mutant in sampled_mutants(SOUND, 3, 0)]
    assert some != [mutant.program for mutant in sampled_mutants(SOUND, 3, 1)]
    assert sampled_mutants(SOUND, 0, 0) == []
    deep = replace(SOUND, prompt="", canonical_solution=f"def limit(n):\n    return {'+'.join(['n'] * 3000)}\n")
    assert sampled_mutants(deep, 5, 0) == []
    (added,) = (finding for finding in sampled_mutants(SOUND, 100, 0) if finding.kind == "early return")
    assert difference(SOUND.canonical_program, added) == "line 1: if n > 10: -> return 0 (added)"


def test_table_and_json_agree(sandbox):
    calls = []
    tasks = [SOUND, replace(SOUND, canonical_solution="")]
    linted = lint(tasks, sandbox, benchmark="own", workers=2, each=lambda: calls.append(1))
    assert len(calls) == 2
    text = io.StringIO()
    show(linted, Console(file=text), all_findings=True)
    report = as_json(linted, 1.0)
    assert json.loads(json.dumps(report)) == report
    assert report["errors"] == 1
    assert report["checks"]["ids unique"] == {"error": 1}
    assert report["checks"]["mutants fail"] == {"warning": 2, "not checked": 1}
    for check in CHECKS:
        assert check in text.getvalue()
    assert "error  ids unique  own/limit  has the id of own/limit" in text.getvalue()
    assert "not checked  mutants fail  own/limit  no canonical solution" in text.getvalue()
    assert "no mutants of 1 task: no canonical solution" in text.getvalue()


def test_findings_are_printed_worst_first_and_all_on_request():
    severities = ("not checked", "warning", "error")
    linted = Linted("own", 3, tuple(Finding("stub fails", name, f"t/{name}", "why") for name in severities), ())
    for all_findings, printed in ((False, ["error", "warning"]), (True, ["error", "warning", "not checked"])):
        text = io.StringIO()
        show(linted, Console(file=text), all_findings)
        assert re.findall(r"^([\w ]+)  stub fails  t/", text.getvalue(), re.MULTILINE) == printed
        assert "t/error, t/warning" in text.getvalue()
