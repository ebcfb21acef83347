"""Run folders of ours: audited like any log, and with no more trust."""

import json

import pytest

from reflexion_lab.audit.audit import audit
from reflexion_lab.audit.samples import read_samples
from reflexion_lab.cli.main import main
from tests.builders import scripted


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys):
    """A run over two tasks with a model that never learns."""
    monkeypatch.chdir(tmp_path)
    run = ["run", *scripted(tmp_path), "tracker=none", "quiet=true", "reflector=rules"]
    assert main([*run, "benchmark.limit=2", "loop.max_attempts=2"]) == 0
    capsys.readouterr()
    (result,) = (tmp_path / "runs").glob("*-reflexion-*")
    return result


def test_a_run_agrees_with_its_grades(folder):
    submitted, every = audit(folder, quiet=True), audit(folder, attempts=True, quiet=True)
    assert (submitted.n, submitted.agree, submitted.harness_errors) == (2, 2, 0)
    assert every.n == every.agree > 2
    assert every.verdicts[0].sample.id.endswith("/1")
    assert submitted.verdicts[0].sample.tests


def test_the_visible_verdict_is_the_recorded_one(folder):
    attempts = folder / "attempts.jsonl"
    rows = [json.loads(line) for line in attempts.read_text().splitlines()]
    for row in rows:
        row["evaluation"]["passed"] = True  # as by a noisy evaluator
    attempts.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert [sample.visible_passed for sample in read_samples(folder)] == [True, True]


def test_a_forged_grade_is_reported(folder):
    grades = folder / "grades.jsonl"
    grades.write_text(grades.read_text().replace('"passed":false', '"passed":true'))
    result = audit(folder, quiet=True)
    assert len(result.disagreements) == 2
    assert {verdict.passed for verdict in result.disagreements} == {False}


def test_only_benchmarks_of_this_package_are_loaded(folder):
    loads = (
        {"_target_": "os.system", "command": "touch was_here"},
        {"_target_": "reflexion_lab.tasks.benchmarks.basics.basics", "seed": {"_target_": "os.getcwd"}},
        {"_target_": "reflexion_lab.tasks.benchmarks.basics.basics", "seed": "${oc.env:HOME}"},
        {"_target_": "reflexion_lab.tasks.benchmarks.basics.basics.__class__", "seed": 0},
        {"_target_": "reflexion_lab.tasks.benchmarks.basics.basics", "_args_": [1]},
        {"_target_": "reflexion_lab.tasks.benchmarks.basics.basics", "_partial_": {"_target_": "os.getcwd"}},
        "humaneval",
    )
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for load in loads:
        manifest["config"]["benchmark"]["load"] = load
        path.write_text(json.dumps(manifest))
        with pytest.raises(ValueError, match=r"config\.benchmark\.load: .* expected a benchmark of this package"):
            read_samples(folder)
    assert not (folder.parents[1] / "was_here").exists()


def test_another_version_of_the_benchmark_is_refused(folder):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest |= {"benchmark_digest": "0" * 64, "tasks_digest": "1" * 64}
    path.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="expected 000000000000, the digest in the manifest"):
        read_samples(folder)


def test_a_run_on_a_benchmark_with_computed_values_is_audited(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    row = {"task_id": "HumanEval/0", "prompt": 'def f(x):\n    """One more.\n    >>> f(1)\n    2\n    """\n'}
    row |= {"entry_point": "f", "canonical_solution": "    return x + 1\n", "contract": "", "atol": 0}
    (tmp_path / "plus.jsonl").write_text(json.dumps(row | {"base_input": [[1]], "plus_input": [[5]]}) + "\n")
    run = ["run", *scripted(tmp_path, reply="\n    return x + 1"), "tracker=none", "quiet=true", "reflector=rules"]
    run += ["benchmark=humaneval_plus", "benchmark.load.path=plus.jsonl", "evaluator=combined"]
    assert main(run) == 0, capsys.readouterr().err
    (folder,) = (tmp_path / "runs").glob("*-reflexion-*")
    result = audit(folder, quiet=True)
    assert (result.n, result.logged_rate.k, result.agree) == (1, 1, 1)
    assert result.verdicts[0].sample.feedback == ("assert f(1) == 2",)  # no finding of a linter among the asserts
