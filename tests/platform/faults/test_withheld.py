"""A reply that withholds is nobody's program, verdict, reflection or test, however well it would read as one."""

import pytest

from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.models.wrapped import Refusals
from reflexion_lab.records import WITHHELD, Completion, Usage
from reflexion_lab.runner.config.assemble import loop_factory
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import Models, suite_writer_factory
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.tasks.evaluators.self_tests import asserts

PROGRAM = "```python\ndef double(x):\n    return 2 * x\n```"
TEMPTING = f"""Thought 1: easy
Action: finish
{PROGRAM}
ISSUE: none
SEVERITY: 0.0
ROOT_CAUSE: The line returns x itself
WHAT_WENT_WRONG: double(2) gave 2
WHAT_TO_CHANGE: multiply by two
CONFIDENCE: 0.9
assert double(3) == 6
"""
WRONG = "```python\ndef double(x):\n    return x\n```"


class Withholding:
    """Ends in `end` whatever it is asked, with a text that would pass for anything; for prompts with `about` alone."""

    fingerprint, slots, context = "withholding", 1, 0

    def __init__(self, end, about=""):
        self.end, self.about = end, about

    def complete(self, messages, *, sampling, sample=0):
        usage = Usage(calls=1, prompt_tokens=1, completion_tokens=1)
        if self.about in messages[-1].content:
            return Completion(text=TEMPTING, model="withholding", finish_reason=self.end, usage=usage)
        return Completion(text=WRONG, model="withholding", usage=usage)


def answered(role):
    refusals = Refusals()
    refusals.has_answered = True
    return refusals


def attempts_of(model, sandbox, task, *overrides):
    cfg = compose("loop.max_attempts=2", "cache.mode=off", *overrides)
    models = Models({"actor": CachedModel(model, "", "off")}, refusals=answered)
    return list(loop_factory(RunConfig.of(cfg), models, sandbox)().attempts(task.public))


ACTORS = {
    "single_shot": [], "continuation": [], "chain_of_thought": [], "chain_of_thought_continuation": [], "react": [],
    "react_continuation": [], "critique_revise": ["actor@actor.generator=single_shot", "critic=llm", "reviser=llm"],
    "candidates": [], "escalation": [], "warming": [],
}  # fmt: skip


@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.slow
def test_no_actor_takes_a_program_from_it_and_the_attempt_says_why(sandbox, task, actor):
    for end in WITHHELD:
        attempts = attempts_of(Withholding(end), sandbox, task, f"actor={actor}", *ACTORS[actor], "reflector=none")
        assert len(attempts) == 2
        for attempt in attempts:
            assert attempt.trajectory.solution == ""
            assert attempt.trajectory.rationale == ""
            assert (attempt.trajectory.finish_reason, attempt.evaluation.outcome) == (end, end)
            assert not attempt.evaluation.passed
            assert all(step.program == "" for step in attempt.trajectory.steps)


@pytest.mark.parametrize("end", WITHHELD)
def test_a_withheld_revision_leaves_the_draft_and_its_reason(sandbox, task, end):
    overrides = "actor=critique_revise", "actor@actor.generator=single_shot", "critic=tests", "reviser=llm"
    (first, _) = attempts_of(Withholding(end, "What a review found"), sandbox, task, *overrides, "reflector=none")
    assert first.evaluation.outcome == "fail"
    assert "return x" in first.trajectory.solution
    assert f"the reply ended in {end}" in [step.error for step in first.trajectory.steps]


@pytest.mark.parametrize("end", WITHHELD)
def test_a_critic_that_withholds_gives_no_verdict(sandbox, task, end):
    overrides = "actor=critique_revise", "actor@actor.generator=single_shot", "critic=llm", "reviser=llm"
    (first, _) = attempts_of(Withholding(end, "SEVERITY"), sandbox, task, *overrides, "reflector=none")
    (step,) = first.trajectory.steps
    assert first.trajectory.ended == "error"
    assert step.error == f"The critic gave no verdict: its reply ended in {end}"
    assert step.critique is None
    assert first.trajectory.others["critic"].calls == 1


@pytest.mark.parametrize("end", WITHHELD)
def test_a_reflector_that_withholds_is_stood_in_for(sandbox, task, end):
    (first, _) = attempts_of(Withholding(end, "ROOT_CAUSE"), sandbox, task, "actor=single_shot", "reflector=llm")
    assert first.reflection.source.startswith("fallback:")
    assert f"the reply ended in {end}" in first.reflection.problem
    assert "multiply" not in first.reflection.what_to_change


def test_a_reply_that_does_not_count_is_shown_to_no_reflector(sandbox, task):
    prompts = []

    class Listening(Withholding):
        def complete(self, messages, *, sampling, sample=0):
            prompts.append(messages[-1].content)
            return super().complete(messages, sampling=sampling, sample=sample)

    attempts_of(Listening("wrong_model"), sandbox, task, "actor=single_shot", "reflector=llm")
    reflecting = [text for text in prompts if "ROOT_CAUSE:" in text]
    assert reflecting
    assert not any("return 2 * x" in text or "assert double(3)" in text for text in reflecting)
    assert all("another model answered" in text or "the reply ended in wrong_model" in text for text in reflecting)


@pytest.mark.parametrize("end", WITHHELD)
@pytest.mark.parametrize("style", ["chat", "continuation"])
def test_no_tests_are_taken_from_it(sandbox, task, end, style):
    assert list(asserts(TEMPTING, 500))
    cfg = RunConfig.of(compose("feedback_source=self_tests", f"suite_writer={style}", "cache.mode=off"))
    models = Models({"actor": CachedModel(Withholding(end), "", "off")}, refusals=answered)  # as a resumed run has them
    written = suite_writer_factory(cfg, models, sandbox)().write(task.public)
    assert (written.tests, written.dropped, written.finish_reason, written.usage.calls) == ((), {}, end, 1)
