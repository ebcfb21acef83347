"""The audit: clean verdicts beside logged ones, causes that were shown, and no trust in what it reads."""

import gzip
import importlib
import itertools
import json

import pytest
from msgspec.structs import replace

from reflexion_lab.audit import stored_programs
from reflexion_lab.audit.audit import LONG_RUNS, agreement, audit, audit_files
from reflexion_lab.audit.audit_report import as_json, findings
from reflexion_lab.audit.causes import CAUSES
from reflexion_lab.audit.samples import IMPORTS, Sample, read_samples
from reflexion_lab.audit.transcripts import human_eval_tasks
from reflexion_lab.audit.verdicts import execute
from reflexion_lab.cli.main import main
from reflexion_lab.errors import HarnessError
from reflexion_lab.tasks.benchmarks.humaneval import hidden_checks
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox
from tests.builders import TABLES

RIGHT, WRONG = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"


def row(task_id, solution, solved=None, test="assert candidate(1) == 2", **fields):
    own = {"prompt": "def f(x):\n", "test": f"def check(candidate):\n    {test}\n", "entry_point": "f"}
    return {"task_id": task_id, "solution": solution, "is_solved": solved, **own, **fields}


def loop(*programs, **fields):
    return {"attempts": [{"code": program} for program in programs], **fields}


def audited(path, **options):
    return audit(path, workers=2, quiet=True, **options)


def causes(result):
    return {verdict.sample.id: verdict.cause for verdict in result.disagreements}


def evidence(result):
    return {verdict.sample.id: verdict.evidence for verdict in result.disagreements}


@pytest.mark.parametrize("test", TABLES["tests in odd forms"])
def test_a_test_in_an_odd_form_judges_as_a_whole_one(write_rows, test):
    rows = [{**row(name, program), "test": test} for name, program in (("a", RIGHT), ("b", WRONG))]
    assert [verdict.passed for verdict in audited(write_rows(*rows)).verdicts] == [True, False]


def test_lines_are_counted_as_python_counts_them_and_a_check_that_calls_itself_is_one_check():
    test = "def check(candidate):\r    assert candidate(0) in (0, 1)\r    assert candidate(1) == 2\r"
    assert hidden_checks(test) == ("assert candidate(0) in (0, 1)", "assert candidate(1) == 2")
    test = "def check(candidate, n=2):\n    assert candidate(n) == n + 1\n    return n and check(candidate, n - 1)\n"
    (source,) = hidden_checks(test)
    exec(source, {"candidate": lambda n: n + 1})
    with pytest.raises(AssertionError):  # right for 2, the first call
        exec(source, {"candidate": lambda n: 3})


def test_a_failure_by_shared_namespace_names_its_source(write_rows):
    takes_sum = "def sum(a, b):\n    return a\n\ndef f(x):\n    return x + 1\n"
    uses_sum = "def f(x):\n    return sum([x, 1])\n"
    result = audited(
        write_rows(row("before", uses_sum, True), row("thief", takes_sum, True), row("victim", uses_sum, False))
    )
    assert causes(result) == {"victim": "shared_namespace"}
    assert evidence(result)["victim"].startswith("passes alone; fails once `sum` of thief shares the namespace (Type")
    assert list(findings(result)) == [
        "shared namespace: logged verdicts that only hold after an earlier program: 1, after thief (1)"
    ]


OWN = {"prompt": "def f(x):\n", "test": "def check(candidate):\n    assert candidate(1) == 2\n", "entry_point": "f"}
FIRST = {"solution_is_attempt": 0, **OWN}
ONE = "def one():\n    return 1\n\ndef f(x):\n    pass\n"
ADD = "def add(x, y):\n    return x + y\n"
MARKUP = (
    "```python\n{}```", "Here it is:\n\n```python\n{}```\nIt works.", "<think>\nshort\n</think>\n{}", "{}</s>",
    "[BEGIN]\n{}[DONE]\n", "{}\nThis function returns the sum.", "{}\nexit()\n",
)  # fmt: skip


def sample(name, completion, passed=True):
    return {"id": name, "task_id": "HumanEval/53", "completion": completion, "passed": passed}


