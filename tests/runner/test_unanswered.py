"""Loops that got no answer: when one is restarted, when the run stops, and what is recorded."""

import threading

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.agent.reflectors.fallback import WithFallback
from reflexion_lab.agent.reflectors.llm import LLMReflector
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.errors import Unanswered
from reflexion_lab.records import Completion, Sampling
from reflexion_lab.runner.runner import PATIENCE, SetAsideTasks
from tests.builders import runner

RIGHT, WRONG = (f"```python\ndef double(x):\n    return {value}\n```" for value in ("2 * x", "x"))


def silence(outcome="server_error", is_lasting=False):
    return Unanswered("nobody at home", outcome, is_lasting)


@pytest.fixture
def aside(folder):
    return SetAsideTasks(folder, limit=2)


def numbered(task, n):
    return [replace(task, task_id=f"own/{i}", prompt=f"{task.prompt}# number {i}\n") for i in range(n)]


# Patience


def test_tasks_set_aside_keep_their_order_and_are_ready_once(aside, task):
    batch = numbered(task, 2)
    for item in reversed(batch):
        aside.add(item, silence())
    assert aside.ready() == batch[::-1]
    assert aside.ready() == []
    aside.check()
    assert [item.task_id for item in aside.folder.set_aside] == ["own/1", "own/0"]


def test_too_many_failures_in_a_row_stop_and_all_are_recorded(aside, task):
    batch = numbered(task, 3)
    for item in batch[:2]:
        aside.add(item, silence())
    with pytest.raises(
        Unanswered, match=r"^3 loops in a row had no answer, so the run stops\. The last: nobody at home"
    ):
        aside.add(batch[2], silence())
    assert len(aside.folder.set_aside) == 3


def test_an_answer_and_a_second_round_reset_the_failures(aside, task):
    for item in numbered(task, 6):
        aside.add(item, silence())
        aside.reset_failures()
    for item in aside.ready()[:2]:
        aside.add(item, silence())
    aside.ready()
    aside.add(task, silence())
    assert len(aside.folder.set_aside) == 6 + 2 + 1


def test_a_lasting_problem_is_raised_at_once(aside, task):
    with pytest.raises(Unanswered, match="nobody at home"):
        aside.add(task, silence("key_refused", is_lasting=True))
    assert [item.outcome for item in aside.folder.set_aside] == ["key_refused"]


def test_unanswered_tasks_are_counted_by_outcome(aside, task):
    first = silence("rate_limited")
    first.add_note("while acting: task own/0, attempt 1")
    for item, problem in zip(numbered(task, 2), (first, silence("timeout")), strict=True):
        aside.add(item, problem)
    with pytest.raises(Unanswered) as caught:
        aside.check()
    assert "2 tasks got no answer in two tries (rate_limited 1, timeout 1)" in str(caught.value)
    assert "nobody at home (while acting: task own/0, attempt 1)" in str(caught.value)
    assert caught.value.outcome == "rate_limited"


def test_many_threads_lose_none(folder, task):
    aside, batch = SetAsideTasks(folder, limit=1000), numbered(task, 64)
    threads = [threading.Thread(target=aside.add, args=(item, silence())) for item in batch]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(item.task_id for item in aside.folder.set_aside) == sorted(item.task_id for item in batch)
    assert len(aside.ready()) == 64


# The runner


class Flaky:
    """Says `reply`, but for calls about the tasks of `silent`, of which the first `times` have no answer."""

    fingerprint, slots, context = "flaky", 8, 0

    def __init__(self, reply, silent=(), times=1, cached=False, problem=silence):
        self.reply, self.problem, self.cached = reply, problem, cached
        self.left = {f"# number {number}\n": times for number in silent}
        self.prompts = []
        self.lock = threading.Lock()

    def complete(self, messages, *, sampling, sample=0):
        text = messages[-1].content
        with self.lock:
            self.prompts.append(text)
            about = next((name for name, left in self.left.items() if left and name in text + "\n"), None)
            if about:
                self.left[about] -= 1
                raise self.problem()
        return Completion(text=self.reply, model="flaky", cached=self.cached)


def test_an_unanswered_task_is_repeated_after_all_others(task, sandbox, folder):
    model = Flaky(RIGHT, silent=[1])
    run = runner(numbered(task, 4), sandbox, folder, model, attempts=1)
    run.run()
    order = [text.split("# number ")[1][0] for text in model.prompts]
    assert order == ["0", "1", "2", "3", "1"]
    assert list(folder.results) == ["own/0", "own/2", "own/3", "own/1"]
    assert [(item.task_id, item.outcome) for item in folder.set_aside] == [("own/1", "server_error")]
    assert "while acting: task own/1, attempt 1" in folder.set_aside[0].problem


