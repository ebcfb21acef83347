"""Type check and lint: findings, broken tools, and hostile programs."""

import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from reflexion_lab.records import Trajectory
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.evaluators import static, tools
from reflexion_lab.tasks.evaluators.static import StaticCheck, findings

CLEAN = "def double(x: int) -> int:\n    return 2 * x\n"
MISTYPED = "def double(x: int) -> str:\n    return 2 * x\n"
MINOR = "from typing import cast\ndef half(x: int) -> int:\n    return cast(int, x) // 2\n"
"""What ty warns of."""
UNTIDY = "def double(x):\n    return 2 * y\n"


def judged(tool, task, program):
    return StaticCheck(tool).evaluate(task, Trajectory(solution=program, strategy="x"))


@pytest.fixture
def impostor(tmp_path, monkeypatch):
    """Puts a script in the place of a tool; nothing of it is remembered afterwards."""

    def stand_in(tool, script):
        path = tmp_path / tool
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(tools, "located", lambda _tool: str(path))
        findings.cache_clear()

    yield stand_in
    findings.cache_clear()


@pytest.mark.parametrize("tool", ["ty", "mypy", "ruff"])
def test_a_clean_program_passes(task, tool):
    evaluation = judged(tool, task, CLEAN + MINOR)
    assert (evaluation.passed, evaluation.outcome, evaluation.reward) == (True, "pass", 1.0)
    assert (evaluation.feedback, evaluation.issues) == ("", ())
    assert [check.outcome for check in evaluation.checks] == ["pass"]


@pytest.mark.parametrize(("tool", "rule"), [("ty", "invalid-explicit-return"), ("mypy", "return-value")])
def test_a_type_error_is_a_check_with_its_rule_line_and_source(task, tool, rule):
    evaluation = judged(tool, task, MISTYPED)
    (check,) = evaluation.checks
    assert (evaluation.passed, evaluation.outcome, evaluation.reward) == (False, "fail", 0.0)
    assert (check.kind, check.outcome, check.error_type, check.line) == ("type", "fail", rule, 2)
    assert check.name == "return 2 * x"
    assert evaluation.verification_type == "type_check"
    assert "`return 2 * x`" in evaluation.feedback and rule in evaluation.feedback


def test_lint_knows_this_pythons_syntax_and_names_and_types_no_package_of_the_lab(task):
    evaluation = judged("ruff", task, "import os\n" + UNTIDY)
    assert [(check.kind, check.error_type, check.line) for check in evaluation.checks] == [("lint", "F821", 3)]
    assert evaluation.verification_type == "lint"
    evaluation = judged("ty", task, "import msgspec\n")
    assert [check.error_type for check in evaluation.checks] == ["import-not-found"]
    newest = "def double(x):\n    try:\n        return 2 * x\n    except* ValueError:\n        raise\n"
    assert judged("ruff", task, newest.replace("        return 2 * x", "        print(x)")).passed


@pytest.mark.parametrize("tool", ["ty", "mypy", "ruff"])
def test_a_syntax_error_is_found(task, tool):
    evaluation = judged(tool, task, "def double(x:\n    return x\n")
    assert (evaluation.outcome, evaluation.checks[0].line) == ("fail", 1)


SILENCED = [
    f"def double(x: int) -> int:\n    return undefined  {comment}\n"
    for comment in ("# type: ignore", "# ty: ignore", "# noqa", "#NOQA: F821", "# because # noqa")
]
SILENCED += [f"{head}\ndef double(x):\n    return undefined\n" for head in ("# ruff: noqa", "# mypy: ignore-errors")]
SILENCED += ['# /// script\n# [tool.ty.rules]\n# all = "ignore"\n# ///\ndef double(x):\n    return undefined\n']


@pytest.mark.parametrize("program", SILENCED)
@pytest.mark.parametrize("tool", ["ty", "ruff"])
def test_no_comment_silences_a_tool(task, tool, program):
    evaluation = judged(tool, task, program)
    assert [check.line for check in evaluation.checks] == [program[: program.index("undefined")].count("\n") + 1]
    assert evaluation.checks[0].name.startswith("return undefined")
    assert "#." not in evaluation.checks[0].name


def test_configuration_further_up_is_not_read(task, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.ty.rules]\nall = "ignore"\n[tool.ruff]\nexclude = ["*"]\n')
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tools._environment.cache_clear()
    findings.cache_clear()
    try:
        assert not judged("ty", task, MISTYPED).passed
        assert not judged("ruff", task, UNTIDY).passed
    finally:
        tools._environment.cache_clear()


def test_canonical_solutions_are_hardly_ever_called_wrong(task):
    programs = [known.prompt + known.canonical_solution for known in humaneval()[15:35]]
    flagged = [[judged(tool, task, program).passed for program in programs].count(False) for tool in ("ty", "ruff")]
    assert flagged == [2, 0]


@pytest.mark.parametrize(("script", "message"), [
    ("echo not json", "without the expected JSON"), ("echo '{\"a\": 1}'; exit 1", "without the expected JSON"),
    ("echo '[{}]'; exit 1", "without the expected JSON"),
    ("echo '[]'; echo out of order >&2; exit 3", "exit code 3 with 0 errors; out of order"),
    ("echo '[]'; exit 1", "exit code 1 with 0 errors"), ("kill -9 $$", "signal 9"), ("kill -1 $$", "signal 1"),
    ("yes", "printed more than"), ("", "without the expected JSON"),
])  # fmt: skip
def test_a_broken_tool_gives_no_verdict_and_no_exception(task, impostor, script, message):
    impostor("ruff", script)
    evaluation = judged("ruff", task, CLEAN)
    assert (evaluation.passed, evaluation.outcome, evaluation.reward) == (False, "harness_error", 0.0)
    assert message in evaluation.issues[0]
    assert evaluation.issues[0].startswith("lint by ruff did not run: ")