LOGS = {
    "earlier programs are replayed in the order of the file": (
        {"d": ""},
        row("a", f"sorted = None\n{RIGHT}", True),
        row("b", f"sorted = None\nlen = len\n{RIGHT}", True),
        row("c", f"import builtins\nsorted = builtins.sorted\n{RIGHT}", True),
        row("d", "def f(x):\n    return sorted([x + 1])[len('')]\n", False),
    ),
    "a pass that needs its prompt": (
        {"a": "missing_prompt"},
        row("a", "def f(x):\n    return x + one()\n", True, prompt=ONE),
    ),
    "only programs of the same run share a namespace": (
        {"two/b": ""},
        row("a", "import os\nlate = 1\ndef f(x):\n    return x + 1\n", True, run="one"),
        row("b", "def f(x):\n    return x + late\n", True, run="two"),
    ),
    "errors that a program raises itself are not the sandbox's": (
        {"a": "", "b": "", "denied": "sandbox_limit"},
        row("a", "def f(x):\n    raise PermissionError('no')\n", True),
        row("b", "def f(x):\n    raise ValueError(\"ModuleNotFoundError: No module named 'q'\")\n", True),
        row("denied", "import socket\ndef f(x):\n    socket.socket()\n    return x + 1\n", True),
    ),
    "a pass by our own imports": (
        {"HumanEval/53": "own_imports"},
        loop("    return math.floor(x + y)\n", problem="HumanEval/53", logged_is_solved=False),
    ),
    "one quote mark before a program": (
        {"a": "stray_quote", "b": "stray_quote"},
        row("a", f"'{RIGHT}", True),
        row("b", f"`{RIGHT.rstrip()}`", True),
    ),
    "a verdict of another attempt": (
        {"a": "other_attempt", "b": "other_attempt"},
        loop(WRONG, RIGHT, problem="a", logged_is_solved=True, **FIRST),
        loop(RIGHT, WRONG, problem="b", logged_is_solved=False, **FIRST),
    ),
    "a body that lost or gained blanks": (
        {f"i{n}": "indentation" for n in range(4)},
        *(
            sample(f"i{n}", body)
            for n, body in enumerate(("return x + y", "   z = x + y\n    return z", "\treturn x + y"))
        ),
        sample("i3", "z = x + y\nreturn z\n"),
    ),
    "a program in the text around it": (
        {f"m{n}": "markup" for n in range(7)},
        *(sample(f"m{n}", text.format(ADD)) for n, text in enumerate(MARKUP)),
    ),
    "a name, a script, a limit, imports of the test": (
        {"a": "other_name", "b": "other_name", "c": "as_script", "d": "recursion_limit", "e": "missing_import"},
        row("a", RIGHT.replace("f(", "solve("), True),
        row("b", "class Solution:\n    def f(self, x):\n        return x + 1\n", True),
        row("c", "if __name__ == '__main__':\n    def f(x):\n        return x + 1\n", True),
        row("d", "def f(x, n=3000):\n    return f(x, n - 1) if n else x + 1\n", True),
        row("e", "def f(x):\n    return x + statistics.mean([1])\n", True),
    ),
    "a verdict that draws, or the order of a set, decides": (
        {"a": "unstable", "cb": "unstable", "d": ""},
        row("a", "import random\ndef f(x):\n    return x + (random.random() < 0.8)\n", True),
        *(row("c", f"def f(x):\n    return x + (list(set('ab'))[0] == '{a}')\n", True, id=f"c{a}") for a in "ab"),
        row("d", f"import random\n{WRONG}", True),
    ),
    "an unstable program with a helper after it": (
        {"u": "unstable"},
        sample(
            "u",
            "    return plus(x, y) + (LUCK < 0.8)\n\nimport random\nLUCK = random.random()\n"
            "def plus(x, y):\n    return x + y\n",
            False,
        ),
    ),
    "a completion that the harness cut, and tests that check nothing": (
        {"s": "stop_sequence", "n": "no_check"},
        sample("s", "    return plus(x, y)\n\ndef plus(x, y):\n    return x + y\n", False),
        row("n", RIGHT, False, test="candidate(1) == 2"),
    ),
    "an honest log with one difference grades not itself": (
        {"t0": ""},
        *(row(f"t{n}", WRONG if n == 0 else RIGHT, True, reflections=[]) for n in range(12)),
    ),
    "a large log with few differences grades not itself": (
        {"t0": "", "t1": ""},
        *(row(f"t{n}", WRONG if n < 2 else RIGHT, True, reflections=[]) for n in range(150)),
        *(row(f"u{n}", WRONG, False, reflections=[1]) for n in range(10)),
    ),
}


