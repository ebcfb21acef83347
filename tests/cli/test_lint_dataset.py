"""`reflexion-lab lint-dataset`, from words to exit code."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from reflexion_lab.cli import main as cli
from reflexion_lab.cli.lint_dataset import overrides


@pytest.fixture
def lint(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = cli.main(["lint-dataset", *arguments, "--json"])
        lines = capsys.readouterr().out.splitlines()
        return code, json.loads(lines[-1]) if code < 2 else {}

    return run


def written(path, *tasks):
    path.write_bytes(b"\n".join(map(msgspec.json.encode, tasks)))
    return str(path)


def test_sound_tasks_of_a_file_or_of_the_overrides_of_run_end_with_0(lint, task, tmp_path):
    code, report = lint(written(tmp_path / "own tasks'.jsonl", task))
    assert code == 0
    assert (report["benchmark"], report["tasks"], report["errors"]) == ("own tasks'", 1, 0)
    assert report["mutation_score"]["hidden"]["n"] > 0
    code, report = lint("benchmark=basics", "benchmark.load.n=3", "seed=5", "--mutants", "2")
    assert code == 0
    assert (report["benchmark"], report["tasks"], report["findings"]) == ("basics", 3, [])


def test_a_warning_ends_with_0_or_strictly_with_1_and_an_error_with_1(lint, task, tmp_path):
    path = written(tmp_path / "own.jsonl", replace(task, visible_tests=()))
    assert lint(path, "--mutants", "0")[0] == 0
    code, report = lint(path, "--mutants", "0", "--strict")
    assert code == 1
    assert report["checks"]["tests there"] == {"error": 1}
    code, report = lint(written(tmp_path / "own.jsonl", replace(task, canonical_solution="    return 3 * x\n")))
    assert code == 1
    assert report["checks"]["canonical passes"] == {"error": 1}


@pytest.mark.parametrize("arguments", [["no_such_benchmark"], ["nowhere.jsonl"], ["benchmark.limit=0"]])
def test_what_cannot_be_loaded_is_one_line_and_2(lint, arguments):
    assert lint(*arguments) == (2, {})


def test_words_become_overrides(tmp_path):
    assert overrides(["humaneval", "benchmark.limit=5"]) == ["benchmark=humaneval", "benchmark.limit=5"]
    assert overrides(["a/b.jsonl.gz"]) == ["benchmark=a/b.jsonl.gz"]
    odd = tmp_path / "n=3.jsonl"
    odd.touch()
    assert overrides([str(odd)]) == ["benchmark=jsonl", f"benchmark.load.path='{odd}'"]
