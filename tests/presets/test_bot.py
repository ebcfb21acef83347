"""What the bot's document promises, through the user's door."""

import time

import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.cli.main import main
from reflexion_lab.records import Episode
from reflexion_lab.storage.place import opened

SMALL = ("preset=bot", "model=simulated", "model.first=0", "model.repair=0", "benchmark.load.n=2", "tracker=none")


def prompts(run):
    return [[each.trajectory.messages[-1].content for each in run.attempts(task)] for task in sorted(run.task_ids)]


def stored(place="runs/memory"):
    return [*opened(place).read(Episode)]


@pytest.fixture
def bot(tmp_path, monkeypatch):
    """Runs the bot with a model whose programs all raise a ValueError; returns the run."""
    monkeypatch.chdir(tmp_path)
    return lambda *overrides: rl.run(*SMALL, *overrides, quiet=True)


def test_a_second_run_reads_the_session_that_the_first_one_stored(bot):
    first, second = bot(), bot()
    for (*_, last), (again, after, *_) in zip(prompts(first), prompts(second), strict=True):
        lines = [line for line in last.splitlines() if line.startswith(("Parts: ", "Previous trajectory: "))]
        assert len(lines) == 2
        assert {*lines, "Progress: no better than the attempt before"} < {*again.splitlines()}
        assert "Issues: assert " in again and again.count("Try the smallest input by hand first") == 1
        assert "Suggestions: Check what reaches the failing operation: `assert " in again
        assert "Progress: no better than the attempt before" in after  # than the last of the run before
    assert main(["bundle", str(second.path), "-o", "second.zip"]) == main(["replay", "second.zip"]) == 0


def test_the_prompt_has_score_parts_issues_progress_and_what_worked(bot):
    first, second, third = prompts(bot())[0]
    assert "Previous score" not in first
    for text in (
        "Previous score: 81 of 100\nParts: tests 0 %, task completion 100 %, code quality 40 %, efficiency 95 %\n",
        "Issues: ValueError in 2 of 2 checks\nSuggestions: Check what reaches", "Progress: N/A", "Turns: 1, Tools",
        "Attempt 1, score 81 of 100:\n", "What worked: the signature\nRoot cause: ", "Try the smallest input by hand",
    ):  # fmt: skip
        assert second.count(text) == 1, text
    assert "Progress: no better than the attempt before" in third and "Attempt 2, score 81 of 100:\n" in third
    (again, *_), *_ = prompts(bot())
    assert "attempt 3 (score 81 of 100, 1 run before, confidence 50 %)\n- What worked: the s" in again


def test_the_prompts_of_a_later_run_and_a_resumed_one_do_not_depend_on_the_clock(bot, monkeypatch):
    near, far = ("store.place=near", "benchmark.limit=1"), ("store.place=far", "benchmark.limit=1")
    (run, _), records = (bot(*near), bot(*far)), stored("near")
    opened("far").append([replace(episode, timestamp=1.7e18) for episode in stored("far")])
    assert prompts(bot(*near)) == prompts(bot(*far))
    assert main(["memory", "show", "--store", "far"]) == 0
    monkeypatch.setattr(time, "time", lambda: 2e9)
    bot(*near, f"resume={run.path}")
    assert stored("near")[: len(records)] == records


def test_progress_is_kept_from_run_to_run_of_one_attempt_each_and_by_an_import_until_it_is_pruned(bot):
    *runs, third = [bot("loop.max_attempts=1", "benchmark.limit=1") for _ in range(3)]
    assert all("Progress: no better than the attempt before" in prompt for (prompt,) in prompts(third))
    assert main(["memory", "import", *(str(run.path) for run in (*runs, third)), "--store", "copy"]) == 0
    copy, kept = ([replace(each, timestamp=0) for each in stored(*place)] for place in (("copy",), ()))
    assert copy == kept
    assert main(["memory", "prune", "--days", "0", "--store", "copy"]) == 0
    assert stored("copy") == []


def test_episodes_of_the_run_before_are_not_the_loops_own(bot):
    _, second = [bot("recall=window_then_similar", "benchmark.limit=1", "loop.max_attempts=2") for _ in range(2)]
    loop = second.attempts(*second.task_ids)
    assert [(attempt.memory.own, len(attempt.recalled)) for attempt in loop] == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("words", "strategy"), [("", "chain_of_thought"), ("actor=single_shot", "single_shot"), ("actor=react", "react")]
)
def test_the_actor_thinks_step_by_step_unless_another_is_chosen(bot, words, strategy):
    run = bot(*words.split(), "benchmark.limit=1", "loop.max_attempts=1")
    (attempt,) = run.attempts(*run.task_ids)
    assert attempt.trajectory.strategy == strategy
    base = rl.compose("preset=bot", *words.split()).actor  # for SmolLM2
    assert base._target_.split(".")[-2] == strategy
    assert words or base.style == "continuation"
