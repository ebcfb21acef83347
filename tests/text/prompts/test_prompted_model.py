"""Prompts put to a model: they fit its context, and a program comes back."""

import random
import string

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.actors.chain_of_thought import ChainOfThought
from reflexion_lab.agent.actors.continuation import Continuation
from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.models.llama_cpp import LlamaCppModel
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.memory.episodic import token_ratio
from reflexion_lab.records import Episode, Recollection, Reflection, Sampling, Task, Usage
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.text.prompts.render import OVERHEAD, VARIANTS, PromptedModel, Prompts, continued, max_prompt_tokens
from reflexion_lab.text.shorten import estimated
from tests.builders import Replies

TASK = Task(task_id="t", prompt='\n\ndef f(x):\n    """Twice x."""\n', entry_point="f")
ACTORS = {
    "single_shot": (lambda model, prompts: SingleShot(model, Sampling(max_tokens=512), prompts)),
    "continuation": (lambda model, prompts: Continuation(model, Sampling(max_tokens=256), prompts)),
    "chain_of_thought": (lambda model, prompts: ChainOfThought(model, Sampling(max_tokens=512), prompts)),
    "chain_of_thought_continuation": (
        lambda model, prompts: ChainOfThought(model, Sampling(max_tokens=320), prompts, "continuation")
    ),
}


class Counting:
    """2,048 tokens by the real tokenizer: so short that the real model refuses every prompt, with its tokens."""

    context = 2048

    def __init__(self, tiny):
        self.tiny, self.replies = tiny, []

    def complete(self, messages, *, sampling, sample=0):
        self.sampling = sampling
        completion = self.tiny.complete(messages, sampling=replace(sampling, max_tokens=1))
        counted = max(completion.usage.prompt_tokens, completion.refused_tokens)
        if counted < self.context:
            completion = replace(
                completion, finish_reason="stop", usage=Usage(calls=1, prompt_tokens=counted), refused_tokens=0
            )
        self.replies.append(completion)
        return self.replies[-1]


@pytest.fixture(scope="module")
def tiny():
    return LlamaCppModel(slots=1, threads=1, context=256)


def remembered(tasks, words=lambda task: task.canonical_program):
    """Many episodes, of which a context of 2,048 tokens has room for a few."""
    return Recollection(
        others=tuple(
            Episode(
                episode_id=f"e{number}", agent_id="a", task_id="other", task_description=words(task),
                attempt_number=number, code=words(task), test_results=words(task), passed=number % 2 == 0,
                reflection=Reflection(
                    reflection_id="r", about_attempt=1, root_cause=words(task), what_went_wrong=words(task),
                    what_to_change=words(task), confidence=0.5, source="llm",
                ),
            )
            for number, task in enumerate(tasks)
        )
    )  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("actor", ACTORS)
def test_no_prompt_overflows_the_context_of_a_real_model(tiny, actor, variant):
    tasks, model = list(humaneval().tasks), Counting(tiny)
    trajectory = ACTORS[actor](model, Prompts(variant, 3)).act(tasks[10], remembered(tasks[20:60]))
    used, (message,) = trajectory.usage.prompt_tokens, trajectory.messages
    assert trajectory.finish_reason != "context_overflow" and trajectory.left_out and len(model.replies) == 1
    assert used <= estimated(message.content) + OVERHEAD
    assert used + model.sampling.max_tokens <= model.context
    assert estimated(message.content) > 0.75 * max_prompt_tokens(model, model.sampling)


def test_where_the_estimate_was_too_low_less_is_shown(tiny):
    draw = random.Random("letters")

    def letters(task):
        return " ".join("".join(draw.choices(string.ascii_lowercase, k=8)) for _ in range(40))

    tasks, model = list(humaneval().tasks), Counting(tiny)
    trajectory = SingleShot(model, Sampling(max_tokens=64)).act(tasks[10], remembered(tasks[20:40], letters))
    assert [reply.finish_reason for reply in model.replies] == ["context_overflow", "stop"]
    assert trajectory.finish_reason == "stop"
    assert trajectory.left_out and trajectory.usage == model.replies[0].usage + model.replies[1].usage


def refusing(counted=9999, context=2048):
    """Says of every prompt that it is too long."""
    usage = Usage(calls=1, refused=1)
    return Replies("", context, finish_reason="context_overflow", usage=usage, refused_tokens=counted)


