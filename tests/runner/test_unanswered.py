"""Loops that got no answer: when one is begun anew, when the run is given up, and what is written of it."""

import threading

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.agent.reflectors.fallback import WithFallback
from reflexion_lab.agent.reflectors.llm import LLMReflector
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.errors import Unanswered
from reflexion_lab.loop.reflexion import Reflexion
from reflexion_lab.loop.stop import FirstOf, MaxAttempts, Passed
from reflexion_lab.memory.episodic import EpisodicMemory
from reflexion_lab.memory.recall import Window
from reflexion_lab.records import Completion, Sampling
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import describe
from reflexion_lab.runner.runner import PATIENCE, DeferredTasks, Runner
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests

RIGHT, WRONG = (f"```python\ndef double(x):\n    return {value}\n```" for value in ("2 * x", "x"))


def silence(outcome="server_error", is_lasting=False):
    return Unanswered("nobody at home", outcome, is_lasting)


@pytest.fixture
def waiting(tmp_path):
    return DeferredTasks(RunFolder(tmp_path), limit=2)


def numbered(task, n):
    return [replace(task, task_id=f"own/{i}", prompt=f"{task.prompt}# number {i}\n") for i in range(n)]


# Patience


def test_tasks_are_kept_in_the_order_in_which_they_came_and_released_once(waiting, task):
    batch = numbered(task, 2)
    for one in reversed(batch):
        waiting.defer(one, silence())
    assert waiting.ready() == batch[::-1]
    assert waiting.ready() == []
    waiting.check()
    assert [one.task_id for one in waiting.folder.set_aside] == ["own/1", "own/0"]


def test_more_in_a_row_than_allowed_are_too_many_and_each_is_written_down(waiting, task):
    batch = numbered(task, 3)
    for one in batch[:2]:
        waiting.defer(one, silence())
    with pytest.raises(
        Unanswered, match=r"^3 loops in a row had no answer, so the run stops\. The last: nobody at home"
    ):
        waiting.defer(batch[2], silence())
    assert len(waiting.folder.set_aside) == 3


def test_an_answer_in_between_and_a_second_round_renew_the_patience(waiting, task):
    for one in numbered(task, 6):
        waiting.defer(one, silence())
        waiting.reset_failures()
    for one in waiting.ready()[:2]:
        waiting.defer(one, silence())
    waiting.ready()
    waiting.defer(task, silence())
    assert len(waiting.folder.set_aside) == 6 + 2 + 1


def test_what_lasts_is_raised_at_once(waiting, task):
    with pytest.raises(Unanswered, match="nobody at home"):
        waiting.defer(task, silence("key_refused", is_lasting=True))
    assert [one.outcome for one in waiting.folder.set_aside] == ["key_refused"]


def test_those_that_wait_are_counted_by_outcome_and_the_first_is_told(waiting, task):
    first = silence("rate_limited")
    first.add_note("while acting: task own/0, attempt 1")
    for one, problem in zip(numbered(task, 2), (first, silence("timeout")), strict=True):
        waiting.defer(one, problem)
    with pytest.raises(Unanswered) as caught:
        waiting.check()
    assert "2 tasks had no answer twice (rate_limited 1, timeout 1)" in str(caught.value)
    assert "nobody at home (while acting: task own/0, attempt 1)" in str(caught.value)
    assert caught.value.outcome == "rate_limited"


def test_many_threads_lose_none(tmp_path, task):
    waiting, batch = DeferredTasks(RunFolder(tmp_path), limit=1000), numbered(task, 64)
    threads = [threading.Thread(target=waiting.defer, args=(one, silence())) for one in batch]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.task_id for one in waiting.folder.set_aside) == sorted(one.task_id for one in batch)
    assert len(waiting.ready()) == 64


# The runner


class Flaky:
    """Says `reply`, but for calls about the tasks of `silent`, of which the first `times` have no answer."""

    fingerprint, slots, context = "flaky", 8, 0

    def __init__(self, reply, silent=(), times=1, cached=False, problem=silence):
        self.reply, self.problem, self.cached = reply, problem, cached
        self.left = {f"# number {number}\n": times for number in silent}
        self.asked = []
        self.lock = threading.Lock()

    def complete(self, messages, *, sampling, sample=0):
        text = messages[-1].content
        with self.lock:
            self.asked.append(text)
            about = next((name for name, left in self.left.items() if left and name in text + "\n"), None)
            if about:
                self.left[about] -= 1
                raise self.problem()
        return Completion(text=self.reply, model="flaky", cached=self.cached)


def runner(batch, sandbox, path, model, workers=1, reflector=None, attempts=1):
    folder = RunFolder(path)
    if not (path / "manifest.json").exists():
        config = {"arm": "test", "seed": 0, "feedback_source": "visible"}
        folder.write_manifest(describe(config, "own", "digest", len(batch), {"actor": model}, sandbox.layers))

    def loop():
        return Reflexion(
            actor=SingleShot(model, Sampling()),
            evaluator=UnitTests(sandbox),
            reflector=reflector or Rules(),
            memory=EpisodicMemory(Window(1)),
            stop=FirstOf(Passed(), MaxAttempts(attempts)),
        )

    return Runner(
        tasks=batch, loop=loop, judge=HiddenTests(sandbox), folder=folder, feedback_source="visible",
        workers=workers, quiet=True,
    )  # fmt: skip


