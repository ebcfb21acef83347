from __future__ import annotations

from pathlib import Path

import pytest

from reflexion_lab.config import compose
from reflexion_lab.parts import instantiate, wire
from reflexion_lab.records import (
    Attempt,
    Check,
    Evaluation,
    Manifest,
    MemoryState,
    Reflection,
    Task,
    Trajectory,
    Usage,
)
from reflexion_lab.reflectors.shuffled import Shuffled
from reflexion_lab.run_folder import RunFolder

LATE = Check(name="assert f() == 1", outcome="timeout")


def attempt(task_id: str, number: int = 1, source: str = "llm", words: str = "", passed: bool = False) -> Attempt:
    said = Reflection(
        reflection_id=f"{task_id}#{number}",
        about_attempt=number,
        root_cause=words or f"cause {task_id} {number}",
        what_went_wrong="w",
        what_to_change="c",
        confidence=0.75,
        source=source,
        category="assertion",
        flags=("short",),
        usage=Usage(calls=1, completion_tokens=9),
    )
    return Attempt(
        task_id=task_id,
        number=number,
        recalled=(),
        trajectory=Trajectory(solution="x", strategy="s"),
        evaluation=Evaluation(passed=passed, outcome="pass" if passed else "timeout", reward=0.0, checks=(LATE,)),
        reflection=said,
        memory=MemoryState(capacity=1, size=0, in_context=0, total=0),
    )


def run_folder(path: Path, *attempts: Attempt, feedback_source: str = "visible") -> Path:
    folder = RunFolder(path)
    folder.write_manifest(
        Manifest(
            run_id=path.name,
            created_at="",
            seed=0,
            config={},
            config_digest="",
            git_commit="",
            dirty=False,
            package_versions={},
            benchmark="b",
            benchmark_digest="",
            n_expected=1,
            prompt_digests={},
            model_fingerprint="",
            slots=1,
            feedback_source=feedback_source,
            isolation=(),
        )
    )
    for one in attempts:
        folder.append("attempts.jsonl", one)
    folder.close()
    return path


def task(task_id: str) -> Task:
    return Task(task_id=task_id, prompt="p", entry_point="f")


MANY = [attempt(f"t/{n}", number) for n in range(6) for number in (1, 2)]


def test_another_tasks_words_are_told_unchanged_and_cost_nothing(tmp_path: Path) -> None:
    said = Shuffled([run_folder(tmp_path / "run", *MANY)]).reflect(task("t/0"), attempt("t/0"), [])
    assert said.root_cause in {one.reflection.root_cause for one in MANY if one.reflection and one.task_id != "t/0"}
    assert (said.reflection_id, said.about_attempt) == ("t/0#1", 1)
    assert (said.source, said.category, said.confidence) == ("control:shuffled", "timeout", 0.75)
    assert (said.usage, said.flags) == (Usage(), ())


def test_words_on_the_task_at_hand_are_never_drawn(tmp_path: Path) -> None:
    pool = run_folder(tmp_path / "run", attempt("t/0"), attempt("t/0", 2), attempt("t/1"))
    for seed in range(20):
        assert Shuffled(pool, seed).reflect(task("t/0"), attempt("t/0"), []).root_cause == "cause t/1 1"


@pytest.mark.parametrize("number", [1, 2])
def test_words_on_attempts_of_the_same_number_come_first(tmp_path: Path, number: int) -> None:
    pool = run_folder(tmp_path / "run", *MANY)
    for seed in range(20):
        said = Shuffled(pool, seed).reflect(task("t/0"), attempt("t/0", number), [])
        assert said.root_cause.endswith(f" {number}")


def test_nothing_is_told_twice_on_one_task(tmp_path: Path) -> None:
    same = [run_folder(tmp_path / name, *MANY) for name in ("one", "two")]
    shuffled = Shuffled(same)
    told = [shuffled.reflect(task("t/0"), attempt("t/0", number), []).root_cause for number in range(1, 11)]
    assert len(set(told)) == 10


def test_the_draw_goes_by_seed_and_not_by_the_order_of_the_file(tmp_path: Path) -> None:
    one, other = run_folder(tmp_path / "one", *MANY), run_folder(tmp_path / "two", *MANY[::-1])
    for seed in range(10):
        drawn = [Shuffled(pool, seed).reflect(task("t/0"), attempt("t/0"), []) for pool in (one, other)]
        assert drawn[0] == drawn[1]
    assert len({Shuffled(one, seed).reflect(task("t/0"), attempt("t/0"), []).root_cause for seed in range(20)}) > 2


def test_only_words_of_a_model_or_its_fallback_on_failures_are_drawn(tmp_path: Path) -> None:
    pool = run_folder(
        tmp_path / "run",
        attempt("t/1", source="rules:assertion"),
        attempt("t/2", source="control:generic"),
        attempt("t/3", source="fallback:assertion", words="right"),
        attempt("t/4", passed=True),
    )
    for seed in range(10):
        assert Shuffled(pool, seed).reflect(task("t/0"), attempt("t/0"), []).root_cause == "right"


def test_a_pool_that_is_used_up_tells_its_words_again_and_costs_no_attempt(tmp_path: Path) -> None:
    shuffled = Shuffled(run_folder(tmp_path / "run", attempt("t/1")))
    told = [shuffled.reflect(task("t/0"), attempt("t/0", number), []).root_cause for number in (1, 2, 3)]
    assert told == ["cause t/1 1"] * 3


def test_a_pool_on_this_very_task_alone_is_an_error_that_names_it(tmp_path: Path) -> None:
    shuffled = Shuffled(run_folder(tmp_path / "run", attempt("t/0")))
    with pytest.raises(ValueError, match=r"reflector\.pool: .*run.*t/0 \(attempt 2\).*reflexion arm first"):
        shuffled.reflect(task("t/0"), attempt("t/0", 2), [])


def test_a_pool_without_words_is_refused_before_the_run(tmp_path: Path) -> None:
    for pool, said in {
        tmp_path / "absent": "no manifest.json found",
        run_folder(tmp_path / "empty"): "no reflection by a model",
        run_folder(tmp_path / "rules", attempt("t/1", source="rules:index")): "no reflection by a model",
        run_folder(tmp_path / "oracle", attempt("t/1"), feedback_source="oracle"): "about hidden tests",
    }.items():
        with pytest.raises(ValueError, match=rf"reflector\.pool: .*{pool.name}.*{said}.*reflexion arm first"):
            Shuffled([pool])
    with pytest.raises(ValueError, match=r"reflector\.pool: no folder"):
        Shuffled([])


def test_the_config_names_pool_and_seed(tmp_path: Path) -> None:
    pool = run_folder(tmp_path / "run", attempt("t/1"))
    made = wire(instantiate(compose("reflector=shuffled", f"reflector.pool=[{pool}]", "seed=5").reflector), {})
    assert made.seed == 5
    assert made.folders == (str(pool),)


def test_the_config_demands_a_pool() -> None:
    with pytest.raises(ValueError, match=r"reflector\.pool: no folder found; run the reflexion arm first"):
        wire(instantiate(compose("reflector=shuffled").reflector), {})
