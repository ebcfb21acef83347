import io

import pytest
from msgspec.structs import replace
from rich.console import Console

import reflexion_lab as rl
from reflexion_lab.analysis.report.run_tables import show
from reflexion_lab.cli.main import main
from reflexion_lab.notebook.frames import load
from reflexion_lab.records import Check, SuiteVerdict, Usage, WrittenTests
from reflexion_lab.tasks.benchmarks.basics import basics

RUN = {
    "right at once": [(1.0, True)], "repaired": [(0.0, False), (1.0, True)], "damaged": [(0.5, True), (1.0, False)],
    "never": [(0.5, False), (0.5, False), (0.0, False)],
}  # fmt: skip


def printed(folder, width: int = 100, **options) -> str:
    console = Console(file=io.StringIO(), width=width)
    show(folder, console, **options)
    return console.file.getvalue()


@pytest.fixture
def report_of(write_run):
    def report(verdicts=None, all_tasks: bool = False, width: int = 100, **options) -> str:
        folder = write_run(verdicts or (None if "attempts" in options else RUN), **options)
        return printed(folder, width, all_tasks=all_tasks)

    return report


def row(text: str, name: str) -> list[str]:
    """Cells of the first table row that begins with `name`."""
    line = next(line for line in text.splitlines() if line.strip().startswith(name))
    return line.replace(name, "", 1).split()


def test_every_task_and_every_attempt_have_a_row(report_of):
    text = report_of()
    assert row(text, "right at once") == ["1", "of", "1", "pass", "pass", "passed"]
    assert row(text, "repaired") == ["2", "of", "2", "pass", "pass", "repaired", "passed"]
    assert row(text, "damaged") == ["2", "of", "2", "pass", "fail", "damaged", "passed"]
    assert row(text, "never") == ["1", "of", "3", "fail", "fail", "max_attempts"]
    lines = [line.split() for line in text.split("Convergence")[1].splitlines()]
    rows = [line for line in lines if len(line) > 1 and line[0] in "123" and "/" in line[1]]
    assert [line[:3] for line in rows] == [["1", "2/4", "50.0"], ["2", "2/4", "50.0"], ["3", "2/4", "50.0"]]


def test_the_headline_carries_n_interval_source_seed_and_gain(report_of):
    text = report_of()
    lines = text.splitlines()
    number = next(number for number, line in enumerate(lines) if line.startswith("pass@1 "))
    assert "50.0 % [15.0, 85.0] (2 of 4 tasks, Wilson 95 %)" in lines[number]
    assert lines[number + 1].startswith("retries without a program ")
    assert "toy, feedback source visible, seed 7" in lines[number + 2]
    assert row(text, "plain single attempt")[:2] == ["50.0", "%"]
    assert "points, adjusted t over tasks" in text
    assert "1 repaired, 1 damaged" in text
    assert row(text, "p of the gain")[0] == "1,"


def test_feedback_tests_are_shown_against_hidden_ones(report_of):
    text = report_of(width=80)
    assert row(text, "passed, and right") == ["1", "2", "2"]
    assert row(text, "passed, but wrong") == ["0", "1", "1"]
    assert row(text, "failed, but right") == ["1", "0", "1"]
    assert row(text, "failed, and wrong") == ["2", "1", "4"]  # of attempt 1, submissions, all attempts
    assert row(text, "without a verdict") == ["0", "0", "0"]
    assert " ".join(row(text, "wrong among passed")) == "0.0 [0, 79] 33.3 [6, 79] 33.3 [6, 79]"


def test_written_tests_are_shown_with_what_they_were_worth(write_run):
    folder = write_run(RUN, feedback_source="self_tests")
    suites = [
        WrittenTests(task_id="repaired", tests=("t1", "t2"), dropped={"x": "duplicate"}),
        WrittenTests(task_id="never", tests=()),
    ]
    checks = tuple(Check(name="t", outcome=outcome) for outcome in ("pass", "fail"))
    for suite in suites:
        folder.append("written_tests.jsonl", suite)
    folder.append("suite_verdicts.jsonl", SuiteVerdict(task_id="repaired", checks=checks))
    text = printed(folder, 120)
    assert "2 kept, 1 of 2 tasks without any; left out: 1 duplicate" in text
    assert "50.0 % [0.0, 100.0] (1 of 2 tests, over 1 task 95 %), the canonical solution passes" in text
    assert row(text, "suite_writer")[0] == "0"


