import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Attempt, Check, Task, Usage
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.grid import lines
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.pool import Shuffled
from reflexion_lab.studies.sweeps.running import sweep
from reflexion_lab.studies.sweeps.sweep import Sweep
from tests import builders as make

LATE = Check(name="assert f() == 1", outcome="timeout")


def attempt(task_id: str, number: int = 1, source: str = "llm", words: str = "", passed: bool = False) -> Attempt:
    reflection = make.reflection(
        number, root_cause=words or f"cause {task_id} {number}", confidence=0.75, source=source, category="assertion",
        flags=("short",), usage=Usage(calls=1, completion_tokens=9),
    )  # fmt: skip
    judged = {"passed": passed, "outcome": "pass" if passed else "timeout"}
    return make.attempt(LATE, judged=judged, task_id=task_id, number=number, reflection=reflection)


def run_folder(path: Path, *attempts: Attempt, feedback_source: str = "visible") -> Path:
    folder = RunFolder(path)
    folder.write_manifest(make.manifest(path.name, feedback_source=feedback_source))
    for attempt in attempts:
        folder.append("attempts.jsonl", attempt)
    folder.close()
    return path


def task(task_id: str) -> Task:
    return Task(task_id=task_id, prompt="p", entry_point="f")


MANY = [attempt(f"t/{n}", number) for n in range(6) for number in (1, 2)]


def test_a_drawn_reflection_is_unchanged_and_free(tmp_path: Path) -> None:
    reflection = Shuffled([run_folder(tmp_path / "run", *MANY)]).reflect(task("t/0"), attempt("t/0"), [])
    assert reflection.root_cause in {
        attempt.reflection.root_cause for attempt in MANY if attempt.reflection and attempt.task_id != "t/0"
    }
    assert (reflection.reflection_id, reflection.about_attempt) == ("t/0#1", 1)
    assert (reflection.source, reflection.category, reflection.confidence) == ("control:shuffled", "timeout", 0.75)
    assert (reflection.usage, reflection.flags) == (Usage(), ())


def test_no_reflection_is_drawn_twice_for_a_task_until_the_pool_is_exhausted(tmp_path: Path) -> None:
    same = [run_folder(tmp_path / name, *MANY) for name in ("one", "two")]
    shuffled = Shuffled(same)
    items = [shuffled.reflect(task("t/0"), attempt("t/0", number), []).root_cause for number in range(1, 11)]
    assert len(set(items)) == 10
    shuffled = Shuffled(run_folder(tmp_path / "run", attempt("t/1")))
    items = [shuffled.reflect(task("t/0"), attempt("t/0", number), []).root_cause for number in (1, 2, 3)]
    assert items == ["cause t/1 1"] * 3


def test_the_draw_goes_by_seed_and_not_by_the_order_of_the_file(tmp_path: Path) -> None:
    first, other = run_folder(tmp_path / "one", *MANY), run_folder(tmp_path / "two", *MANY[::-1])
    for seed in range(10):
        items = [Shuffled(pool, seed).reflect(task("t/0"), attempt("t/0"), []) for pool in (first, other)]
        assert items[0] == items[1]
    assert len({Shuffled(first, seed).reflect(task("t/0"), attempt("t/0"), []).root_cause for seed in range(20)}) > 2


def test_a_pool_on_the_same_task_only_is_an_error(tmp_path: Path) -> None:
    shuffled = Shuffled(run_folder(tmp_path / "run", attempt("t/0")))
    with pytest.raises(
        ValueError,
        match=r"reflector\.pool: got no .*t/0 \(attempt 2\) in .*run, expected at least one.*reflexion arm first",
    ):
        shuffled.reflect(task("t/0"), attempt("t/0", 2), [])


def test_a_pool_without_words_is_refused_before_the_run(tmp_path: Path) -> None:
    for pool, message in {
        tmp_path / "absent": "got no manifest.json, expected",
        run_folder(tmp_path / "empty"): "without a reflection by a model .*, expected at least one",
        run_folder(
            tmp_path / "rules", attempt("t/1", source="rules:index")
        ): "without a reflection by a model .*, expected at least one",
        run_folder(tmp_path / "oracle", attempt("t/1"), feedback_source="oracle"): "was shown hidden tests",
    }.items():
        with pytest.raises(ValueError, match=rf"reflector\.pool: .*{pool.name}.*{message}.*reflexion arm first"):
            Shuffled([pool])


def script(path: Path, words: str) -> str:
    reply = f"ROOT_CAUSE: {words}\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: return one\nCONFIDENCE: 0.5\n"
    rules = [
        {"when": "^My Python program failed", "scope": "conversation", "reply": reply},
        {"when": "", "reply": "\n    return None\n"},
    ]
    path.write_text(json.dumps(rules))
    return str(path)


def settings(path: Path, words: str, **more: object) -> dict[str, object]:
    return {
        "tracker": "none", "benchmark.limit": 2, "loop.max_attempts": 2, "model": "scripted",
        "model.path": script(path / f"{words}.json", words), "run_root": str(path / "runs"), **more,
    }  # fmt: skip


