"""Five earlier systems' memories, each by one word: what the actor then reads."""

import json
import time

import msgspec
import pytest

from reflexion_lab.config import assemble, compose
from reflexion_lab.memory.reflection_files import ReflectionFiles
from reflexion_lab.records import Episode, Task
from reflexion_lab.stores.place import opened

REPLY = "```python\ndef f(x):\n    return None\n```"
RULES = [
    {
        "when": "^My Python program failed",
        "scope": "conversation",
        "reply": "ROOT_CAUSE: the sum of the list is never returned\nWHAT_WENT_WRONG: None came\n"
        "WHAT_TO_CHANGE: return the sum\nCONFIDENCE: 0.5\n",
    },
    {"when": "", "scope": "conversation", "reply": REPLY},
]
ABOUT = {
    "sum": "Return the sum of the list x of whole numbers",
    "total": "Return the sum of the list x of real numbers",
    "vowels": "Count how many vowels occur in that string",
}


@pytest.fixture
def run(tmp_path):
    """Carry out a preset over three tasks, one a round; returns the attempts by task, and the folder."""
    (tmp_path / "script.json").write_text(json.dumps(RULES))
    tasks = [
        Task(
            task_id=name,
            prompt=f'def f(x):\n    """{about}."""\n',
            entry_point="f",
            visible_tests=("assert f([1]) == 1", "assert f([1, 2]) == 3"),
            hidden_tests=("assert f([2]) == 2",),
        )
        for name, about in ABOUT.items()
    ]
    (tmp_path / "tasks.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(tasks))

    def carried_out(preset, *overrides):
        lab = assemble(
            compose(
                f"preset={preset}",
                "model=scripted",
                f"model.path={tmp_path / 'script.json'}",
                "actor=single_shot",
                "benchmark=jsonl",
                f"benchmark.load.path={tmp_path / 'tasks.jsonl'}",
                f"run_root={tmp_path / 'runs'}",
                "memory.shared.round_size=1",
                "tracker=none",
                "quiet=true",
                "cache.mode=off",
                *overrides,
            )
        )
        try:
            lab.runner.run()
        finally:
            lab.close()
        return lab.folder.attempts

    return carried_out


def read(attempt):
    return attempt.trajectory.messages[-1].content


def test_helix_shows_every_reflection_of_the_loop_similar_episodes_and_wisdom(run):
    made = run("helix")
    assert [len(attempts) for attempts in made.values()] == [3, 3, 3]
    own = [name.rsplit("-", 1)[1] for name in made["sum"][2].recalled]
    assert own == ["1", "2"]
    assert "at a similar task, which failed" in read(made["total"][0])
    assert "the sum of the list is never returned (seen 3 times in 1 task" in read(made["total"][0])


def test_bot_carries_score_issues_suggestions_summary_and_insights(run):
    first, second, _ = run("bot")["sum"]
    assert "Previous score" not in read(first)
    for said in ("Previous score: 0 of 100", "Issues: assert f([1]) == 1", "Suggestions: None", "Turns: 1, Tools: none",
                 "Key insights", "return the sum"):  # fmt: skip
        assert said in read(second)


def test_openagents_shows_three_reflections_and_keeps_them_for_thirty_days(run, tmp_path):
    day = 24 * 60 * 60
    store = opened(tmp_path / "runs" / "memory")
    for age in (29, 31):
        store.append(
            [
                Episode(
                    episode_id=f"ep-{age}",
                    agent_id="a",
                    task_id="t",
                    attempt_number=1,
                    code="",
                    test_results="",
                    reflection=None,
                    passed=True,
                    timestamp=time.time() - age * day,
                )
            ]
        )
    store.close()
    made = run("openagents", "loop.max_attempts=5")
    assert [name.rsplit("-", 1)[1] for name in made["sum"][4].recalled] == ["2", "3", "4"]
    kept = [episode.episode_id for episode in opened(tmp_path / "runs" / "memory").read(Episode)]
    assert kept[0] == "ep-29"
    assert "ep-31" not in kept
    assert len(kept) == 1 + 15


def test_jido_shows_mistakes_on_prompts_that_are_alike_enough(run):
    made = run("jido")
    assert made["sum"][0].recalled_mistakes == ()
    (mistake,) = made["total"][0].recalled_mistakes
    assert "/sum-" in mistake
    assert "Question: def f(x):" in read(made["total"][0])
    assert "Correction: none was found" in read(made["total"][0])
    assert made["vowels"][0].recalled_mistakes == ()


def test_ralph_shows_three_after_verdicts_of_several_tools_and_writes_a_file_for_each_attempt(run, tmp_path):
    made = run("ralph", "loop.max_attempts=5")["sum"]
    kept = ReflectionFiles(tmp_path / "runs" / "reflections")
    files = kept.read(next(loop for loop in kept.loops() if loop.endswith("%2Fsum")))
    assert [file.reflection for file in files] == [attempt.reflection for attempt in made]
    assert [file.in_context for file in files] == [(), (1,), (1, 2), (1, 2, 3), (2, 3, 4)]
    assert [attempt.memory.in_context for attempt in made] == [0, 1, 2, 3, 3]
    assert [attempt.memory.omega for attempt in made] == [3, 3, 3, 3, 3]
    assert set(made[0].evaluation.components) == {"tests", "types", "lint"}


def test_two_runs_leave_their_reflections_apart(run, tmp_path):
    run("ralph", "loop.max_attempts=3", "evaluator=unit_tests")
    run("ralph", "loop.max_attempts=1", "evaluator=unit_tests")
    kept = ReflectionFiles(tmp_path / "runs" / "reflections")
    assert sorted(len(kept.read(loop)) for loop in kept.loops()) == [1, 1, 1, 3, 3, 3]