def test_a_task_unanswered_twice_ends_the_run_after_the_others(task, sandbox, folder):
    run = runner(numbered(task, 4), sandbox, folder, Flaky(RIGHT, silent=[0, 2], times=2), attempts=1)
    with pytest.raises(Unanswered, match="2 tasks got no answer in two tries"):
        run.run()
    assert set(folder.results) == {"own/1", "own/3"}
    runner(numbered(task, 4), sandbox, folder, Flaky(RIGHT), attempts=1).run()
    assert len(folder.results) == 4
    assert len(folder.set_aside) == 4


LASTING = {"problem": lambda: silence("key_refused", is_lasting=True)}


@pytest.mark.parametrize(
    ("fault", "asked"), [({"times": 9}, 1 + PATIENCE + 1), (LASTING, 1)], ids=["down", "a lasting problem"]
)
def test_a_server_that_does_not_answer_is_not_asked_for_every_task(task, sandbox, folder, fault, asked):
    model = Flaky(RIGHT, silent=range(10), **fault)
    with pytest.raises(Unanswered, match="nobody at home"):
        runner(numbered(task, 10), sandbox, folder, model, attempts=1).run()
    assert len(model.prompts) == asked


def test_a_server_that_answers_in_between_is_asked_for_every_task(task, sandbox, folder):
    run = runner(numbered(task, 12), sandbox, folder, Flaky(RIGHT, silent=range(0, 12, 3)))
    run.run()
    assert len(folder.set_aside) == 4 > 1 + PATIENCE
    assert len(folder.results) == 12


def test_cached_answers_do_not_reset_the_failures(task, sandbox, folder):
    model = Flaky(RIGHT, silent=range(0, 20, 2), times=9, cached=True)
    run = runner(numbered(task, 20), sandbox, folder, model, attempts=1)
    with pytest.raises(Unanswered, match="nobody at home"):
        run.run()
    assert len(folder.set_aside) == 1 + PATIENCE + 1
    assert len(folder.results) == 1 + PATIENCE


def test_an_unanswered_reflection_restarts_the_loop(task, sandbox, folder):
    class Reflecting(Flaky):
        def complete(self, messages, *, sampling, sample=0):
            if "ROOT_CAUSE" in messages[-1].content:
                return super().complete(messages, sampling=sampling, sample=sample)
            return Completion(text=WRONG, model="flaky")

    words = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5\n"
    model = Reflecting(words, silent=[1])
    reflector = WithFallback(LLMReflector(model, Sampling()), Rules())
    run = runner(numbered(task, 3), sandbox, folder, model, reflector=reflector, attempts=2)
    run.run()
    assert {name: len(loop) for name, loop in folder.attempts.items()} == dict.fromkeys(folder.results, 2)
    sources = {attempt.reflection.source for loop in folder.attempts.values() for attempt in loop}
    assert sources == {"llm"}
    assert "while reflecting: task own/1, attempt 1" in folder.set_aside[0].problem


def test_a_broken_reflector_stops_the_run_but_keeps_the_verdict(task, sandbox, folder):
    class Breaks:
        def reflect(self, task, attempt, episodes):
            raise RuntimeError("no such table")

    run = runner(numbered(task, 1), sandbox, folder, Flaky(WRONG), reflector=Breaks(), attempts=2)
    with pytest.raises(RuntimeError, match="no such table"):
        run.run()
    (ended,) = folder.set_aside
    assert (ended.outcome, ended.judged.number, ended.judged.evaluation.passed) == ("reflector_error", 1, False)
    assert "no such table (while reflecting: task own/0, attempt 1)" in ended.problem
    assert folder.attempts == {}


def test_attempts_of_an_abandoned_loop_do_not_count(task, sandbox, folder):
    class Second(ScriptedModel):
        """Wrong; silent at the third call, which is the second attempt at the second task."""

        def complete(self, messages, *, sampling, sample=0):
            if len(self.received) == 3 and not getattr(self, "was_silent", False):
                self.was_silent = True
                raise silence()
            return super().complete(messages, sampling=sampling, sample=sample)

    run = runner(numbered(task, 2), sandbox, folder, Second(lambda messages: WRONG), attempts=2)
    run.run()
    assert (folder.path / "attempts.jsonl").read_text().count("\n") == 5
    assert [len(loop) for loop in folder.attempts.values()] == [2, 2]
    assert len(folder.grades) == 4
