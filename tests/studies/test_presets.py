"""Presets of five earlier systems: prompts, reflections and memory."""

import json
import time

import msgspec
import pytest

from reflexion_lab.memory.reflection_files import ReflectionFiles
from reflexion_lab.records import Episode, Task
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.compose import CONF, compose
from reflexion_lab.storage.place import opened
from tests.builders import episode
from tests.studies.small_runs import run_lab, script

REPLY = "```python\ndef f(x):\n    return None\n```"
SERVICE = {
    "category": "approach_flaw", "analysis": "the sum of the list is never returned", "suggestion": "return the sum",
    "actionItems": ["add them up", "return it"], "lessons": ["Try it by hand"], "confidence": 0.5,
}  # fmt: skip
SESSION = {
    "what_worked": "the signature", "what_failed": "None came", "root_cause": "the sum of the list is never returned",
    "strategy_change": "return the sum", "key_insight": "a function without return gives None",
}  # fmt: skip
CRITIQUE = {"severity": 0.8, "issues": ["nothing is returned"], "suggestions": ["return the sum"]}
RULES = [
    {"when": '"actionItems"', "scope": "conversation", "reply": json.dumps(SERVICE)},
    {"when": '"strategy_change"', "scope": "conversation", "reply": json.dumps(SESSION)},
    {
        "when": "^My Python program failed",
        "scope": "conversation",
        "reply": "ROOT_CAUSE: the sum of the list is never returned\nWHAT_WENT_WRONG: None came\n"
        "WHAT_TO_CHANGE: return the sum\nACTION_ITEMS: add them up\nLESSONS: Try it by hand\nCONFIDENCE: 0.5\n",
    },
    {"when": "SEVERITY", "scope": "conversation", "reply": json.dumps(CRITIQUE)},
    {"when": "Total", "scope": "conversation", "reply": "```python\ndef f(x):\n    return sum(x)\n```"},
    {"when": "", "scope": "conversation", "reply": REPLY},
]
PRESETS = sorted(path.stem for path in (CONF / "preset").glob("*.yaml"))
ABOUT = {
    "sum": "Return the sum of the list x of whole numbers",
    "total": "Return the sum of the list x of real numbers",
    "vowels": "Count how many vowels occur in that string",
}


@pytest.fixture
def run(tmp_path):
    """Run a preset over three tasks, one per round; returns the attempts by task."""
    script(tmp_path, RULES)
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

    def run_preset(preset, *overrides):
        has_inner_loop = preset == "jido" and "actor=single_shot" not in overrides
        actor = ("actor@actor.generator=single_shot", "reviser=llm") if has_inner_loop else ("actor=single_shot",)
        small = ("model=scripted", "benchmark=jsonl", "tracker=none", "quiet=true", "cache.mode=off")
        where = (
            f"model.path={tmp_path / 'script.json'}",
            f"benchmark.load.path={tmp_path / 'tasks.jsonl'}",
            f"run_root={tmp_path / 'runs'}",
        )
        cfg = compose(f"preset={preset}", *actor, *small, *where, "memory.shared.round_size=1", *overrides)
        return run_lab(cfg).folder.attempts

    return run_preset


def read(attempt):
    return attempt.trajectory.messages[-1].content


@pytest.mark.parametrize("lines", [60, *(pytest.param(lines, marks=pytest.mark.slow) for lines in (5, 20, 150))])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_retry_reads_what_to_change_after_any_program(run, tmp_path, preset, lines):
    body = "".join(f"    total_of_all_{n} = {n} * 3 + 1  # the {n}th step\n" for n in range(lines))
    long = {**RULES[-1], "reply": f"```python\ndef f(x):\n{body}    return None\n```"}
    script(tmp_path, [*RULES[:-2], long])
    first, second, *_ = run(preset, "benchmark.limit=1")["sum"]
    assert "total_of_all_0 = 0" in first.trajectory.solution
    assert "return the sum" not in read(first)
    assert "return the sum" in read(second)
    assert second.recalled


