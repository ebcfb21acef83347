from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.records import Attempt, Critique, Message, Step, Usage
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking.traces import AFTER, Trace, drawn, traces

Run = Callable[..., Path]
BEGAN = 1_740_823_200_000_000_000


def log_of(path: Path) -> Log:
    return Log.read(RunFolder.existing(path))


def changed(log: Log, attempt: Attempt) -> Log:
    return replace(log, attempts={attempt.task_id: [attempt]}, results={})


def found(log: Log, tasks: Sequence[str]) -> list[Trace]:
    return list(traces(log, tasks, BEGAN))


def timed(attempt: Attempt, acted: float, evaluated: float, reflected: float) -> Attempt:
    assert attempt.reflection
    return replace(
        attempt,
        trajectory=replace(attempt.trajectory, usage=replace(attempt.trajectory.usage, seconds=acted)),
        evaluation=replace(attempt.evaluation, seconds=evaluated),
        reflection=replace(attempt.reflection, usage=replace(attempt.reflection.usage, seconds=reflected)),
    )


def test_an_attempt_is_actor_evaluator_and_reflector(run: Run) -> None:
    one, two, last = found(log_of(run(solved_at=(3,), n_expected=1)), ["t/0"])
    assert [inner.name for inner in one.span.inner] == ["actor", "evaluator", "reflector"]
    assert [inner.name for inner in last.span.inner] == ["actor", "evaluator"]  # nothing to reflect on
    assert (one.tags["attempt"], two.tags["attempt"], last.tags["attempt"]) == ("1", "2", "3")


def test_steps_follow_each_other_without_a_gap(run: Run) -> None:
    log = log_of(run(solved_at=(0,), n_expected=1))
    log = changed(log, timed(log.attempts["t/0"][0], 1.0, 0.25, 0.5))
    (trace,) = found(log, ["t/0"])
    times = [(placed.began - BEGAN, placed.began - BEGAN + placed.span.lasted) for placed in trace.placed]
    assert times == [(0, 1_750_000_000), (0, 10**9), (10**9, 1_250_000_000), (1_250_000_000, 1_750_000_000)]
    assert [placed.parent for placed in trace.placed] == [None, 0, 0, 0]


def test_turns_of_an_actor_are_within_it_and_cost_is_counted_once(run: Run) -> None:
    log = log_of(run(solved_at=(1,), n_expected=1))
    attempt = log.attempts["t/0"][0]
    own, critics = Usage(calls=1, prompt_tokens=5, completion_tokens=2, seconds=1.0), Usage(calls=1, prompt_tokens=3)
    critique = Critique(severity=0.5, issues=("off by one",), source="llm", usage=critics)
    step = Step(action="run_tests", observation="boom", messages=(Message(role="user", content="go"),), usage=own)
    steps = (step, replace(step, critique=critique))
    trajectory = replace(attempt.trajectory, steps=steps, usage=own + own, others={"critic": critics})
    (trace,) = found(changed(log, replace(attempt, trajectory=trajectory)), ["t/0"])
    actor = trace.span.inner[0]
    assert [inner.name for inner in actor.inner] == ["step 1: run_tests", "step 2: run_tests"]
    assert sum((placed.span.usage for placed in trace.placed), Usage()) == own + own + critics
    assert json.loads(actor.inner[0].inputs)["messages"] == [{"role": "user", "content": "go"}]
    assert json.loads(actor.inner[1].outputs)["critique"]["issues"] == ["off by one"]
    assert actor.lasted == 2 * 10**9


def test_the_hidden_verdict_is_a_tag_and_nowhere_in_the_spans(run: Run) -> None:
    log = log_of(run(solved_at=(0,), n_expected=1))
    grades = {key: replace(grade, outcome="hidden-word") for key, grade in log.grades.items()}
    for trace in found(replace(log, grades=grades), ["t/0"]):
        assert trace.tags[AFTER] == "hidden-word"
        assert "hidden-word" not in "".join(placed.span.inputs + placed.span.outputs for placed in trace.placed)


def test_prompt_reply_and_feedback_are_there_word_for_word(run: Run) -> None:
    log = log_of(run(solved_at=(0,), n_expected=1))
    attempt = log.attempts["t/0"][0]
    said = (Message(role="user", content="Write ‘f’\nnow"),)
    trajectory = replace(attempt.trajectory, messages=said, reply="def f(): …")
    evaluation = replace(attempt.evaluation, feedback="f(1) was 2")
    (trace,) = found(changed(log, replace(attempt, trajectory=trajectory, evaluation=evaluation)), ["t/0"])
    actor, evaluator, reflector = trace.span.inner
    assert json.loads(actor.inputs)["messages"][0]["content"] == "Write ‘f’\nnow"
    assert json.loads(actor.outputs)["reply"] == "def f(): …"
    assert json.loads(evaluator.outputs)["feedback"] == json.loads(reflector.inputs)["feedback"] == "f(1) was 2"


def test_no_log_in_of_an_address_is_in_a_trace(run: Run) -> None:
    log = log_of(run(solved_at=(0,), n_expected=1))
    attempt = log.attempts["t/0"][0]
    trajectory = replace(attempt.trajectory, reply="see http://someone:hunter2@host:8000/v1")
    (trace,) = found(changed(log, replace(attempt, trajectory=trajectory)), ["t/0"])
    text = "".join(placed.span.inputs + placed.span.outputs for placed in trace.placed)
    assert "http://host:8000/v1" in text
    assert "hunter2" not in text + "".join(trace.tags.values())


def test_a_greater_draw_holds_every_smaller_one() -> None:
    tasks = [f"t/{number}" for number in range(40)]
    draws = [drawn(tasks, share, seed=3) for share in (0.0, 0.1, 0.5, 1.0)]
    assert [len(draw) for draw in draws] == [0, 4, 20, 40]
    assert all(set(less) <= set(more) for less, more in pairwise(draws))
    assert len(drawn(tasks, 7, seed=3)) == 7
    assert len(drawn(tasks, 0.001, seed=3)) == 1


def test_the_draw_is_that_of_its_seed_whatever_the_order() -> None:
    tasks = [f"t/{number}" for number in range(40)]
    assert drawn(tasks, 0.2, seed=1) == drawn(tasks[::-1], 0.2, seed=1)
    assert drawn(tasks, 0.2, seed=1) != drawn(tasks, 0.2, seed=2)
