"""Real failures and the rules that classify them: what is executed, what is read, what is scored."""

import csv
import gzip
import io
import json
import traceback

import pytest
from rich.console import Console

from experiments._tools import failures as command
from experiments._tools.failing_attempts import execute, read_failures, untyped
from experiments._tools.failure_cases import Case, compare, compared, macro_f1
from experiments._tools.failure_evidence import EVIDENCE, OURS, RULES, classified, evidence_text, read_cases, save_cases
from experiments._tools.failure_labels import FIELDS, draw, read_labels, write_cases
from experiments._tools.failures_report import METHOD, as_rows, by_class, overall, save, show
from experiments._tools.failures_report import draw as plot
from experiments._tools.keyword_rules import SIX_CLASSES, SYSTEMS, TEN_CLASSES, classify_by, first_kind
from reflexion_lab.agent.reflectors.evidence import classify

BODIES = {
    "AssertionError": "return 0",
    "IndexError": "return [][x]",
    "KeyError": "return {}[x]",
    "ZeroDivisionError": "return x / 0",
    "NameError": "return missing",
    "RecursionError": "return f(x)",
    "ModuleNotFoundError": "import no_such_module_here",
    "SyntaxError": "return (",
    "TypeError": "return None + x",
}


def row(problem, *bodies, passes=(), **fields):
    attempts = [{"code": f"def f(x):\n    {body}\n", "own_pass": body in passes} for body in bodies]
    own = {"prompt": "def f(x):\n", "test": "def check(candidate):\n    assert candidate(1) == 2\n", "entry_point": "f"}
    known = {"run": "r", "model": "m", "problem": problem, **own, "attempts": attempts}
    return known | fields


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """One failure per exception type, each at its own problem."""
    path = tmp_path_factory.mktemp("failures") / "log.jsonl"
    rows = [row(f"p{place}", body) for place, body in enumerate(BODIES.values())]
    path.write_text("\n".join(map(json.dumps, rows)))
    return execute(read_failures([path]), workers=2, quiet=True)


@pytest.fixture
def label(tmp_path):
    """Labels for executed failures, by part."""

    def label(executed, **parts):
        table, _ = write_cases(draw(executed), tmp_path / "cases.csv")
        text = table.read_text()
        for part, name in parts.items():
            text = text.replace(f"{part},,", f"{part},{name},")
        table.write_text(text)
        return read_labels(table)

    return label


def by_type(failures):
    return {failure.raised: failure for failure in failures}


def test_only_attempts_logged_as_failed_are_read(write_rows):
    result = read_failures([write_rows(row("a", "return 0", "return x + 1", passes=("return x + 1",)))])
    assert [failure.sample.id for failure in result] == ["r/a/0"]
    path = write_rows(row("a", "return 0", "return 1"), row("b", "return 2"))
    assert len(read_failures([path])) == 3
    assert [read_failure.sample.id for read_failure in read_failures([path], limit=1)] == ["r/a/0"]


def test_files_without_a_failure_are_named(write_rows):
    with pytest.raises(ValueError, match=r"log1\.jsonl.*no failing attempt"):
        read_failures([write_rows(row("a", "return x + 1", passes=("return x + 1",)))])


def test_the_exception_decides_the_true_class(executed):
    assert {kind: failure.truth for kind, failure in by_type(executed).items()} == {
        "AssertionError": "assertion",
        "IndexError": "index",
        "KeyError": "index",
        "ZeroDivisionError": "type",
        "NameError": "syntax",
        "RecursionError": "memory",
        "ModuleNotFoundError": "import",
        "SyntaxError": "syntax",
        "TypeError": "null",
    }


def test_tracebacks_are_those_of_python(executed):
    failure = by_type(executed)["IndexError"]
    head, *frames, last = failure.traceback.splitlines()
    assert head == "Traceback (most recent call last):"
    assert [line.partition(", in ")[2] for line in frames] == ["<module>", "f"]
    assert last == "IndexError: list index out of range"
    assert "assert candidate(1) == 2" in failure.source
    assert "return [][x]" in failure.source
    assert "harness" not in failure.source