def words_of(run: Path) -> set[str]:
    attempts = RunFolder.existing(run).attempts.values()
    return {attempt.reflection.root_cause for history in attempts for attempt in history if attempt.reflection}


def test_the_pool_is_of_the_same_model_and_in_the_manifest(tmp_path: Path) -> None:
    sweep(settings(tmp_path, "pilot", experiment="reflexion"), quiet=True)
    finished = sweep(settings(tmp_path, "own", experiment=["reflexion_shuffled", "reflexion"]), quiet=True)
    assert [state.status for state in finished.states.values()] == ["done", "done"]
    shuffled, reflexion = finished.runs
    assert words_of(shuffled) == {"own"}
    assert list(RunFolder.existing(shuffled).manifest.provenance.pool) == [reflexion.name]


def test_the_pool_is_the_run_whose_config_differs_least(tmp_path: Path) -> None:
    grid = {"experiment": ["reflexion", "reflexion_shuffled"], "recall.omega": [0, 1]}
    finished = sweep(settings(tmp_path, "own", **grid), quiet=True)
    first, other, *shuffled = finished.runs
    assert [[*RunFolder.existing(run).manifest.provenance.pool] for run in shuffled] == [[first.name], [other.name]]


@pytest.mark.slow
def test_in_a_parallel_sweep_the_control_waits_for_its_pool(tmp_path: Path) -> None:
    overrides = lines(settings(tmp_path, "own", experiment=["reflexion_shuffled", "reflexion"]))
    overrides += ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    command = [sys.executable, "-m", "reflexion_lab", "run", "-m", *overrides]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert [state.status for state in Sweep.of(overrides).states.values()] == ["done", "done"]


@pytest.mark.slow
def test_runs_under_other_conditions_are_no_pool(tmp_path: Path) -> None:
    sweep(settings(tmp_path, "pilot", experiment="reflexion"), quiet=True)
    for more, message in (
        ({"model.path": script(tmp_path / "other.json", "other")}, "another model_fingerprint, reflector_fingerprint"),
        ({"feedback_source": "none"}, "another feedback_source"),
        ({"benchmark": "humaneval"}, "another benchmark_digest"),
        ({"seed": 1}, "without a finished run of arm reflexion at seed 1, expected such a run"),
    ):
        (state,) = sweep(
            settings(tmp_path, "pilot", experiment="reflexion_shuffled", **more), quiet=True
        ).states.values()
        assert state.status == "failed"
        assert message in state.problem


@pytest.mark.slow
def test_a_run_keeps_its_pool_and_restarts_if_it_changed(tmp_path: Path) -> None:
    both = settings(tmp_path, "own", experiment=["reflexion", "reflexion_shuffled"])
    reflexion, shuffled = sweep(both, quiet=True).runs
    again = sweep(both, quiet=True)
    assert [state.status for state in again.states.values()] == ["kept", "kept"]
    shutil.copytree(reflexion, reflexion.with_name("19990101-000000-000000-reflexion-basics-s0"))
    overrides = lines(both | {"experiment": "reflexion_shuffled", "resume": str(shuffled)})
    lab = assemble(compose(*overrides))
    lab.close()
    assert list(lab.folder.manifest.provenance.pool) == [reflexion.name]
    shutil.rmtree(reflexion.with_name("19990101-000000-000000-reflexion-basics-s0"))
    with (reflexion / "attempts.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(ConfigError, match=r"began with another reflector\.pool"):
        assemble(compose(*overrides))
    again = sweep(both, quiet=True)
    assert [state.status for state in again.states.values()] == ["kept", "done"]


POOLS = {
    "another task": ([attempt("t/0"), attempt("t/0", 2), attempt("t/1")], 1, {"cause t/1 1"}),
    "attempts of the number 1": (MANY, 1, {f"cause t/{n} 1" for n in range(1, 6)}),
    "attempts of the number 2": (MANY, 2, {f"cause t/{n} 2" for n in range(1, 6)}),
    "a model or its fallback, on failures": (
        [
            attempt("t/1", source="rules:assertion"),
            attempt("t/2", source="control:generic"),
            attempt("t/3", source="fallback:assertion", words="right"),
            attempt("t/4", passed=True),
        ],
        1,
        {"right"},
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_reflections_are_drawn_from(tmp_path: Path, name: str) -> None:
    attempts, number, causes = POOLS[name]
    pool = run_folder(tmp_path / "run", *attempts)
    drawn = {Shuffled(pool, seed).reflect(task("t/0"), attempt("t/0", number), []).root_cause for seed in range(50)}
    assert drawn == causes


def test_the_config_names_pool_and_seed_and_demands_a_pool(tmp_path: Path) -> None:
    pool = run_folder(tmp_path / "run", attempt("t/1"))
    part = build(compose("reflector=shuffled", f"reflector.pool=[{pool}]", "seed=5").reflector, "reflector")
    assert (part.seed, part.folders) == (5, (str(pool),))
    expected = r"reflector\.pool: got no folder, expected a run folder; run the reflexion arm first"
    with pytest.raises(ValueError, match=expected):
        build(compose("reflector=shuffled").reflector, "reflector")