def test_a_silent_task_comes_once_more_behind_all_others(task, sandbox, tmp_path):
    model = Flaky(RIGHT, silent=[1])
    made = runner(numbered(task, 4), sandbox, tmp_path, model)
    made.run()
    order = [text.split("# number ")[1][0] for text in model.asked]
    assert order == ["0", "1", "2", "3", "1"]
    assert list(made.folder.results) == ["own/0", "own/2", "own/3", "own/1"]
    assert [(one.task_id, one.outcome) for one in made.folder.set_aside] == [("own/1", "server_error")]
    assert "while acting: task own/1, attempt 1" in made.folder.set_aside[0].problem


def test_a_task_that_stays_silent_ends_the_run_when_all_others_have_ended(task, sandbox, tmp_path):
    made = runner(numbered(task, 4), sandbox, tmp_path, Flaky(RIGHT, silent=[0, 2], times=2))
    with pytest.raises(Unanswered, match="2 tasks had no answer twice"):
        made.run()
    assert set(made.folder.results) == {"own/1", "own/3"}
    again = runner(numbered(task, 4), sandbox, tmp_path, Flaky(RIGHT))
    again.run()
    assert len(again.folder.results) == 4
    assert len(again.folder.set_aside) == 4


def test_a_server_that_is_down_is_not_asked_for_every_task(task, sandbox, tmp_path):
    model = Flaky(RIGHT, silent=range(10), times=9)
    with pytest.raises(Unanswered, match="nobody at home"):
        runner(numbered(task, 10), sandbox, tmp_path, model).run()
    assert len(model.asked) == 1 + PATIENCE + 1


def test_a_server_that_answers_in_between_is_asked_for_every_task(task, sandbox, tmp_path):
    made = runner(numbered(task, 12), sandbox, tmp_path, Flaky(RIGHT, silent=range(0, 12, 3)))
    made.run()
    assert len(made.folder.set_aside) == 4 > 1 + PATIENCE
    assert len(made.folder.results) == 12


def test_what_the_cache_answers_does_not_speak_for_the_server(task, sandbox, tmp_path):
    model = Flaky(RIGHT, silent=range(0, 20, 2), times=9, cached=True)
    made = runner(numbered(task, 20), sandbox, tmp_path, model)
    with pytest.raises(Unanswered, match="nobody at home"):
        made.run()
    assert len(made.folder.set_aside) == 1 + PATIENCE + 1
    assert len(made.folder.results) == 1 + PATIENCE


def test_what_lasts_stops_the_run_at_the_first_call(task, sandbox, tmp_path):
    model = Flaky(RIGHT, silent=range(10), problem=lambda: silence("key_refused", is_lasting=True))
    with pytest.raises(Unanswered):
        runner(numbered(task, 10), sandbox, tmp_path, model).run()
    assert len(model.asked) == 1


def test_a_loop_that_breaks_off_at_its_reflection_counts_anew_and_no_rule_stands_in(task, sandbox, tmp_path):
    class Reflecting(Flaky):
        def complete(self, messages, *, sampling, sample=0):
            if "ROOT_CAUSE" in messages[-1].content:
                return super().complete(messages, sampling=sampling, sample=sample)
            return Completion(text=WRONG, model="flaky")

    words = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5\n"
    model = Reflecting(words, silent=[1])
    reflector = WithFallback(LLMReflector(model, Sampling()), Rules())
    made = runner(numbered(task, 3), sandbox, tmp_path, model, reflector=reflector, attempts=2)
    made.run()
    assert {name: len(loop) for name, loop in made.folder.attempts.items()} == dict.fromkeys(made.folder.results, 2)
    sources = {made.reflection.source for loop in made.folder.attempts.values() for made in loop}
    assert sources == {"llm"}
    assert "while reflecting: task own/1, attempt 1" in made.folder.set_aside[0].problem


def test_attempts_of_a_loop_that_was_broken_off_do_not_count(task, sandbox, tmp_path):
    class Second(ScriptedModel):
        """Wrong; silent at the third call, which is the second attempt at the second task."""

        def complete(self, messages, *, sampling, sample=0):
            if len(self.received) == 3 and not getattr(self, "was_silent", False):
                self.was_silent = True
                raise silence()
            return super().complete(messages, sampling=sampling, sample=sample)

    made = runner(numbered(task, 2), sandbox, tmp_path, Second(lambda messages: WRONG), attempts=2)
    made.run()
    assert (tmp_path / "attempts.jsonl").read_text().count("\n") == 5
    assert [len(loop) for loop in made.folder.attempts.values()] == [2, 2]
    assert len(made.folder.grades) == 4