@pytest.mark.slow
def test_an_endless_program_times_out_and_a_pass_raises_nothing(write_rows, monkeypatch):
    from reflexion_lab.audit import stored_programs
    from reflexion_lab.tasks.sandbox.sandbox import Limits

    monkeypatch.setattr(stored_programs, "LIMITS", Limits(wall_seconds=1.0, cpu_seconds=1))
    monkeypatch.setattr(stored_programs, "PATIENT", Limits(wall_seconds=1.0, cpu_seconds=1))
    path = write_rows(row("a", "while True: pass", "return x + 1"))
    endless, passing = execute(read_failures([path]), workers=1, quiet=True)
    assert (endless.raised, endless.truth, endless.traceback) == ("timeout", "timeout", "timed out")
    assert (passing.raised, passing.evaluation.passed) == ("", True)


def test_equal_programs_share_results_and_keep_their_ids(write_rows):
    first, second = execute(read_failures([write_rows(row("a", "return [][x]", "return [][x]"))]), quiet=True)
    assert first.traceback == second.traceback != ""
    assert (first.sample.id, second.sample.id) == ("r/a/0", "r/a/1")


def test_untyped_evidence_does_not_name_the_type(executed):
    for failure in executed:
        for evidence in EVIDENCE:
            assert failure.raised in evidence_text(failure, evidence, True)
            assert failure.raised not in evidence_text(failure, evidence, False)


def test_cutting_the_type_leaves_the_message():
    text = (
        'Traceback (most recent call last):\n  File "x", line 1\n    raise KeyError("KeyErrors")\nmy.KeyError: gone\n'
    )
    cut = untyped(text, "KeyError")
    assert cut.splitlines()[-1] == "gone"
    assert "KeyErrors" in cut


def test_lab_rules_name_the_exception_and_keywords_often_do_not(executed):
    result = {
        (each.evidence, each.typed): each for each in compare(classified(executed), {}) if each.against == "executed"
    }
    for evidence in EVIDENCE:
        assert result[evidence, True].score(OURS).accuracy.share == 1.0
    guesses = {case.kind: case.guesses["ten keywords"] for case in result["traceback", True].cases}
    assert guesses["KeyError"] == guesses["ZeroDivisionError"] == guesses["NameError"] == "import"
    assert guesses["AssertionError"] == "assertion"


TEN = {
    "assert failed: expected 10, got 5": "assertion",
    "context deadline exceeded": "timeout",
    "nil pointer dereference": "null",
    "permission denied: cannot write": "permission",
    "missing import for package foo/bar": "import",
    "incompatible type conversion": "type",
    "out of memory: allocation failed": "memory",
    "something weird happened": "unknown",
    "": "unknown",
    "type mismatch in argument": "assertion",
    "Traceback": "concurrency",
}
SIX = {
    "Cannot find module": "import",
    "Type 'A' is not assignable to type 'B'": "type",
    "Unexpected token": "syntax",
    "Test failed: expected true": "assertion",
    "expect(x).toBe(y) failed": "assertion",
    "timed out": "timeout",
    "RuntimeError: x": "runtime",
    "Something weird": "unknown",
}


def test_keyword_classes_are_those_of_the_two_systems():
    assert {text: classify_by(TEN_CLASSES, text) for text in TEN} == TEN
    assert {text: classify_by(TEN_CLASSES, text.upper()) for text in TEN} == TEN
    assert {text: first_kind(SIX_CLASSES, text) for text in SIX} == SIX


COMMON = (
    "{}['a']", "int('x')", "1 / 0", "missing", "def f(): f()\nf()", "raise MemoryError", "None.items", "None + 1",
    "[][0]", "import no_such_module_here", "from math import no_such_name", "1 + 'a'", "assert 1 == 2", "def f(:",
    "raise PermissionError(13, 'Permission denied')", "raise TimeoutError", "next(iter([]))", "if True:\npass",
    "def f():\n    x += 1\nf()", "2.0 ** 100000", "open('/no/such')", "raise RuntimeError('x')", "b'\\xff'.decode()",
)  # fmt: skip


def test_keywords_call_15_of_23_common_tracebacks_import():
    def trace(program):
        try:
            exec(compile(program, "<string>", "exec"), {})
        except Exception as problem:
            trace = problem.__traceback__.tb_next
            return "".join(traceback.format_exception(type(problem), problem, trace))
        raise AssertionError(program)

    texts = {program: trace(program) for program in COMMON}
    called = [program for program, text in texts.items() if classify_by(TEN_CLASSES, text) == "import"]
    assert len(COMMON) == 23
    assert sum("import" not in program for program in called) == 15
    assert sum(classify("", text) == "import" for text in texts.values()) == 2