def test_helix_shows_reflections_similar_episodes_and_wisdom(run):
    attempts = run("helix")
    assert [len(loop) for loop in attempts.values()] == [3, 3, 3]
    assert all(attempt.reflection.source == "llm" for loop in attempts.values() for attempt in loop)
    own = [name.rsplit("-", 1)[1] for name in attempts["sum"][2].recalled]
    assert own == ["1", "2"]
    assert "at a similar task, which failed" in read(attempts["total"][0])
    assert "the sum of the list is never returned (seen 3 times in 1 task" in read(attempts["total"][0])


def test_helix_falls_back_to_rules_with_less_confidence(run, tmp_path):
    script(tmp_path, RULES[-1:])
    first, second, third = run("helix", "benchmark.limit=1")["sum"]
    assert [attempt.reflection.source for attempt in (first, second, third)] == ["fallback:assertion"] * 3
    assert [attempt.reflection.confidence for attempt in (first, second, third)] == [0.5, 0.45, 0.45]
    assert "not enough" in third.reflection.what_went_wrong


def test_the_weights_of_the_bots_score_are_parameters(run):
    weights = "{task_completion: 0.5, code_quality: 0.35, efficiency: 0.15}"
    (first, *_) = run("bot", f"evaluator.trajectory={weights}", "evaluator.verdict_weight=0.5")["sum"]
    assert first.evaluation.reward == pytest.approx(0.5 * 0 + 0.5 * 0.99)
    assert first.evaluation.outcome == "fail"


def test_bot_reflects_on_what_worked_too_with_an_insight(run, tmp_path):
    rules = [RULES[1], {"when": "", "scope": "conversation", "reply": "```python\ndef f(x):\n    return sum(x)\n```"}]
    script(tmp_path, rules)
    (attempt,) = run("bot", "benchmark.limit=1")["sum"]
    assert attempt.evaluation.passed
    assert (attempt.reflection.what_worked, attempt.reflection.confidence) == ("the signature", 0.5)
    assert attempt.reflection.key_insight == "a function without return gives None"


@pytest.mark.parametrize(("name", "place"), [("jsonl", "memory"), ("sqlite", "memory.sqlite")])
def test_openagents_shows_three_reflections_of_thirty_days(run, tmp_path, name, place):
    day = 24 * 60 * 60
    store = opened(tmp_path / "runs" / place)
    for age in (29, 31):
        store.append([episode(episode_id=f"ep-{age}", timestamp=time.time() - age * day)])
    store.close()
    attempts = run("openagents", f"store={name}", "loop.max_attempts=5", "loop.stuck_after=null")
    assert [name.rsplit("-", 1)[1] for name in attempts["sum"][4].recalled] == ["2", "3", "4"]
    assert attempts["sum"][0].reflection.category == "approach_flaw"
    assert attempts["sum"][0].reflection.action_items == ("add them up", "return it")
    texts = ("the sum of the list is never returned", "return the sum", "add them up", "return it", "Try it by hand")
    for text in texts:
        assert read(attempts["sum"][1]).count(text) == 1, text
    ids = [record.episode_id for record in opened(tmp_path / "runs" / place).read(Episode)]
    assert ids[0] == "ep-29"
    assert "ep-31" not in ids
    assert len(ids) == 1 + 15


def test_jido_revises_and_shows_mistakes_on_similar_prompts(run):
    attempts = run("jido")
    (sum_, *_), (total, *_), (vowels, *_) = attempts.values()
    first = sum_.trajectory
    assert (first.strategy, first.ended) == ("critique_revise", "minimal_change")
    assert [step.critique.severity for step in first.steps if step.critique] == [0.8] * len(first.steps)
    assert first.others["critic"].calls == len(first.steps)
    assert sum_.recalled_mistakes == vowels.recalled_mistakes == ()
    (mistake,) = total.recalled_mistakes
    assert "/sum-" in mistake
    assert "Question: def f(x):" in read(total)
    assert "Correction: none was found" in read(total)
    critique = total.trajectory.steps[0].critique.messages[0].content
    for text in ("Mistakes on similar tasks", "got None, expected 1", "Issue: nothing is returned"):
        assert text in critique


def test_jido_recalls_mistakes_of_an_earlier_run_on_the_same_prompt(run):
    run("jido", "benchmark.limit=1")
    (mistake,) = run("jido", "benchmark.limit=1")["sum"][0].recalled_mistakes
    assert "/sum-" in mistake