def test_only_valid_findings_are_cached(task, impostor, tmp_path):
    impostor("ruff", f"echo x >> {tmp_path}/asked; echo rubbish")
    for _ in range(2):
        assert judged("ruff", task, CLEAN).outcome == "harness_error"
    impostor("ruff", f"echo x >> {tmp_path}/asked; echo '[]'")
    for _ in range(3):
        assert judged("ruff", task, CLEAN).passed
    assert (tmp_path / "asked").read_text().count("x") == 3


def test_a_tool_sees_neither_the_environment_nor_other_folders(task, impostor, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key")
    impostor("ruff", "echo '[]'; (env; pwd; ls -a) >&2; exit 7")
    message = judged("ruff", task, CLEAN).issues[0]
    assert "exit code 7" in message and "program_" in message
    assert "planted-key" not in message
    assert str(Path.cwd()) not in message


def test_a_missing_tool_warns_once_and_is_left_out(task, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    tools.located.cache_clear()
    findings.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match=r"ty is neither next to .*`pip install ty`") as warned:
            judged("ty", task, CLEAN)
            evaluation = judged("ty", task, CLEAN)
        assert len(warned) == 1
        assert evaluation.issues == ("type_check by ty did not run: it is not installed",)
    finally:
        tools.located.cache_clear()


def test_the_tool_beside_the_interpreter_comes_first(monkeypatch, tmp_path):
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ty").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "here" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "there"))
    assert tools.located.__wrapped__("ty") == str(tmp_path / "here" / "ty")
    (tmp_path / "here" / "ty").unlink()
    assert tools.located.__wrapped__("ty") == str(tmp_path / "there" / "ty")


HOSTILE = {
    "a lone surrogate": "x = '\ud800'\n", "a null byte": "x = 1\0\n", "deep nesting": "x = " + "(" * 5000,
    "a deep expression": "x = " + "-" * 50_000 + "1", "too long": "x = 1\n" * 100_000,
    "a thousand errors": "x\n" * 1000, "odd line ends": "a\rb\r\nc\x0cd\u2028e", "format fields": "{file} {env}\n",
}  # fmt: skip


@pytest.mark.parametrize("tool", ["ty", "ruff"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_never_an_exception_nor_a_pass(task, tool, name):
    evaluation = judged(tool, task, HOSTILE[name])
    if name != "a lone surrogate":  # in a file it is a question mark, which is a fine string
        assert not evaluation.passed
    assert evaluation.outcome in ("pass", "fail", "harness_error")
    assert len(evaluation.checks) <= static.KEPT
    assert len(evaluation.feedback) <= 900
    evaluation.feedback.encode()


def test_without_a_program_no_tool_runs_and_one_that_hangs_is_ended(task, impostor, monkeypatch):
    impostor("ty", "exit 9")
    evaluation = judged("ty", task, "  \n")
    assert (evaluation.outcome, evaluation.reward) == ("extraction_failed", 0.0)
    assert "no code for double" in evaluation.issues[0]
    monkeypatch.setattr(tools, "SECONDS", 0.2)
    impostor("ty", "exec sleep 60")
    assert "ended after 0.2 seconds" in judged("ty", task, CLEAN).issues[0]


def test_feedback_counts_what_it_leaves_out_and_equal_sizes_are_never_confused(task):
    assert "and 2 more" in judged("ruff", task, "a\nb\nc\nd\ne\n").feedback
    assert "and at least 17 more" in judged("ruff", task, "x\n" * 50).feedback
    passed = [judged("mypy", task, text).passed for text in ("x: int = 100\n", "x: int = '1'\n", "x: int = 200\n")]
    assert passed == [True, False, True]


def test_an_unknown_tool_is_refused_by_name():
    with pytest.raises(ValueError, match=r"StaticCheck.tool: got 'pylint', expected one of ty, mypy, ruff"):
        StaticCheck("pylint")


def test_many_threads_may_ask_at_once_and_never_share_a_cache(task, impostor):
    tools._environment.cache_clear()
    findings.cache_clear()
    programs = [f"x: int = {n}\n" for n in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(findings, ["ty", "ruff", "mypy"] * 2, programs)) == [()] * 6
    # Two that meet in one folder see each other's mark; one that is alone removes its own.
    impostor("mypy", 'mark=${5#--cache-dir=}.mark; mkdir "$mark" || exit 9; sleep 0.05; rmdir "$mark"')
    tools._environment.cache_clear()
    programs = [f"x: int = {n}\n" for n in range(12)]
    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(findings, ["mypy"] * 12, programs)) == [()] * 12


def test_a_cache_on_which_a_tool_failed_is_thrown_away(task, impostor):
    impostor("mypy", 'cache=${5#--cache-dir=}; test -e "$cache" && exit 9; mkdir "$cache"; exit 2')
    for n in range(4):
        assert "exit code 2" in judged("mypy", task, f"x = {n}\n").issues[0]


def test_findings_in_the_prompts_helpers_do_not_count(task):
    helpers = "from math import *\n\n\ndef area(r):\n    unused = 1\n    return pi * r * r\n\n\n"
    described = replace(task, prompt=helpers + task.prompt)
    assert judged("ruff", described, helpers + "def double(x):\n    return 2 * floor(x)\n").passed
    untidy = judged("ruff", described, helpers + "def double(x):\n    left = 1\n    return 2 * x\n")
    assert [(check.error_type, check.name) for check in untidy.checks] == [("F841", "left = 1")]
