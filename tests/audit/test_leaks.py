"""What a log gives away without being executed."""

from reflexion_lab.audit.leaks import leaks
from reflexion_lab.audit.samples import Sample

PROMPT = 'def f(x):\n    """One more.\n    >>> f(1)\n    2\n    """\n'
HIDDEN = ("assert candidate(1) == 2", "assert candidate('a, b') == 'c', 'a message'", "assert candidate(7) == 8")


def sample(number, run="", feedback=(), logged=None, program="x", task_id=None):
    own = {"entry_point": "f", "prompt": PROMPT, "program": program, "tests": HIDDEN, "logged": logged}
    return Sample(id=f"{run}{number}", task_id=task_id or f"HumanEval/{number}", run=run, feedback=feedback, **own)


def test_hidden_asserts_in_feedback_are_counted_in_any_form_also_where_a_prompt_is_no_python():
    feedback = ("assert f( 7 )==8", 'assert f("a, b") == "c"', "assert f(1) == 2  # output: 3", "assert f(3) == 4")
    findings = leaks([sample(0, feedback=feedback), sample(1, feedback=("assert f(1) == 2",)), sample(2)])
    assert (findings.shown, findings.shown_hidden) == (5, 4)
    assert (findings.shown_beyond_prompt, findings.samples_beyond_prompt) == (2, 1)
    # A longer assert is not the shorter one that it begins with.
    assert leaks([sample(0, feedback=("assert f(7) == 80", "assert f(7) == "))]).shown_hidden == 0
    odd = Sample(id="a", task_id="a", entry_point="f", prompt="(" * 300, program="", tests=HIDDEN, feedback=HIDDEN[2:])
    assert (leaks([odd]).shown_hidden, leaks([odd]).shown_beyond_prompt) == (1, 1)


def test_rows_are_missed_by_run_and_only_more_than_usual_are_repetitions():
    whole = [sample(n, "a") for n in range(164)]
    findings = leaks([*whole, *(sample(n, "b") for n in range(164) if n != 10)])
    assert findings.missing == ("b/HumanEval/10",)
    assert leaks(whole).missing == ()
    # Tasks of no known benchmark are missing only beside other runs.
    items = [sample(n, "a", task_id=f"mbpp_{n}") for n in range(3)]
    assert leaks(items).missing == ()
    assert leaks([*items, sample(0, "b", task_id="mbpp_0")]).missing == ("b/mbpp_1", "b/mbpp_2")
    twice = [sample(n) for n in range(164)] * 2
    assert leaks(twice).repeated == ()
    assert leaks([*twice, sample(5)]).repeated == ("HumanEval/5 (3 rows)",)
    assert leaks([*twice, sample(5)], attempts=True).repeated == ()


def test_solved_without_a_program_is_named():
    assert leaks([sample(0, logged=True, program=" \n"), sample(1, logged=False, program="")]).unstored == ("0",)