def cases(*rows):
    return [
        Case(problem=problem, kind="", truth=truth, guesses={OURS: ours, "ten keywords": ten})
        for problem, truth, ours, ten in rows
    ]


def test_rules_are_compared_case_by_case():
    result = cases(("1", "a", "a", "b"), ("2", "a", "a", "a"), ("3", "b", "b", "a"), ("4", "b", "a", "b"))
    gained = compared(result, "ten keywords", OURS)
    assert (gained.repaired, gained.damaged, gained.both, gained.neither) == (2, 1, 1, 0)
    assert macro_f1(result, OURS, minus=OURS).value == 0.0
    with pytest.raises(ValueError, match="got none"):
        macro_f1([], OURS)


def test_a_sample_has_one_case_per_problem_rare_types_first(write_rows):
    rows = [row(f"a{n}", "return 0") for n in range(12)] + [row("k", "return 0", "return {}[x]"), row("i", "import z1")]
    result = execute(read_failures([write_rows(*rows)]), workers=2, quiet=True)
    draws = draw(result, seed=3, cases=5)
    assert sorted(draw.raised for draw in draws) == ["AssertionError"] * 3 + ["KeyError", "ModuleNotFoundError"]
    assert len({draw.sample.task_id for draw in draws}) == 5
    assert draws == draw(list(reversed(result)), seed=3, cases=5) != draw(result, seed=4, cases=5)
    assert "k" not in {failure.sample.task_id for failure in draw(result, cases=100, known={"k"})}


def test_a_reader_sees_no_type_and_labels_are_read_back(executed, tmp_path):
    table, for_reader = write_cases(draw(executed), tmp_path / "cases.csv")
    text = for_reader.read_text()
    assert "return [][x]" in text and "list index out of range" in text
    assert not [kind for kind in BODIES if kind in text]
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert tuple(rows[0]) == FIELDS
    assert [row["part"] for row in rows].count("first") == 5
    with pytest.raises(ValueError, match="line 2, field label"):
        read_labels(table)
    table.write_text(table.read_text().replace("first,,", "first,index,own words").replace("second,,", "second,type,"))
    labels = read_labels(table)
    assert labels.keys() == {failure.id for failure in executed}
    table.write_text(table.read_text() + ",".join(rows[0].values()).replace("first,,", "first,type,") + "\n")
    with pytest.raises(ValueError, match="more than once"):
        read_labels(table)