@pytest.mark.parametrize(("expected", "rows"), [(of[0], of[1:]) for of in LOGS.values()], ids=LOGS)
def test_differences_have_the_executed_causes(write_rows, expected, rows):
    result = audited(write_rows(*rows))
    assert (causes(result), result.self_graded) == (expected, ())


@pytest.mark.parametrize("problem", [32, 38, 50])
def test_names_of_the_prompt_are_not_the_programs(write_rows, problem):
    forged = {
        32: "def poly(xs, x):\n    return 0.0\ndef find_zero(xs):\n    return 0.0\n",
        38: "def encode_cyclic(s):\n    return s\ndef decode_cyclic(s):\n    return s\n",
        50: "def encode_shift(s):\n    return s\ndef decode_shift(s):\n    return s\n",
    }[problem]
    known = human_eval_tasks()[f"HumanEval/{problem}"]
    tests = "\n".join(known.hidden_tests).replace("\n", "\n    ")
    own = {"prompt": known.prompt, "entry_point": known.entry_point, "test": f"def check(candidate):\n    {tests}\n"}
    rows = [{"task_id": known.task_id, "completion": forged}, {"task_id": known.task_id, "solution": forged}]
    rows += [{"problem": known.task_id, "attempts": [{"code": forged}]}, {"task_id": "own", "solution": forged, **own}]
    rows.append({"task_id": known.task_id, "solution": known.prompt[known.prompt.index(f"def {known.entry_point}(") :]})
    rows[-1]["solution"] += known.canonical_solution  # without the helpers that the tests call, as in its log
    result = audited(write_rows(*rows, {"task_id": known.task_id, "completion": known.canonical_solution}))
    assert [verdict.passed for verdict in result.verdicts] == [False] * 5 + [True]