def test_a_rejected_prompt_is_sent_again_only_with_less_memory():
    model = refusing()
    PromptedModel(model, Sampling())("solve", TASK, Recollection())
    assert len(model.requests) == 1
    answer = PromptedModel(model, Sampling())("solve", TASK, remembered([TASK] * 2))
    assert (len(model.requests), answer.left_out, answer.extraction.program) == (3, ("e0", "e1"), "")


@pytest.mark.parametrize("context", [0, 1500, 2200, 100_000])
@pytest.mark.parametrize("counted", [0, 900, 5000])
def test_a_prompt_that_was_too_long_is_asked_again_with_less(context, counted):
    model = refusing(counted, context)
    memory = remembered(list(humaneval().tasks)[20:40])
    answer = PromptedModel(model, Sampling(max_tokens=64))("solve", TASK, memory)
    first, second = (len(messages[-1].content) for messages, _, _ in model.requests)
    assert second < first
    assert (answer.completion.usage.calls, answer.completion.usage.refused) == (2, 2)


def test_room_is_what_the_reply_and_the_envelope_leave():
    model = ScriptedModel(lambda messages: "")
    assert max_prompt_tokens(model, Sampling()) is None
    model.context = 2048
    assert max_prompt_tokens(model, Sampling(max_tokens=512)) == 2048 - 512 - OVERHEAD
    assert max_prompt_tokens(model, Sampling(max_tokens=4096)) == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_continuation_is_the_prompt_once_and_what_was_added(variant):
    recalled = remembered([TASK] * 3)
    model = ScriptedModel(lambda messages: "\n    return 2 * x\n")
    answer = PromptedModel(model, Sampling(), Prompts(variant, 2), "continuation")("solve", TASK, recalled)
    assert answer.extraction.program == TASK.prompt.rstrip() + "\n    return 2 * x\n"
    assert [message.role for message in answer.messages] == ["assistant"]


def test_every_prompt_of_humaneval_can_be_continued_and_text_after_it_is_part_of_the_program():
    for task in humaneval().tasks:
        text = Prompts().render("continue_solve", prompt=task.prompt, task_id="t", memory=Recollection())
        assert continued(text, "\n    pass", task).program == task.prompt.rstrip() + "\n    pass\n"
    assert continued('# memory\ndef f(x):\n    """Twice x."""\n    # So:', " 2 * x", TASK).program.endswith(
        '"""Twice x."""\n    # So: 2 * x\n'
    )
    assert continued("whatever", "x = 1", replace(TASK, prompt="")).program == "x = 1\n"
    assert continued("text", " \n", TASK) == ("", "none")


@pytest.mark.parametrize("rest", ["    print((x,", "    def g(y", '    """Not', "    if x:", "    return max("])
def test_a_truncated_continuation_is_cut_back_until_it_parses(rest):
    reply = f"\n    y = 2 * x\n    if y:\n        return y\n{rest}"
    trajectory = Continuation(Replies(reply, finish_reason="length"), Sampling()).act(TASK, Recollection())
    assert trajectory.solution == f"{TASK.prompt.rstrip()}\n    y = 2 * x\n    if y:\n        return y\n"
    assert trajectory.extraction == "continuation+truncated"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("\n    return 2 * x", "length"),  # parses as it is
        ("\n    return (2 * x", "stop"),  # the model's own fault
        ("\n    return 2 *) x\n    y = (", "length"),  # a fault in its middle
        ("\n    return (2 * x", "length"),  # nothing would be left
    ],
)
def test_any_other_continuation_is_left_as_it_is(reply, reason):
    trajectory = Continuation(Replies(reply, finish_reason=reason), Sampling()).act(TASK, Recollection())
    assert (trajectory.solution, trajectory.extraction) == (f"{TASK.prompt.rstrip()}{reply}\n", "continuation")


def test_a_models_token_count_makes_room_for_more_episodes(tiny):
    tasks, sampling = list(humaneval().tasks), Sampling(max_tokens=512)
    first = PromptedModel(Counting(tiny), sampling)("solve", tasks[10], Recollection())
    ratio = token_ratio(first.trajectory("s"))
    assert 0.6 < ratio < 0.95
    by_estimate, model = remembered(tasks[20:60]), Counting(tiny)
    PromptedModel(model, sampling)("solve", tasks[10], by_estimate)
    before = model.replies[-1].usage.prompt_tokens
    answer = PromptedModel(model, sampling)("solve", tasks[10], replace(by_estimate, token_ratio=ratio))
    after = answer.completion.usage.prompt_tokens
    assert answer.completion.finish_reason == "stop"
    assert before < 0.9 * max_prompt_tokens(model, sampling) < after <= max_prompt_tokens(model, sampling) + OVERHEAD
