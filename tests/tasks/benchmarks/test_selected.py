"""Warnings and errors on the selection of a benchmark: failing canonical solutions, no hidden tests."""

import json

import pytest

from reflexion_lab.cli.main import main

WRONG = {
    "task_id": "own/wrong", "prompt": "def f(x):\n", "entry_point": "f", "hidden_tests": ["assert f(1) == 2"],
    "canonical_solution": "    return x\n",
}  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.json").write_text('[{"when": "", "reply": "    return x + 1"}]')

    def run(*overrides, **changed):
        (tmp_path / "tasks.jsonl").write_text(json.dumps(WRONG | changed) + "\n")
        code = main(
            [
                "run", "tracker=none", "quiet=true", "model=scripted", "model.path=script.json", "benchmark=jsonl",
                "benchmark.load.path=tasks.jsonl", "loop.max_attempts=1", "run_root=runs", *overrides,
            ]
        )  # fmt: skip
        return code, capsys.readouterr().err

    return run


@pytest.mark.parametrize(("solution", "reason"), [
    ("    return x\n", "assert f(1) == 2: expected 2, got 1"),
    ("    return g(x)\n", "assert f(1) == 2: NameError: name 'g' is not defined"),
    ("    return x +\n", "assert f(1) == 2: SyntaxError: "), ("    raise SystemExit\n", "assert f(1) == 2: SystemExit"),
])  # fmt: skip
def test_a_failing_canonical_solution_is_refused_before_writing(run, tmp_path, solution, reason, capsys):
    code, stderr = run(canonical_solution=solution)
    assert code == 2 and f"own/wrong ({reason}" in stderr and "benchmark.keep_failing=true" in stderr
    assert main(["lint-dataset", str(tmp_path / "tasks.jsonl")]) == 1
    assert f"1 of 1 tests, such as {reason}" in " ".join(capsys.readouterr().out.split())
    assert list((tmp_path / "runs").rglob("manifest.json")) == []


def test_keep_failing_turns_the_error_into_a_warning(run):
    code, stderr = run("benchmark.keep_failing=true")
    assert (code, "warning: 1 canonical solution failing" in stderr) == (0, True)


def test_tasks_without_hidden_tests_are_named(run):
    code, stderr = run(hidden_tests=[])
    assert code == 0
    assert "warning: 1 task without hidden tests" in stderr and "own/wrong" in stderr