def test_tests_that_pass_without_the_program_are_counted_on_the_first_screen(write_rows, capsys):
    suite = "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(1), 2)\n"
    rows = [row("a", WRONG, True, test="candidate(1) == 2"), row("b", WRONG, False), row("c", RIGHT, True)]
    rows += [{**row("d", program, program == RIGHT), "test": suite, "id": program[-2]} for program in (RIGHT, WRONG)]
    assert main(["audit", str(write_rows(*rows)), "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Agreement: 5 of 5")
    assert "1 of 5 samples have tests that check nothing, as a: a comparison without `asser…" in lines
    assert [*map(list, json.loads(lines[-1])["vacuous_tests"].values())] == [["a"]]


def test_a_pass_by_shared_namespace_names_its_source(write_rows):
    imports = "import math\ndef f(x):\n    return x + 1\n"
    lacks = "def f(x):\n    return math.floor(x) + 1\n"
    forgot = "def g(x):\n    return x + 1\n"
    result = audited(
        write_rows(row("a", lacks, True), row("b", imports, True), row("d", forgot, True), row("c", lacks, True))
    )
    assert causes(result) == {"a": "missing_import", "c": "missing_import", "d": "shared_namespace"}
    assert evidence(result)["c"].endswith("; passes once `math` of b shares the namespace")


def test_no_program_or_no_test_is_never_a_pass_and_a_failure_without_a_test_not_compared(write_rows):
    result = audited(write_rows(row("a", "", True), row("b", RIGHT, True, test="pass")))
    assert causes(result)["a"] == "no_program"
    assert result.leaks.unstored == ("a",)
    empty = {**row("c", RIGHT, True), "test": ""}
    assert causes(audited(write_rows(empty))) == {"c": "no_test"}
    untested = {**row("c", RIGHT, False), "test": ""}
    result = audited(write_rows(untested, row("a", RIGHT, True)))
    assert (result.compared, result.agree, agreement([result]).value) == (1, 1, 1)


@pytest.mark.slow
@pytest.mark.soak
def test_a_time_out_of_an_earlier_program_is_no_evidence(monkeypatch, write_rows):
    monkeypatch.setattr(stored_programs, "LIMITS", Limits(wall_seconds=2, cpu_seconds=1))
    monkeypatch.setattr(stored_programs, "PATIENT", Limits(wall_seconds=2, cpu_seconds=1))
    endless, uses_sum = "sum = None\nwhile True: pass\n", "def f(x):\n    return sum([x, 1])\n"
    assert causes(audited(write_rows(row("a", endless, False), row("b", uses_sum, False)))) == {"b": ""}


def test_a_missing_module_is_named(write_rows):
    result = audited(write_rows(row("a", f"import nowhere\n{RIGHT}", True), row("b", WRONG, True)))
    assert causes(result) == {"a": "missing_module", "b": ""}
    assert evidence(result)["a"] == "the sandbox has no `nowhere`"


def test_a_cause_is_shared_by_two_logs_of_one_run(write_rows):
    attempts = loop(WRONG, RIGHT, logged_is_solved=True, solution_is_attempt=0, problem="a")
    final = row("a", WRONG, True)
    attempts |= {name: final[name] for name in ("prompt", "test", "entry_point")}
    paths = [str(write_rows(final, row("b", WRONG, True))), str(write_rows(attempts))]
    first, second = audit_files(paths, workers=1).audits
    assert (causes(first), causes(second)) == ({"a": "other_attempt", "b": ""}, {"a": "other_attempt"})
    assert evidence(first)["a"].startswith("as a in another log: another attempt")


def test_another_run_with_the_same_program_shares_no_cause(write_rows):
    graded = [row(f"t{n}", WRONG if n < 3 else RIGHT, True, reflections=[]) for n in range(12)]
    attempts = loop(WRONG, RIGHT, logged_is_solved=True, solution_is_attempt=0, problem="u")
    attempts |= {name: graded[0][name] for name in ("prompt", "test", "entry_point")}
    other = [row("t0", WRONG, True), row("u", WRONG, True), row("t1", RIGHT, True)]
    first, second = audit_files([str(write_rows(*graded, attempts)), str(write_rows(*other))], workers=2).audits
    assert (causes(first)["t0"], causes(first)["u"]) == ("self_graded", "other_attempt")
    assert causes(second) == {"t0": "", "u": ""}


@pytest.mark.slow
@pytest.mark.parametrize(("long_runs", "cause"), [(LONG_RUNS, "slow"), pytest.param(0, "", marks=pytest.mark.soak)])
def test_time_outs_are_no_sign_of_self_grading_with_or_without_more_time(monkeypatch, write_rows, long_runs, cause):
    monkeypatch.setattr("reflexion_lab.audit.audit.LONG_RUNS", long_runs)
    slow = "import time\ndef f(x):\n    time.sleep(1.5)\n    return x + 1\n"
    for name in ("LIMITS", "PATIENT"):
        monkeypatch.setattr(stored_programs, name, Limits(wall_seconds=0.8, cpu_seconds=1))
    rows = [row(f"t{n}", slow + n * "\n" if n < 3 else RIGHT, True, reflections=[]) for n in range(12)]
    result = audited(write_rows(*rows))
    assert (causes(result), result.self_graded) == (dict.fromkeys(("t0", "t1", "t2"), cause), ())


def test_a_difference_whose_search_failed_keeps_its_evidence(monkeypatch, write_rows):
    run = Sandbox.run

    def broken_for_the_first(sandbox, program, *arguments):
        if program.startswith(IMPORTS) and "first" in program:
            raise HarnessError("no fork")
        return run(sandbox, program, *arguments)

    monkeypatch.setattr(Sandbox, "run", broken_for_the_first)
    programs = [WRONG + "# first\n", *(WRONG + n * "\n" for n in range(5)), *[RIGHT] * 12]
    result = audited(write_rows(*(row(f"t{n}", text, True, reflections=[]) for n, text in enumerate(programs))))
    assert causes(result) == {"t0": "", **{f"t{n}": "self_graded" for n in range(1, 6)}}
    assert evidence(result)["t0"] == "the harness failed in the search for a cause: no fork"
    assert all("t0" not in rule.wrong for rule in result.self_graded)


@pytest.mark.parametrize(
    ("sign", "fields"),
    [("visible tests passed", {"visible_tests": ["assert f(0) in (0, 1)"]}), ("reflections 0", {"reflections": []})],
)
def test_a_log_that_grades_itself_is_named(write_rows, sign, fields):
    graded = [row(f"t{n}", WRONG if n < 3 else RIGHT, True, **fields) for n in range(12)]
    honest = [row(f"h{n}", WRONG if n < 3 else RIGHT, n >= 3, run="honest", **fields) for n in range(12)]
    result = audited(write_rows(*graded, *honest, row("alone", WRONG, True, run="other", **fields)))
    assert causes(result) == {"t0": "self_graded", "t1": "self_graded", "t2": "self_graded", "other/alone": ""}
    assert f"all 12 with {sign} are logged as passed" in [str(rule) for rule in result.self_graded]


def test_self_written_suites_are_executed(write_rows):
    right, wrong = ["assert f(1) == 2"], ["assert f(1) == 1"]
    rows = [
        row(f"{n}", program, generated_tests=suite)
        for n, (program, suite) in enumerate(itertools.product((RIGHT, WRONG), (right, wrong, ["assert f(1) =="])))
    ]
    result = audited(write_rows(*rows))
    table = result.visible
    assert (table.true_positives, table.false_negatives, table.false_positives, table.true_negatives) == (1, 1, 1, 1)
    assert table.unknown == 2
    assert "feedback tests and hidden tests, n = 4: both pass 1, only feedback 1, only hidden 1, none 1" in findings(
        result
    )


def test_long_suites_are_executed_and_equal_programs_keep_their_recorded_verdicts(write_rows):
    suite = [f"assert f({n}) == {n + 1}" for n in range(60)]
    loops = [loop(RIGHT, problem="HumanEval/53", run=f"{n}") for n in range(3)]
    for recorded, transcript in zip((True, False, None), loops, strict=True):
        transcript["attempts"][0]["visible_pass"] = recorded
    path = write_rows(row("a", RIGHT, True, visible_tests=suite), *loops)
    for attempts in (False, True):
        verdicts = audited(path, attempts=attempts).verdicts
        assert [verdict.sample.visible_passed for verdict in verdicts] == [True, True, False, None]


def test_retries_that_repeat_the_program_are_a_control_that_cannot_change_unless_there_is_none(write_rows):
    rows = [loop(WRONG, WRONG, RIGHT if n < 4 else WRONG, problem="HumanEval/53", run=f"r{n % 2}") for n in range(12)]
    lines = [line for line in findings(audited(write_rows(*rows))) if line.startswith("control that cannot")]
    assert lines == [
        f"control that cannot change: r{run}: 10 of 12 retries repeat the program before word for word"
        for run in (0, 1)
    ]
    rows = [loop("", "", RIGHT, problem="HumanEval/53", run="r", id=f"{n}") for n in range(12)]
    assert audited(write_rows(*rows)).leaks.fixed == ()


def test_a_hostile_program_fails_without_a_harness_error(write_rows):
    hostile = (
        "import sys\nsys.exit(0)", "import os\nos._exit(0)", "(" * 5000, "f = \0", "f = '\ud800'",
        "def f(x):\n    raise SystemExit", "class V:\n    __eq__ = lambda *a: exit()\ndef f(x):\n    return V()",
    )  # fmt: skip
    rows = [row(f"t{number}", program, True) for number, program in enumerate(hostile)]
    result = audited(write_rows(*rows, row("right", RIGHT, True)))
    assert [verdict.passed for verdict in result.verdicts] == [False] * len(hostile) + [True]
    assert result.harness_errors == 0
    assert json.loads(json.dumps(as_json([result], 1.0)))["agree"] == 1


def test_every_time_out_gets_more_time_whatever_is_logged(monkeypatch, write_rows):
    slow = "import time\ndef f(x):\n    time.sleep(0.5)\n    return x + 1\n"
    monkeypatch.setattr(stored_programs, "LIMITS", Limits(wall_seconds=0.2, cpu_seconds=1))
    result = audited(write_rows(row("a", slow, True), row("b", slow + "\n", False), row("c", RIGHT, True)))
    assert [verdict.outcome for verdict in result.verdicts] == ["pass"] * 3
    assert [verdict.differs for verdict in result.verdicts] == [False, True, False]


def test_a_broken_harness_is_no_verdict(monkeypatch, write_rows):
    def broken(*_):
        raise HarnessError("The sandbox could not run a program: no fork")

    monkeypatch.setattr(Sandbox, "run", broken)
    result = audited(write_rows(row("a", RIGHT, True), row("b", WRONG, False)))
    assert (result.harness_errors, result.compared, result.disagreements, result.rate.n) == (2, 0, [], 0)
    sample = Sample(id="a", task_id="a", entry_point="f", program=RIGHT, tests=("assert candidate(1) == 2",))
    with Sandbox(servers=1) as sandbox:
        assert execute(sandbox, sample).outcome == "harness_error"


def test_a_limit_keeps_the_missing_rows_of_the_whole_file(write_rows):
    rows = [{"task_id": f"HumanEval/{n}", "completion": ""} for n in range(164) if n not in (3, 99)]
    result = audited(write_rows(*rows, rows[0]), limit=2)
    assert result.n == 2
    assert (result.leaks.missing, result.leaks.repeated) == (("HumanEval/3", "HumanEval/99"), ("HumanEval/0 (2 rows)",))
    for name in ("limit", "workers"):
        with pytest.raises(ValueError, match=f"{name}: got 0"):
            audit(write_rows(rows[0]), **{name: 0})


def test_json_is_the_last_line(write_rows, capsys):
    path = write_rows(row("a", RIGHT, True), row("b", WRONG, True, id="mine"), row("c", WRONG))
    assert main(["audit", str(path), "--json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last.pop("seconds") > 0
    (differing,) = last.pop("disagree")
    # Logged pass, pass; re-executed pass, fail: they agree by half, and chance by half.
    assert last.pop("kappa") == {path.name: 0.0}
    assert last.pop("agreement")["share"] == 0.5
    assert last.pop("causes") == {"unknown": 1}
    empty = {"harness_errors": 0, "self_graded": {}, "unread": {}, "outcomes": [], "vacuous_tests": {}}
    assert last == {"n": 3, "logged_pass": 2, "pass": 1, "agree": 1} | empty
    assert differing.pop("detail").startswith("assert candidate(1) == 2")
    assert differing == {"id": "mine", "logged": True, "verdict": False, "outcome": "fail", "cause": None}


def test_several_files_are_added_up_and_ids_carry_their_name(write_rows, capsys):
    first = write_rows(row("a", WRONG, True), name="one.jsonl")
    second = write_rows(row("a", RIGHT, True), row("b", RIGHT, False), name="two.jsonl")
    assert main(["audit", str(first), str(second), "--json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["n"], last["logged_pass"], last["pass"], last["agree"]) == (3, 2, 2, 1)
    assert [differing["id"] for differing in last["disagree"]] == ["one.jsonl:a", "two.jsonl:b"]


def test_two_files_of_one_name_are_named_by_path(tmp_path, write_rows):
    (tmp_path / "other").mkdir()
    paths = [str(write_rows(row("a", RIGHT, True), name=name)) for name in ("log.jsonl", "other/log.jsonl")]
    assert [result.name for result in audit_files(paths, workers=1).audits] == paths


def test_one_bad_file_is_one_line_and_the_others_are_audited(write_rows, capsys):
    good = [str(write_rows(row("a", RIGHT, True))) for _ in range(2)]
    bad = [str(write_rows(text, name=f"bad{n}.jsonl")) for n, text in enumerate(("[" * 100_000, {"a\x1b[2J": "\n"}))]
    assert main(["audit", good[0], *bad, good[1], "--json"]) == 1
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.partition(": got")[0][:22] for line in lines if "Not read" in line] == [
        "Not read: bad0.jsonl: ",
        "Not read: bad1.jsonl: ",
    ]
    assert "\x1b" not in "".join(lines)
    result = json.loads(last)
    assert (result["n"], list(result["unread"])) == (2, ["bad0.jsonl", "bad1.jsonl"])
    assert main(["audit", *bad]) == 2


def test_deep_feedback_and_many_samples_of_one_id_are_read(write_rows):
    deep = json.dumps(row("b", RIGHT, True)).replace("{", f'{{"visible_tests": {"[" * 700}{"]" * 700}, ', 1)
    result = audit_files([str(write_rows(row("a", RIGHT, True))), str(write_rows(deep))], workers=1)
    assert [(log.n, log.agree) for log in result.audits] == [(1, 1), (1, 1)]
    samples = read_samples(write_rows(*[row("a", RIGHT) for _ in range(20_000)], row("a#2", RIGHT)))
    assert [sample.id for sample in samples[-2:]] == ["a#20000", "a#2#2"]


def test_the_first_screen_is_the_answer(write_rows, capsys):
    rows = [row(f"t{n}", f"import module{n}\n{RIGHT}" if n < 3 else RIGHT, True) for n in range(40)]
    assert main(["audit", *(str(write_rows(*rows)) for _ in range(2))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("Agreement: 74 of 80 logged verdicts hold: 92.50 % [")
    assert lines[3] == "     6  missing_module    imports a module that the sandbox lacks"
    assert all(len(f"{' ' * 26}{text}") <= 80 for text in CAUSES.values())


def test_an_absent_file_is_one_line_before_anything_runs(tmp_path, write_rows, capsys):
    assert main(["audit", str(write_rows(row("a", RIGHT))), str(tmp_path / "absent.jsonl")]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert "absent.jsonl: no such file; expected a .jsonl file, gzipped or not, or a run folder" in line
    assert captured.out == ""


def first_rows(path, target, first, last):
    with gzip.open(path, "rt") as lines:
        target.write_text("".join(itertools.islice(lines, first, last)))
    return target


def test_the_published_log_reveals_mbpps_lost_sum(recorded_runs, tmp_path):
    log = recorded_runs / "published_logs" / "reflexion_mbpp_py.jsonl.gz"
    result = audited(first_rows(log, tmp_path / "part.jsonl", 120, 300))
    assert result.disagreements
    assert {(verdict.sample.logged, verdict.leaked_from) for verdict in result.disagreements} == {
        (False, "mbpp_126_sum")
    }


def test_every_verdict_of_the_headline_log_holds(recorded_runs):
    result = audited(recorded_runs / "published_logs" / "reflexion_humaneval_py_pass_at_1.jsonl.gz")
    assert (result.n, result.logged_rate.k, result.rate.k, result.agree) == (164, 150, 150, 164)


@pytest.mark.parametrize(
    "name", ["agentevals_reflexion_humaneval", "agentevals_simple_repeat", "ldb_mbpp", "noah_mbpp_gpt4"]
)
def test_recorded_verdicts_of_attempts_hold(recorded_runs, tmp_path, name):
    log = recorded_runs / "transcripts" / f"{name}.jsonl.gz"
    result = audited(first_rows(log, tmp_path / "part.jsonl", 50, 110), attempts=True)
    assert result.compared == result.n >= 60
    assert causes(result) == {}


def test_a_timeout_under_another_hash_seed_is_no_other_verdict(write_rows, monkeypatch):
    module = importlib.import_module("reflexion_lab.audit.audit")
    [verdict] = audited(write_rows(row("a", f"{RIGHT}# set", False))).verdicts
    assert (verdict.differs, verdict.cause) == (True, "")
    monkeypatch.setattr(module, "execute", lambda *_: replace(verdict, passed=False, outcome="timeout"))
    assert module._with_other_hashes([verdict])[0].cause == ""
    monkeypatch.setattr(module, "execute", lambda *_: replace(verdict, passed=False, outcome="fail"))
    assert module._with_other_hashes([verdict])[0].cause == "unstable"