@pytest.fixture
def reviewed(attempt, reflection):
    """Two tasks whose reflections are read and one whose is not."""
    flags = {"a": ("generic", "short"), "b": ("generic",), "c": ()}
    attempts = {}
    for name, raised in flags.items():
        words = replace(reflection(1, "llm" if name != "c" else "rules:type"), flags=raised, confidence=0.5)
        recalled = () if name == "c" else (f"ep-{name}-1",)
        second = attempt(name, 2, float(name == "a"))
        attempts[name] = [attempt(name, 1, 0.0, reflection=words), replace(second, recalled=recalled)]
    return attempts


def test_each_reflection_source_has_a_row_with_success_and_flags(report_of, reviewed):
    text = report_of(attempts=reviewed, width=80).split("Reflections, and")[1]
    llm = row(text, "llm")
    assert llm[:4] == ["2", "2", "1/2", "+50.0"]
    assert llm[-1] == "1/2"
    assert row(text, "rules") == ["1", "0", "-", "-", "-", "0/0"]
    assert row(text, "all")[:3] == ["3", "2", "1/2"]
    for words in (
        "base: retries without a reflection, 0.0 % of 1 passed",
        "llm: generic 100 %, short 50 % rules: no flag",
        "100 % name a failing check, 0 % give away a value or code",
        "confidence, stated Brier 0.250 [0.250, 0.250], base-rate Brier 0.250",
        "mean 0.50, 1 of 2 passed",
    ):
        assert words in " ".join(text.split())


def test_reflections_are_counted_by_source_with_a_review_note(report_of):
    text = report_of()
    assert row(text, "reflections") == ["5", "llm"]
    assert row(text, "model-written reflections")[:2] == ["100.0", "%"]
    assert "no flag on any of them: not reviewed, or nothing found" in " ".join(text.split())


def test_every_role_has_a_row_of_usage(report_of, attempt):
    first = attempt("a", 1, 1.0)
    critic = Usage(calls=2, prompt_tokens=300, completion_tokens=40)
    text = report_of(attempts={"a": [replace(first, trajectory=replace(first.trajectory, others={"critic": critic}))]})
    assert row(text, "critic") == ["2", "300", "40", "340", "0.0", "unknown"]  # no price is recorded
    assert row(text, "actor")[:4] == ["1", "10", "10", "20"]
    assert row(text.split("Usage")[1], "all")[:4] == ["3", "310", "50", "360"]
    unsolved = report_of({"a": [(0.0, False)]}, name="unsolved").split("Usage")[1]
    assert row(unsolved, "actor")[3] == "-"
    assert "no task solved" in unsolved


def test_cached_and_reasoning_tokens_stand_below_those_they_are_part_of(report_of, attempt):
    first = attempt("a", 1, 1.0)
    usage = Usage(calls=1, prompt_tokens=300, completion_tokens=40, cached_tokens=256, reasoning_tokens=32)
    text = report_of(attempts={"a": [replace(first, trajectory=replace(first.trajectory, usage=usage))]}).split(
        "Usage"
    )[1]
    assert row(text, "actor")[:4] == ["1", "300", "40", "340"]
    assert "256 cached" in text
    assert "32 reasoning" in text


def test_the_model_is_named_and_by_role_where_roles_have_their_own(write_run):
    folder = write_run(RUN)
    for roles, models in (({}, "model scripted"), ({"reflector": "big:1"}, "models actor scripted, reflector big:1")):
        folder.write_manifest(replace(folder.manifest, role_fingerprints=roles))
        assert models in " ".join(printed(folder).split())


def test_of_many_tasks_failures_and_repairs_come_first(report_of):
    many = {f"plain {i:03}": [(1.0, True)] for i in range(70)} | RUN
    text = report_of(many)
    assert "14 more tasks left out" in text
    assert row(text, "never")[-1] == "max_attempts"
    assert row(text, "repaired")[-2] == "repaired"
    assert "plain 000" in text
    assert "plain 069" not in text
    everything = report_of(many, all_tasks=True, name="all")
    assert "left out;" not in everything
    assert "plain 069" in everything


def test_an_oracle_run_is_loudly_no_pass_at_1(report_of):
    text = report_of(feedback_source="oracle")
    assert text.splitlines()[0].startswith("UPPER BOUND, not pass@1")
    assert row(text, "upper bound")[:2] == ["50.0", "%"]
    assert "\npass@1" not in text


