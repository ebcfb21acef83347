"""Dual agreement: the largest group of drafts that passes the same tests decides which tests are kept."""

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.models.cache import Draws
from reflexion_lab.records import Completion, Recollection, Trajectory, Usage, WrittenTests
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import Models, suite_writer_factory
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.tasks.evaluators.self_tests_agreement import DualAgreement
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
from reflexion_lab.text.prompts.render import Prompts

TESTS = ("assert double(1) == 2", "assert double(0) == 0", "assert double(2) == 2", "assert double(3) == 3")
TWICE = "def double(x):\n    return 2 * x"
SAME = "def double(x):\n    return x"
ADDS = "def double(x):\n    return x + 1"


class Suite:
    def __init__(self, tests=TESTS):
        self.tests = tests

    def write(self, task):
        usage = Usage(calls=1, prompt_tokens=10)
        return WrittenTests(task_id=task.task_id, tests=self.tests, dropped={"assert 1": "no call"}, usage=usage)


class Drafts:
    def __init__(self, *programs):
        self.waiting = list(programs)

    def act(self, task, recollection):
        assert recollection == Recollection()
        return Trajectory(solution=self.waiting.pop(0), strategy="draft", usage=Usage(calls=1, completion_tokens=5))


def agreed(task, sandbox, *programs, tests=TESTS):
    return DualAgreement(Suite(tests), Drafts(*programs), sandbox, len(programs)).write(task.public)


def test_the_tests_of_the_best_group_are_kept(task, sandbox):
    # scores: twice 2 x 2 = 4, same 1 x 3 = 3, adds 1 x 1 = 1
    written = agreed(task, sandbox, TWICE, SAME, f"{TWICE}  # in other words", ADDS)
    assert written.tests == ("assert double(1) == 2", "assert double(0) == 0")
    outside = "outside the agreement of the drafts"
    assert written.dropped == {"assert 1": "no call", TESTS[2]: outside, TESTS[3]: outside}


def test_usage_of_the_drafters_other_roles_counts(task, sandbox):
    class Criticised(Drafts):
        def act(self, task, recollection):
            critic = {"critic": Usage(calls=2, prompt_tokens=400, cost=0.5)}
            return replace(super().act(task, recollection), others=critic)

    written = DualAgreement(Suite(), Criticised(TWICE, SAME, ADDS), sandbox, 3).write(task.public)
    assert written.usage == Usage(calls=10, prompt_tokens=1210, completion_tokens=15, cost=1.5)


@pytest.mark.parametrize(("programs", "kept"), [
    ((ADDS, SAME, ADDS), TESTS[1:]),  # scores: adds 2 x 1 = 2, same 1 x 3 = 3: more tests outweigh more drafts
    ((ADDS, ADDS, TWICE), TESTS[:2]),  # 2 x 1 and 1 x 2: a tie goes to more tests
])  # fmt: skip
def test_the_score_is_drafts_times_tests(task, sandbox, programs, kept):
    assert agreed(task, sandbox, *programs).tests == kept


def test_a_tie_goes_to_the_earlier_draft_and_without_a_draft_that_passes_there_is_no_feedback(task, sandbox):
    assert agreed(task, sandbox, SAME, TWICE, tests=(TESTS[0], TESTS[3])).tests == (TESTS[3],)
    written = agreed(task, sandbox, "def double(x):\n    raise ValueError", "", "def double(x:")
    assert written.tests == ()
    assert set(written.dropped.values()) == {"no call", "passed by no draft"}


def test_without_drafts_all_tests_are_kept_and_fewer_are_refused(task, sandbox):
    assert agreed(task, sandbox).tests == TESTS
    assert DualAgreement(Suite(()), Drafts(), sandbox, 5).write(task.public).tests == ()
    with pytest.raises(ValueError, match=r"DualAgreement\.agreement: got -1"):
        DualAgreement(Suite(), Drafts(), sandbox, -1)


class Recorder:
    """Answers prompts for tests and for programs, and keeps each call with its draw."""

    fingerprint, slots, context = "recorder", 1, 0

    def __init__(self):
        self.calls = []

    def complete(self, messages, *, sampling, sample=0):
        self.calls.append((messages, sampling, sample))
        is_test = messages[-1].content.endswith("assert double")
        text = "(1) == 2\n" if is_test else "    return 2 * x\n"
        return Completion(text=text, model="recorder", usage=Usage(calls=1))


def test_drafts_are_other_draws_than_the_candidates_of_the_loop(task, sandbox):
    cfg = compose("actor=candidates", "suite_writer=continuation", "suite_writer.agreement=3")
    model, prompts = Recorder(), Prompts()
    suite_writer_factory(RunConfig.of(cfg), Models({"actor": model}), sandbox)().write(task.public)
    drafts = model.calls[1:]
    parts = {"model": Draws(model), "evaluator": UnitTests(sandbox), "prompts": prompts}
    build(cfg.actor, "actor", parts).act(task.public, Recollection())
    candidates = model.calls[1 + len(drafts) :]
    assert (len(drafts), len(candidates)) == (3, 3)
    assert [messages for messages, *_ in drafts] == [messages for messages, *_ in candidates]
    # The grammar is the actor's alone: with it in the config of every run, none of before could be resumed.
    assert [sampling for _, sampling, _ in drafts] == [replace(s, grammar="") for _, s, _ in candidates]
    assert {draw for *_, draw in drafts}.isdisjoint(draw for *_, draw in candidates)