def test_jido_counts_numbers_as_words():
    retriever = build(compose("preset=jido").retriever, "retriever")
    retriever.add(["Calculate 15 * 23", "Calculate 99 * 98"])
    (nearest, *others) = retriever.rank("What is 15 * 23?", 2)
    assert (nearest.number, round(nearest.score, 3)) == (0, 0.667)
    assert all(hit.score == 0 for hit in others)


def test_jido_composes_with_another_actor_and_says_where_it_fits(run):
    with pytest.warns(RuntimeWarning, match=r"put it inside by actor@actor\.generator=…"):
        first = run("jido", "actor=single_shot", "benchmark.limit=1")["sum"][0]
    assert first.trajectory.strategy != "critique_revise"


def test_helix_begins_with_the_code_that_the_task_brings(run, tmp_path):
    rows = [msgspec.json.decode(line) for line in (tmp_path / "tasks.jsonl").read_bytes().splitlines()]
    initial_code = "def f(x):\n    return x[0]\n"
    (tmp_path / "tasks.jsonl").write_bytes(
        msgspec.json.Encoder().encode_lines([rows[1], {**rows[0], "initial_code": initial_code}])
    )
    first, second, _ = run("helix")["sum"]
    assert first.recalled == () != first.trajectory.left_out
    assert (first.trajectory.solution, first.trajectory.strategy) == (initial_code, "given")
    assert first.usage["actor"].calls == 0
    assert first.evaluation.reward == 0.5
    assert "return x[0]" in read(second)


@pytest.mark.parametrize(("right", "reflected"), [(3, False), (2, True)])
def test_jido_reflects_only_below_a_score_of_seven_tenths(run, tmp_path, right, reflected):

    task = Task(
        task_id="sum",
        prompt='def f(x):\n    """Sum."""\n',
        entry_point="f",
        visible_tests=tuple(f"assert f([1]) == {None if n < right else 1}" for n in range(4)),
        hidden_tests=("assert f([2]) == 2",),
    )
    (tmp_path / "tasks.jsonl").write_bytes(msgspec.json.encode(task))
    (attempt,) = run("jido", "loop.max_attempts=1")["sum"]
    assert attempt.evaluation.reward == right / 4
    assert (attempt.reflection is not None) == reflected


def test_ralph_shows_three_reflections_and_writes_each_to_a_file(run, tmp_path):
    attempts = run("ralph", "loop.max_attempts=5", "loop.stuck_after=null")["sum"]
    files = ReflectionFiles(tmp_path / "runs" / "reflections")
    written = files.read(next(loop for loop in files.loops() if loop.endswith("%2Fsum")))
    assert [file.reflection.statements for file in written] == [a.reflection.statements for a in attempts]
    windows = [file.memory_metadata.reflections_in_context for file in written]
    assert windows == [(0,), (0, 1), (0, 1, 2), (1, 2, 3), (2, 3, 4)]
    assert [file.self_reflection.related_reflections for file in written] == [(), *windows[:-1]]
    assert [attempt.memory.in_context for attempt in attempts] == [0, 1, 2, 3, 3]
    assert [attempt.memory.omega for attempt in attempts] == [3, 3, 3, 3, 3]
    assert set(attempts[0].evaluation.components) == {"tests", "types", "lint"}


def test_ralph_requests_a_poor_reflection_again_and_pays_for_both(run):
    first = run("ralph", "benchmark.limit=1", "loop.max_attempts=1", "evaluator=unit_tests")["sum"][0]
    assert first.reflection.usage.calls == 2
    assert "low_confidence" not in first.reflection.flags
    assert {"short", "no_credit"} & set(first.reflection.flags)


def test_two_runs_leave_their_reflections_apart(run, tmp_path):
    run("ralph", "loop.max_attempts=3", "evaluator=unit_tests")
    run("ralph", "loop.max_attempts=1", "evaluator=unit_tests")
    files = ReflectionFiles(tmp_path / "runs" / "reflections")
    assert sorted(len(files.read(loop)) for loop in files.loops()) == [1, 1, 1, 3, 3, 3]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.slow
def test_a_preset_runs_without_a_store(run, preset):
    assert len(run(preset, "store=none", "benchmark.limit=1")["sum"]) == 3