def test_labels_are_the_truth_of_their_comparisons(executed, label):
    labels = label(executed, first="index", second="timeout")
    result = compare(classified(executed), labels)
    second = [each for each in result if each.against == "labels, second"]
    assert {case.truth for each in second for case in each.cases} == {"timeout"}
    assert all(own.accuracy.k == 0 for each in second for own in each.scores)
    assert [each.typed for each in second] == [False] * len(EVIDENCE)
    held = [each for each in result if each.against == "labels, held out"]
    assert [len(each.cases) for each in held] == [len(executed) // 2] * len(EVIDENCE)
    with pytest.raises(ValueError, match=r"labels: got 1, none of them about .*, expected one that is"):
        compare(classified(executed[:1]), {("x", "y"): next(iter(labels.values()))})


def test_report_and_figure_hold_every_score(executed, label, tmp_path):
    from matplotlib.figure import Figure

    result = compare(classified(executed), label(executed, first="index", second="index"))
    console = Console(file=io.StringIO(), width=250)
    show(classified(executed), result, console)
    printed = console.file.getvalue()
    assert all(kind in printed for kind in BODIES)
    rows = list(as_rows(result))
    assert len([row for row in rows if row["group"] == "all"]) == len(result) * len(RULES)
    written, picture = save(result, classified(executed), tmp_path / "out")
    assert len(list(csv.DictReader(io.StringIO(written.read_text())))) == len(rows)
    assert picture.read_bytes() == save(result, classified(executed), tmp_path / "again")[1].read_bytes()
    typed, read = plot(result, classified(executed), Figure()).axes
    assert [label.get_text() for label in read.get_yticklabels()] == [f"index\nn = {len(executed) // 2}"]
    assert any(METHOD in text.get_text() and "9 failing attempts" in text.get_text() for text in typed.texts)


def test_cases_are_read_back_and_hold_no_text(executed, label, tmp_path):
    failures = classified(executed)
    path = save_cases(failures, tmp_path)
    assert read_cases(tmp_path) == failures
    labels = label(executed, first="index", second="index")
    assert compare(read_cases(tmp_path), labels) == compare(failures, labels)
    text = gzip.decompress(path.read_bytes()).decode()
    assert not [body for body in BODIES.values() if body in text]


def test_a_narrow_terminal_cuts_no_cell(executed, label):
    result = compare(classified(executed), label(executed, first="index", second="index"))
    console = Console(file=io.StringIO(), width=80)
    show(classified(executed), result, console)
    text = console.file.getvalue()
    assert "…" not in text
    for cells in (line for sheet in (overall(result), by_class(result[-1])) for line in sheet.rows):
        assert all(part in text for cell in cells for part in cell.split("\n"))


def test_the_command_writes_table_figure_and_sample(write_rows, tmp_path, capsys):
    path = str(write_rows(row("a", "return 0"), row("b", "return [][x]")))
    drawn, out = str(tmp_path / "cases.csv"), str(tmp_path / "out")
    options = command.parser().parse_args([path, "--out", out, "--draw", drawn, "--json"])
    assert command.failures(options) == 0
    output = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (output["failing"], output["problems"], output["pass_here"]) == (2, 2, 0)
    assert {scores["rules"] for scores in output["rows"]} == set(RULES) == {OURS, *SYSTEMS}
    assert len(list(csv.DictReader(io.StringIO((tmp_path / "cases.csv").read_text())))) == 2
    for wrong in (["nowhere.jsonl"], [path, "--out", path]):
        options = command.parser().parse_args(wrong)
        with pytest.raises(ValueError, match=r"expected transcripts|expected a folder"):
            command.failures(options)


def test_an_invalid_transcript_is_named_by_file_line_and_field(tmp_path):
    path = tmp_path / "t.jsonl"
    samples = {"task_id": "HumanEval/0", "completion": "    return 1\n", "passed": False}
    for wrong in (row("a") | {"attempts": 5}, row("a") | {"attempts": [5]}, samples):
        path.write_text(json.dumps(wrong) + "\n")
        with pytest.raises(ValueError, match=r"t\.jsonl, line 1, field attempts: got .*, expected a list of objects"):
            read_failures([path])


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"file,attempt\n\x00,b\n"])
def test_unreadable_labels_are_named(tmp_path, content):
    path = tmp_path / "labels.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"labels\.csv.*expected"):
        read_labels(path)


def test_a_wrong_sample_or_labels_fail_before_any_execution(write_rows, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments._tools.failing_attempts.execute", lambda result: pytest.fail("executed"))
    path, read, shown_file = str(write_rows(row("a", "return 0"))), tmp_path / "read.csv", tmp_path / "shown.txt"
    read.write_text(",".join(FIELDS) + "\nother.jsonl,r/b/0,m,first,index,read by hand\n")
    shown_file.write_text("shown to a reader")
    wrong = {
        "read.csv exists": ["--draw", str(read)],
        "shown.txt exists": ["--draw", str(tmp_path / "shown.csv")],
        "expected a file": ["--draw", str(tmp_path / "cases.txt")],
        "in a folder that exists": ["--draw", str(tmp_path / "none" / "cases.csv")],
        "read.csv: got 1 labels of other failures, expected some": ["--labels", str(read)],
    }
    for message, arguments in wrong.items():
        options = command.parser().parse_args([path, *arguments])
        with pytest.raises(ValueError, match=message):
            command.failures(options)
    assert (shown_file.read_text(), "read by hand" in read.read_text()) == ("shown to a reader", True)


def test_recorded_runs_have_the_failures_of_their_readme(recorded_runs):
    paths = sorted((recorded_runs / "transcripts").glob("*.jsonl.gz"))
    result = read_failures(paths)
    assert len(result) == 6239
    assert sum(failure.recorded == "AssertionError" for failure in result) == 5527
    assert len({failure.sample.task_id for failure in result}) == 507


def test_recorded_failures_raise_again_as_logged(recorded_runs):
    path = recorded_runs / "transcripts" / "agentevals_reflexion_humaneval.jsonl.gz"
    with gzip.open(path) as file:
        assert file.readline()
    result = execute(read_failures([path], limit=40), workers=2, quiet=True)
    assert [failure.raised for failure in result] == [failure.recorded for failure in result]
    typed, *_ = compare(classified(result), {})
    assert typed.score(OURS).accuracy.k == 40
    assert typed.score("ten keywords").accuracy.k < 40
