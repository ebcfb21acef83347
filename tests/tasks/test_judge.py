"""The judge: one hidden verdict a task while loops could still learn of it, all others after the seal, all counted."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.report.run_tables import show
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.errors import FolderError
from reflexion_lab.records import Grade
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import ConfigError
from reflexion_lab.tasks.evaluators.judge import AskedTwice, HiddenTests


def test_before_the_seal_one_attempt_is_graded_and_after_it_all_of_them(sandbox, task):
    judge = HiddenTests(sandbox)
    grade = judge.grade(task, 2, "def double(x):\n    return 2 * x\n")
    assert (grade.passed, grade.checks_passed, grade.checks_total, grade.sealed) == (True, 2, 2, False)
    with pytest.raises(AskedTwice, match="own/double"):
        judge.grade(task, 3, "def double(x):\n    return 2 * x\n")
    judge.seal()
    grade = judge.grade(task, 1, "def double(x):\n    return 4\n")
    assert (grade.passed, grade.outcome, grade.sealed) == (False, "fail", True)
    assert (grade.checks_passed, grade.checks_total) == (0, 2)
    resumed = HiddenTests(sandbox)
    resumed.resume(["own/double"])
    with pytest.raises(AskedTwice):
        resumed.grade(task, 1, "")


def test_concurrent_requests_get_one_verdict(sandbox, task):
    judge = HiddenTests(sandbox)

    def verdict(number):
        try:
            return judge.grade(task, number, "def double(x):\n    return 2 * x\n").passed
        except AskedTwice:
            return "refused"

    with ThreadPoolExecutor(4) as pool:
        assert sorted(map(str, pool.map(verdict, range(1, 5)))) == ["True", "refused", "refused", "refused"]


def test_the_log_counts_hidden_verdicts_before_and_after_the_seal(write_run):
    folder = write_run({"a": [(0.0, False), (1.0, True)], "b": [(0.5, True)], "c": [(0.0, False), (0.5, False)]})
    lines = (folder.path / "grades.jsonl").read_text().splitlines()
    opened = {"a": 2, "b": 1, "c": 2}  # what was submitted
    grades = [msgspec.json.decode(line, type=Grade) for line in lines]
    grades = [replace(grade, sealed=grade.number != opened[grade.task_id]) for grade in grades]
    (folder.path / "grades.jsonl").write_bytes(b"".join(msgspec.json.encode(grade) + b"\n" for grade in grades))
    result = summary(Log.read(folder))
    assert (result.hidden_asked_open, result.hidden_asked_sealed) == (3, 2)


@pytest.mark.parametrize("source", ["null", "''", "hidden"])
def test_a_config_without_a_feedback_source_is_refused(tmp_path, source):
    with pytest.raises(ConfigError, match="feedback_source"):
        assemble(compose(f"feedback_source={source}", f"run_root={tmp_path}", "tracker=none"))
    assert list(tmp_path.iterdir()) == []


def test_a_table_of_a_run_without_a_feedback_source_is_refused(write_run):
    folder = write_run({"a": [(1.0, True)]})
    record = msgspec.json.decode((folder.path / "manifest.json").read_bytes())
    del record["feedback_source"]
    folder.write_json("manifest.json", record)
    for table in (lambda: show(folder, Console(record=True)), lambda: arms([folder.path])):
        with pytest.raises(FolderError, match="feedback_source"):
            table()
