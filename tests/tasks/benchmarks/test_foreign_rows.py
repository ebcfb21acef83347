"""Files of tasks as people have them, by the commands that read them."""

import json

import pytest

import reflexion_lab as rl
from reflexion_lab.cli.main import main

PROMPT = 'def twice(x):\n    """Two times x.\n    >>> twice(2)\n    4\n    """\n'
ROW = {"task_id": "own/0", "prompt": PROMPT, "entry_point": "twice"}
HUMANEVAL = ROW | {"test": "def check(candidate):\n    assert candidate(3) == 6\n"}
OWN = ROW | {"visible_tests": ["assert twice(2) == 4"], "hidden_tests": ["assert twice(3) == 6"]}
MBPP = {"task_id": 11, "text": "Two times x.", "code": "def twice(x):\n    return 2 * x",
        "test_list": ["assert twice(2) == 4", "assert twice(3) == 6"]}  # fmt: skip
SOLVED = {"canonical_solution": "    return 2 * x\n"}


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a file of tasks with a model that solves `twice`; returns the exit code and what is on the screen."""

    def run(file, *overrides):
        script = [{"when": "", "reply": "```python\ndef twice(x):\n    return 2 * x\n```"}]
        (tmp_path / "script.json").write_text(json.dumps(script))
        model = ["model=scripted", f"model.path={tmp_path}/script.json", "actor=single_shot"]
        common = ["tracker=none", "cache.mode=off", f"run_root={tmp_path}/runs", f"benchmark={file}"]
        code = main(["run", *common, *(overrides or model)])
        stdout, stderr = capsys.readouterr()
        return code, " ".join((stderr + stdout).split())

    return run


NOTED = "fields not read: question, difficulty"


@pytest.mark.parametrize("row", [HUMANEVAL, HUMANEVAL | SOLVED, OWN | SOLVED, MBPP])
def test_further_columns_are_named_once_and_a_solution_is_not_needed(write_rows, run, capsys, row):
    more = {"question": "Double it.", "setup": None, "difficulty": float("inf"), "rank": float("nan")}
    path = write_rows(row | more, row | more | {"task_id": 12 if row is MBPP else "own/1"})
    code, screen = run(path)
    assert (code, "2 of 2 tasks" in screen) == (0, True), screen
    assert screen.count(f"{path.name}: {NOTED}") == screen.count("not read") == 1
    assert main(["lint-dataset", str(path)]) == 0
    assert capsys.readouterr().err.count(NOTED) == 1
    with pytest.warns(UserWarning, match="fields not read: question"):
        rl.run(
            {"model": "simulated", "tracker": "none"},
            benchmark=[row | more | ({} if row is MBPP else SOLVED)],
            quiet=True,
        )


def test_visible_tests_beside_a_test_of_humaneval_are_visible(write_rows, run):
    path = write_rows(HUMANEVAL | {"visible_tests": ["assert twice(2) == 5"]})
    assert "1 false fails" in run(path)[1]


@pytest.mark.parametrize(("row", "expected"), [
    (HUMANEVAL | {"canonical_soluton": ""}, "canonical_soluton: unknown; did you mean canonical_solution?"),
    (ROW | {"hiden_tests": []}, "hiden_tests: unknown; did you mean hidden_tests?"),
    (ROW | {"Visible_Tests": []}, "Visible_Tests: unknown; did you mean visible_tests?"),
    (OWN | {"clusters": "a"}, "clusters: unknown; did you mean cluster?"),
    (MBPP | {"test_import": []}, "test_import: unknown; did you mean test_imports?"),
    (HUMANEVAL | {"task_id": 7, "x": 1}, "task_id: got int, expected str"),
])  # fmt: skip
def test_a_misspelt_or_wrong_field_is_an_error_with_its_name(write_rows, run, row, expected):
    path = write_rows(row)
    code, screen = run(path)
    assert code == 2 and f"{path.name}, line 1, field $.{expected}" in screen and "JSON" not in screen


def test_a_model_that_needs_solutions_says_so(write_rows, run):
    code, screen = run(write_rows(HUMANEVAL), "model=simulated")
    assert code == 2 and "own/0 has no canonical solution; simulated needs" in screen
