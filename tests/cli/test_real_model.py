"""Through the user's door with a real model: SmolLM2 runs, retries, resumes and replays, and drives every preset."""

import shutil
from pathlib import Path

import pytest

from reflexion_lab.analysis.summary import Log, figures
from reflexion_lab.cli.main import main
from reflexion_lab.runner.config.compose import CONF
from reflexion_lab.runner.folder.folder import RunFolder
from tests.builders import canonical_bytes

pytestmark = pytest.mark.slow

SOLVED, UNSOLVED = "basics/distance_between/0", "basics/is_palindrome/0"
LIGHT = ("model.slots=1", "model.threads=1", "tracker=none", "quiet=true")
SMALL = (*LIGHT, "loop.max_attempts=2", "loop.reflect_on_last=false")
SHORT = "actor.sampling.max_tokens=48"
TWO_TASKS = (*SMALL, SHORT, f"benchmark.ids=[{SOLVED},{UNSOLVED}]")


def run(root, *overrides):
    """The command `run`, and the run folder that it wrote below `root`."""
    assert main(["run", *overrides, f"run_root={root}"]) == 0
    return next(path.parent for path in root.glob("*/manifest.json"))


def read(folder):
    return Log.read(RunFolder.existing(folder))


def assert_retried_with_its_words(first, second):
    """The second attempt's prompt has what the model itself wanted to change after the first one failed."""
    assert not first.evaluation.passed
    assert first.reflection.source == "llm"
    assert first.reflection.usage.completion_tokens > 0
    words = first.reflection.what_to_change
    assert words
    assert words not in first.trajectory.messages[-1].content
    assert words in second.trajectory.messages[-1].content
    assert second.recalled


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A run folder of the default arm: one task that the model solves at once, one that it does not."""
    return run(tmp_path_factory.mktemp("unbroken"), *TWO_TASKS)


def test_the_default_arm_retries_a_failure_with_the_models_own_words(unbroken):
    attempts = read(unbroken).attempts
    assert {task_id: len(loop) for task_id, loop in attempts.items()} == {SOLVED: 1, UNSOLVED: 2}
    assert attempts[SOLVED][0].evaluation.passed
    assert_retried_with_its_words(*attempts[UNSOLVED])


def test_a_run_cut_between_attempt_and_retry_resumes_to_the_same_records(unbroken, tmp_path):
    root = tmp_path / "cut"
    folder = shutil.copytree(unbroken, root / unbroken.name)  # without the call cache: the model is asked again
    for path in folder.glob("*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: 2 if path.name == "attempts.jsonl" else 1]))
    (folder / "summary.json").unlink()
    assert run(root, *TWO_TASKS, f"resume={folder}") == folder
    assert canonical_bytes(read(folder)) == canonical_bytes(read(unbroken))
    assert figures(read(folder)) == figures(read(unbroken))


def test_its_bundle_replays_without_the_model(unbroken, tmp_path, monkeypatch, capsys):
    assert main(["bundle", str(unbroken), "-o", str(tmp_path / "run.zip")]) == 0
    monkeypatch.setattr("reflexion_lab.agent.models.llama_cpp.LlamaCppModel.complete", None)
    assert main(["replay", str(tmp_path / "run.zip"), "--out", str(tmp_path / "again")]) == 0
    assert "nothing disagrees" in capsys.readouterr().out
    (again,) = (path.parent for path in Path(tmp_path / "again").rglob("manifest.json"))
    assert canonical_bytes(read(again)) == canonical_bytes(read(unbroken))
    assert figures(read(again)) == figures(read(unbroken))


@pytest.mark.parametrize("preset", sorted(path.stem for path in (CONF / "preset").glob("*.yaml")))
def test_a_preset_retries_with_the_models_own_words(tmp_path, preset):
    short = {"jido": "actor.generator.sampling.max_tokens=48"}.get(preset, SHORT)
    attempts = read(run(tmp_path, f"preset={preset}", *SMALL, short, f"benchmark.ids=[{UNSOLVED}]")).attempts
    assert_retried_with_its_words(*attempts[UNSOLVED])


def test_the_demo_compares_both_arms_on_both_benchmarks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--tasks", "1", *LIGHT, SHORT, "benchmark.limit=1", f"run_root={tmp_path}"]) == 0
    assert capsys.readouterr().out.count("=== ") == 4
    basics, basics_again, humaneval, humaneval_again = [
        read(path.parent) for path in sorted(tmp_path.glob("*/manifest.json"))
    ]
    for single, retried in ((basics, basics_again), (humaneval, humaneval_again)):
        ((only,),) = single.attempts.values()
        ((first, *_),) = retried.attempts.values()
        assert only.trajectory.solution == first.trajectory.solution
        assert first.trajectory.cached, "arms share their first replies"
    ((first, second, *_),) = humaneval_again.attempts.values()
    assert_retried_with_its_words(first, second)
