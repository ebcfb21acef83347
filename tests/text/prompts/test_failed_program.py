"""How retry prompts show a failed program and its test results: by two keys, whatever the wording."""

import re

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.actors.continuation import Continuation
from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.reflectors.llm import LLMReflector, ReflectionError
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Check, Recollection, Sampling, Task
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.text.filler import WORDS, filler_in_layout
from reflexion_lab.text.prompts.render import VARIANTS, Prompts
from reflexion_lab.text.shorten import estimated
from tests import builders as make

TASK = Task(task_id="t", prompt='def f(x):\n    """Twice x."""\n', entry_point="f")
FACTS = (
    "1 of 3 tests passed. Failing:\n- assert f(2) == 4  # expected 4, got 2\n- assert f(3) == 6  # NameError: y\n"
    "The program printed: three"
)


def failed(number=1, **fields):
    known = {"task_id": "t", "code": f"def f(x):\n    return x + {number}", "test_results": FACTS, "reflection": None}
    return make.episode(number, **known | fields)


def messages_of(memory, variant="default", actor=SingleShot, context=0, task=TASK, **keys):
    model = make.Replies("", context)
    actor(model, Sampling(max_tokens=64), Prompts(variant, **keys)).act(task, memory)
    return model.requests[-1][0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_failed_program_is_a_message_of_the_assistant_and_no_other_word_changes(variant):
    passed = failed(1, code="def f(x):\n    return x + x", passed=True, test_results="")
    memory = Recollection(own=(passed, failed(2), failed(3)))
    (whole,) = messages_of(memory, variant)
    messages = messages_of(memory, variant, failed_program="assistant")
    assert [message.role for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert [message.content for message in messages[1::2]] == [f"```python\n{failed(n).code}\n```" for n in (2, 3)]
    assert "x + x" in messages[0].content and FACTS in messages[2].content and FACTS in messages[4].content
    assert "".join("".join(m.content.split()) for m in messages) == "".join(whole.content.split())


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_task_that_holds_the_same_program_stays_with_the_user(variant):
    """A program to repair, say: which of the two is the attempt, the text does not tell."""
    task = replace(TASK, prompt=f"Repair this:\n\n```python\n{failed().code}\n```\n\n{TASK.prompt}")
    memory = Recollection(own=(failed(),))
    messages = messages_of(memory, variant, task=task, failed_program="assistant")
    assert messages == messages_of(memory, variant, task=task)


def test_a_program_that_nothing_follows_stays_with_the_user():
    memory = Recollection(own=(failed(),))
    keys = {"test_results": "hidden", "failed_program": "assistant"}
    assert messages_of(memory, "terse", **keys)[-1].role == "user"
    assert messages_of(memory, **keys)[-1].content == "Write a different, corrected function."
    assert len(messages_of(Recollection(own=(failed(code=""),)), failed_program="assistant")) == 1
    (continued,) = messages_of(memory, "terse", Continuation, failed_program="assistant")
    assert continued.role == "assistant" and "# def f(x):\n#     return x + 1" in continued.content


def test_a_shortened_program_is_a_message_of_the_assistant_too():
    long = failed(code="def f(x):\n" + "    x = 1\n" * 300 + "    return x")
    messages = messages_of(Recollection(own=(long,)), failed_program="assistant", context=400)
    assert [message.role for message in messages] == ["user", "assistant", "user"]
    assert "lines are left out here" in messages[1].content and FACTS in messages[2].content


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("actor", [SingleShot, Continuation])
def test_test_results_are_shown_hidden_or_filler_of_their_length_and_layout(variant, actor):
    memory = Recollection(own=(failed(),), others=(failed(7, task_id="o"),))
    shown, hidden, filler = (
        messages_of(memory, variant, actor, test_results=how)[0].content for how in ("shown", "hidden", "filler")
    )
    for word in ("expected", "NameError", "printed", "3 tests"):
        assert (word in shown, word in hidden, word in filler) == (True, False, False)
    assert abs(estimated(filler) - estimated(shown)) <= 0.08 * estimated(shown)
    assert len(filler.splitlines()) == len(shown.splitlines()) > len(hidden.splitlines())
    assert "return x + 1" in hidden + filler or (variant, actor) == ("default", Continuation)
    in_session = replace(memory, session="Issues: NameError in 2 of 3 checks")
    hid, filled = (messages_of(in_session, variant, actor, test_results=how)[0].content for how in ("hidden", "filler"))
    assert "Issues" not in hid + filled and hid == hidden
    assert estimated(in_session.session) <= estimated(filled) - estimated(filler) <= estimated(in_session.session) + 20


def test_filler_keeps_lines_and_list_marks_and_depends_on_the_text_alone():
    filler = filler_in_layout(FACTS)
    assert filler == filler_in_layout(FACTS) != filler_in_layout(FACTS.replace("4", "5"))
    assert re.fullmatch(r"[^\n]+\n- [^\n#]+  # [^\n#]+\n- [^\n#]+  # [^\n#]+\n[^\n#]+", filler)
    assert {word.casefold() for word in re.findall(r"\w+", filler)} <= set(WORDS)
    for mine, theirs in zip(filler.splitlines(), FACTS.splitlines(), strict=True):
        assert abs(estimated(mine) - estimated(theirs)) <= 2
    assert filler_in_layout("") == ""


def test_a_reflector_reads_the_test_results_that_the_actor_does_not():
    check = Check(name="assert f(2) == 4", outcome="fail", message="expected 4, got 2")
    model = make.Replies("", finish_reason="refusal")
    with pytest.raises(ReflectionError):
        LLMReflector(model, Sampling(), Prompts(test_results="hidden")).reflect(TASK, make.attempt(check), [])
    assert "assert f(2) == 4" in model.prompt and "got 2" in model.prompt


def test_both_keys_are_left_out_of_configs_that_do_not_set_them():
    assert compose().prompts.keys() == {"_target_", "variant", "examples"}
    prompts = compose("prompts.test_results=filler", "prompts=terse", "prompts.failed_program=assistant").prompts
    assert (prompts.variant, prompts.test_results, prompts.failed_program) == ("terse", "filler", "assistant")
    for key in ("test_results", "failed_program"):
        with pytest.raises(ConfigError, match=key):
            Prompts(**{key: "other"})