def test_an_incomplete_run_says_so_first_and_last_and_how_to_resume(report_of):
    text = report_of(n_expected=10, sealed=False)
    assert text.count("INCOMPLETE: 4 of 10 tasks have ended") == 2
    assert "resume" in text.splitlines()[0]
    assert "Convergence" not in text


def test_harness_errors_are_loud_first_and_last_and_no_verdict(report_of, attempt):
    checks = (Check(name="type_check by ty", kind="type", outcome="harness_error", message="it is not installed."),)
    record = attempt("a", 1, 0.0)
    evaluation = replace(record.evaluation, outcome="harness_error", checks=checks)
    text = report_of(attempts={"a": [replace(record, evaluation=evaluation)]}, width=200)
    assert text.startswith("HARNESS ERRORS: 1 verdicts are failures of the harness and say nothing about a program; ")
    assert text.count("the first: type_check by ty: it is not installed. Run `reflexion-lab doctor`") == 2
    assert row(text, "without a verdict") == ["1", "1", "1"]


LINT = Check(name="lint", kind="lint", outcome="fail")
LEFT_OUT = {"verification_type": "combined", "checks": (LINT,), "issues": ("lint by ruff did not run: not installed",)}
IN_PROCESS = {"checks": (Check(name="a", outcome="pass", in_process=True), Check(name="b", outcome="pass"))}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"verification_type": "lint"}, ("seed 7, evaluated by lint", "Feedback by lint against hidden tests")),
        (LEFT_OUT, ("1 lint by ruff",)),
        (IN_PROCESS, ("1 of ", "checks in process: forgeable")),
    ],
)
def test_a_run_says_what_evaluated_it(report_of, attempt, fields, expected):
    record = attempt("a", 1, 0.0)
    text = report_of(attempts={"a": [replace(record, evaluation=replace(record.evaluation, **fields))]})
    assert all(words in text for words in expected)
    assert text.startswith("1 of ") is ("checks in process" in text) is (fields is IN_PROCESS)


def test_ids_with_brackets_and_paths_are_printed_as_they_are(report_of, tmp_path):
    text = report_of({"a[bold]b": [(0.0, False), (1.0, True)]}, sealed=False)
    assert row(text, "a[bold]b")[:3] == ["2", "of", "2"]
    assert "NOT ALL GRADED" in text
    assert f"run folder: {tmp_path / 'narrow'}\n" in report_of(width=20, name="narrow")


@pytest.mark.parametrize(
    ("verdicts", "source", "absent"),
    [
        ({"a": [(1.0, True)], "b": [(0.0, False)]}, "visible", ("gain over attempt 1",)),
        (RUN, "oracle", ("wrong among passed",)),
        ({"a": [(-1.0, True)]}, "visible", ("wrong among passed",)),
        ({"a": [(1.0, True)]}, "visible", ("Reflections, and",)),
        (RUN, "visible", ("evaluated by", "INCOMPLETE", "NOT ALL GRADED", "HARNESS ERRORS")),
    ],
    ids=["single attempt", "oracle", "no tests", "no reflection", "complete"],
)
def test_what_has_nothing_to_say_is_left_out(report_of, verdicts, source, absent):
    text = report_of(verdicts, feedback_source=source)
    assert not [words for words in absent if words in text]


def test_rates_before_and_after_each_possible_cut_off_stand_together(tmp_path, capsys):
    days = ["2024-11-30", "2025-01-01", "2025-03-31", "2025-04-01", ""]
    tasks = [replace(task, released=day) for task, day in zip(basics(n=5), days, strict=True)]
    run = rl.run("model=simulated", "model.first=0.5", "tracker=none", benchmark=tasks, run_root=tmp_path, quiet=True)
    assert main(["show", str(run.folder.path), "--full"]) == 0
    table = capsys.readouterr().out.partition("Solved by quarter of release")[2]
    rows = [line.split() for line in table.split("A model may")[0].splitlines() if line.strip()[:2] == "20"]
    solved = [run.log.submitted[task.task_id][1].passed for task in tasks[:4]]
    expected = [("2024-Q4", 0, 4), ("2025-Q1", 1, 3), ("2025-Q2", 3, 1)]
    assert [(row[0], int(row[1])) for row in rows] == [(quarter, before) for quarter, before, _ in expected]
    for row, (_, before, later) in zip(rows, expected, strict=True):
        assert int(row[-4]) == later
        assert float(row[-3]) == round(100 * sum(solved[before:]) / later, 1)
    assert {*load(str(run.folder.path)).tasks["released"].dropna()} == {*days[:4]}
