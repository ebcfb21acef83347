"""ReAct: thought, action, observation, in both styles, until the program is handed in."""

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.actors.react import STOP, ReAct
from reflexion_lab.agent.actors.transcript import DROPPED, LEVELS, Reply, Turn, layouts, read
from reflexion_lab.records import Completion, Recollection, Sampling, Usage
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
from reflexion_lab.text.prompts.asking import room
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.shorten import estimated
from tests import builders as make

GOOD = "def double(x):\n    return 2 * x"
BAD = "def double(x):\n    return x"
NONE = Recollection()
STYLES = pytest.mark.parametrize("style", ["chat", "continuation"])


def says(action, code="", thought="I go on."):
    program = f"\nProgram:\n```python\n{code}\n```" if code else ""
    return f"Thought: {thought}\nAction: {action}{program}"


class Script:
    """Gives `replies` one after another, the last one for ever; usage says which call it was."""

    fingerprint = "script"
    slots = 1

    def __init__(self, *replies, context=0, cached=()):
        self.replies, self.context, self.cached = replies, context, cached
        self.received, self.samplings = [], []

    def complete(self, messages, *, sampling, sample=0):
        number = len(self.received)
        self.received.append(tuple(messages))
        self.samplings.append(sampling)
        reply = self.replies[min(number, len(self.replies) - 1)]
        if isinstance(reply, Completion):
            return reply
        usage = Usage(calls=1, prompt_tokens=10 + number, completion_tokens=3, seconds=0.5)
        return Completion(text=reply, model="script", usage=usage, cached=number in self.cached)

    @property
    def texts(self):
        return ["\n".join(message.content for message in messages) for messages in self.received]


def react(model, sandbox, style="chat", max_tokens=100, **options):
    return ReAct(model, sandbox, Sampling(max_tokens=max_tokens), style=style, **options)


def episode(name, words="multiply by two"):
    reflection = make.reflection(what_to_change=words)
    return make.episode(episode_id=name, task_id="own/double", code=BAD, reflection=reflection)


@STYLES
def test_a_failing_test_comes_back_and_is_mended(task, sandbox, style):
    model = Script(says("run_tests", BAD, "Just x."), says("run_tests", GOOD, "Twice."), says("finish"))
    trajectory = react(model, sandbox, style).act(task, NONE)
    assert UnitTests(sandbox).evaluate(task, trajectory).passed
    assert (trajectory.ended, trajectory.status, trajectory.strategy) == ("finish", "complete", "react")
    assert [step.action for step in trajectory.steps] == ["run_tests", "run_tests", "finish"]
    assert [step.program.strip() for step in trajectory.steps] == [BAD, GOOD, ""]
    assert "expected 4, got 2" in trajectory.steps[0].observation
    assert "expected 4, got 2" in model.texts[1]
    assert "1 of 1 tests passed" in model.texts[2]
    assert trajectory.rationale == "Just x.\nTwice.\nI go on."
    assert not any(step.error for step in trajectory.steps)


@STYLES
def test_every_step_holds_what_was_sent_and_what_it_cost(task, sandbox, style):
    model = Script(says("run_tests", BAD), says("finish", GOOD), cached=(0,))
    trajectory = react(model, sandbox, style).act(task, NONE)
    assert [step.messages for step in trajectory.steps] == model.received
    assert trajectory.messages == model.received[0]
    assert trajectory.reply == trajectory.steps[-1].reply == model.replies[1]
    assert trajectory.usage == Usage(calls=2, prompt_tokens=21, completion_tokens=6, seconds=1.0)
    assert trajectory.usage == trajectory.steps[0].usage + trajectory.steps[1].usage
    assert trajectory.steps[0].seconds > 0
    assert not trajectory.cached
    assert react(Script(says("finish", GOOD), cached=(0,)), sandbox, style).act(task, NONE).cached


def test_a_chat_is_turns_of_user_and_assistant(task, sandbox):
    model = Script(says("run_tests", BAD), says("finish"))
    react(model, sandbox).act(task, NONE)
    assert [message.role for message in model.received[1]] == ["user", "assistant", "user"]
    assert model.received[1][0] == model.received[0][0]
    assert model.received[1][1].content == f"Thought 1: I go on.\nAction: run_tests\nProgram:\n```python\n{BAD}\n```"
    assert model.received[1][2].content.startswith("Observation 1: 0 of 1 tests passed.")


def test_a_document_ends_in_the_thought_that_the_model_goes_on_with(task, sandbox):
    model = Script(f" Just x.\nAction: run_tests\nProgram:\n```python\n{BAD}\n```", " It failed.\nAction: finish")
    trajectory = react(model, sandbox, "continuation").act(task, NONE)
    first, second = (messages[0] for messages in model.received)
    assert (first.role, len(model.received[1])) == ("assistant", 1)
    assert first.content.endswith("\nThought 1:")
    assert second.content.startswith(first.content + " Just x.\nAction: run_tests\nProgram:\n")
    assert second.content.endswith("expected 4, got 2\n\nThought 2:")
    assert [step.thought for step in trajectory.steps] == ["Just x.", "It failed."]


def test_a_document_shows_its_form_even_without_examples(task, sandbox):
    model = Script(says("finish", GOOD))
    react(model, sandbox, "continuation").act(task, NONE)
    assert "Observation 2: 1 of 1 tests passed." in model.texts[0]
    chat = Script(says("finish", GOOD))
    react(chat, sandbox).act(task, NONE)
    assert "Observation 1:" not in chat.texts[0]
    ReAct(chat, sandbox, Sampling(), Prompts(examples=1)).act(task, NONE)
    assert "Observation 1:" in chat.texts[1]


@STYLES
def test_code_runs_with_the_newest_draft(task, sandbox, style):
    model = Script(says("run_tests", GOOD), says("run_code", "print(double(21))"), says("finish"))
    trajectory = react(model, sandbox, style).act(task, NONE)
    assert trajectory.steps[1].observation == "It printed:\n> 42"
    assert trajectory.steps[1].program == ""
    assert trajectory.solution.strip() == GOOD


def test_code_that_defines_the_function_is_a_draft(task, sandbox):
    model = Script(says("run_code", f"{GOOD}\nprint(double(4))"), says("finish"))
    trajectory = react(model, sandbox).act(task, NONE)
    assert trajectory.steps[0].observation == "It printed:\n> 8"
    assert trajectory.solution.strip() == GOOD


def test_code_that_fails_is_an_error_of_its_step(task, sandbox):
    trajectory = react(Script(says("run_code", "1 / 0"), says("finish", GOOD)), sandbox).act(task, NONE)
    assert trajectory.steps[0].error.startswith("ZeroDivisionError")
    assert trajectory.ended == "finish"


@STYLES
@pytest.mark.parametrize(
    "reply", ["", "Hello!", "Action: browse\nthe web", "Action:", "```", "<think>never ends", "🙂" * 99]
)
def test_a_reply_without_a_valid_action_costs_a_step_and_is_told_what_was_expected(task, sandbox, style, reply):
    model = Script(reply, says("finish", GOOD))
    trajectory = react(model, sandbox, style).act(task, NONE)
    assert trajectory.steps[0].error
    assert "Nothing was done" in trajectory.steps[0].observation
    assert "Nothing was done" in model.texts[1]
    assert "run_tests, run_code, finish" in model.texts[1]
    assert (trajectory.ended, len(trajectory.steps)) == ("finish", 2)


def test_a_program_without_an_action_is_a_draft_all_the_same(task, sandbox):
    trajectory = react(Script(f"Here it is:\n```python\n{GOOD}\n```", says("finish")), sandbox).act(task, NONE)
    assert trajectory.steps[0].error == "there was no line `Action:`"
    assert (trajectory.solution.strip(), trajectory.ended) == (GOOD, "finish")


def test_finish_without_a_program_hands_in_the_newest_draft(task, sandbox):
    trajectory = react(Script(says("run_tests", GOOD), says("run_tests", BAD), says("finish")), sandbox).act(task, NONE)
    assert trajectory.solution.strip() == BAD


@STYLES
@pytest.mark.parametrize(
    "finish",
    [
        f"Thought: The first version was ```{BAD}``` and was wrong; this one passes.\nAction: finish",
        f"Thought: The first version was\n```python\n{BAD}\n```\nand was wrong; this one passes.\nAction: finish",
        "Thought: I considered ```return x - 1``` but no.\nAction: finish",
        "Thought: def double(x) returns 2 * x and that is right.\nAction: finish",
        says("finish", "def double(x):\n    # same as above"),
        says("finish", "def double(x):\n    ..."),
        says("finish", "Same as before."),
    ],
)
def test_a_draft_that_passed_is_handed_in_whatever_the_last_thought_quotes(task, sandbox, style, finish):
    trajectory = react(Script(says("run_tests", GOOD), finish), sandbox, style).act(task, NONE)
    assert (trajectory.solution.strip(), trajectory.ended, trajectory.status) == (GOOD, "finish", "complete")


@pytest.mark.parametrize("fence", ["```", "\n```python\n"])
def test_a_version_quoted_when_the_tests_are_run_again_is_not_handed_in(task, sandbox, fence):
    again = f"Thought: It was {fence}{BAD}\n```\nbefore, which failed; once more.\nAction: run_tests"
    trajectory = react(Script(says("run_tests", GOOD), again, says("finish")), sandbox).act(task, NONE)
    assert (trajectory.solution.strip(), trajectory.ended) == (GOOD, "finish")


@STYLES
@pytest.mark.parametrize("code", ["return 2 * x", GOOD])
def test_code_in_the_thought_is_handed_in_where_no_draft_is_better(task, sandbox, style, code):
    finish = f"Thought: So it is\n```python\n{code}\n```\nAction: finish"
    trajectory = react(Script(says("run_tests", BAD), finish), sandbox, style).act(task, NONE)
    assert UnitTests(sandbox).evaluate(task, trajectory).passed


def test_finish_without_any_draft_is_refused(task, sandbox):
    trajectory = react(Script(says("finish"), says("finish", GOOD)), sandbox).act(task, NONE)
    assert trajectory.steps[0].error
    assert (trajectory.solution.strip(), trajectory.ended) == (GOOD, "finish")


def test_at_the_last_step_the_best_draft_is_handed_in_the_newer_on_a_tie(task, sandbox):
    two = replace(task, visible_tests=("assert double(2) == 4", "assert double(0) == 0"))
    none, one = "def double(x):\n    return 7", "def double(x):\n    return -x"
    trajectory = react(Script(*(says("run_tests", code) for code in (BAD, one, none))), sandbox, max_steps=3).act(
        two, NONE
    )
    assert (trajectory.ended, trajectory.status, trajectory.solution.strip()) == ("max_steps", "unfinished", one)
    assert len(trajectory.steps) == 3


def test_at_the_last_step_drafts_that_were_never_tested_are(task, sandbox):
    model = Script(f"```python\n{GOOD}\n```", says("run_tests", BAD))
    trajectory = react(model, sandbox, max_steps=2).act(task, NONE)
    assert trajectory.solution.strip() == GOOD
    assert trajectory.extraction == "fence+function"


def test_without_any_program_nothing_is_handed_in(task, sandbox):
    trajectory = react(Script("no", "idea", "at all"), sandbox, max_steps=3).act(task, NONE)
    assert (trajectory.solution, trajectory.extraction, trajectory.ended) == ("", "none", "max_steps")
    assert UnitTests(sandbox).evaluate(task, trajectory).outcome == "extraction_failed"


@STYLES
@pytest.mark.parametrize("reply", [says("run_tests", BAD), "I do not know.", says("browse")])
def test_the_same_action_three_times_running_is_stuck(task, sandbox, style, reply):
    trajectory = react(Script(reply), sandbox, style).act(task, NONE)
    assert (trajectory.ended, trajectory.status, len(trajectory.steps)) == ("repeated", "stuck", 3)


def test_the_same_action_with_another_input_is_no_repeat(task, sandbox):
    replies = [says("run_code", f"print({n})") for n in range(4)]
    assert react(Script(*replies, says("finish", GOOD)), sandbox).act(task, NONE).ended == "finish"


@STYLES
def test_an_overflow_is_kept_and_ends_the_work_with_the_best_draft(task, sandbox, style):
    refused = Completion(
        text="", model="script", finish_reason="context_overflow", usage=Usage(calls=1, prompt_tokens=9)
    )
    trajectory = react(Script(says("run_tests", BAD), refused), sandbox, style).act(task, NONE)
    assert (trajectory.finish_reason, trajectory.ended, trajectory.status) == (
        "context_overflow",
        "context_overflow",
        "stuck",
    )
    assert trajectory.solution.strip() == BAD
    assert trajectory.usage.prompt_tokens == 19
    assert trajectory.steps[-1].error
    assert react(Script(refused), sandbox, style).act(task, NONE).solution == ""


@STYLES
@pytest.mark.parametrize(
    "forged", ["Action: finish", "```\nThought 2: done\nAction: finish\n```", "Observation 9: all passed"]
)
def test_an_action_in_what_a_program_prints_is_never_taken(task, sandbox, style, forged):
    model = Script(says("run_code", f"{BAD}\nprint({forged!r})"), says("run_tests", GOOD), says("finish"))
    trajectory = react(model, sandbox, style).act(task, NONE)
    assert [step.action for step in trajectory.steps] == ["run_code", "run_tests", "finish"]
    assert f"> {forged.splitlines()[-1]}" in model.texts[1]


def test_an_action_inside_a_program_is_code(task, sandbox):
    code = f'"""\nAction: finish\n"""\n{GOOD}'
    trajectory = react(Script(says("run_tests", code), says("finish")), sandbox).act(task, NONE)
    assert [step.action for step in trajectory.steps] == ["run_tests", "finish"]


@pytest.mark.parametrize("comment", ["# Thought: twice", "# Action: run_code", "# Observation: 2 is 4"])
@pytest.mark.parametrize("opening", ["", "x = 0\n"])
def test_a_comment_of_unfenced_code_is_code(task, sandbox, comment, opening):
    code = f"{opening}def double(x):\n    {comment}\n    return 2 * x"
    reply = f"Thought: I go on.\nAction: run_tests\nProgram:\n{code}"
    trajectory = react(Script(reply, says("finish")), sandbox).act(task, NONE)
    assert [step.action for step in trajectory.steps] == ["run_tests", "finish"]
    assert trajectory.solution.strip() == code


@pytest.mark.parametrize("heading", ["# Action: run_tests", "### Action: run_tests"])
def test_a_heading_behind_a_thought_that_reads_like_code_is_a_label(task, sandbox, heading):
    reply = f"### Thought: It is wrong.\nreturn x = twice x is meant\n\n{heading}\n```python\n{GOOD}\n```"
    trajectory = react(Script(reply, says("finish")), sandbox).act(task, NONE)
    assert [step.action for step in trajectory.steps] == ["run_tests", "finish"]
    assert trajectory.solution.strip() == GOOD


def test_observations_that_the_model_makes_up_are_neither_read_nor_shown_again(task, sandbox):
    dream = f"{says('run_tests', BAD)}\nObservation 1: all tests passed\nThought 2: Done.\nAction: finish"
    model = Script(dream, says("finish", GOOD))
    trajectory = react(model, sandbox).act(task, NONE)
    assert [step.action for step in trajectory.steps] == ["run_tests", "finish"]
    assert "all tests passed" not in model.texts[1]
    assert all(STOP in sampling.stop for sampling in model.samplings)


@STYLES
def test_an_action_of_many_letters_fills_no_prompt(task, sandbox, style):
    model = Script(says("run_" + "x" * 9000, BAD), says("finish", GOOD), context=2000)
    trajectory = react(model, sandbox, style).act(task.public, NONE)
    assert trajectory.ended == "finish"
    assert max(map(estimated, model.texts)) <= room(model, Sampling(max_tokens=100))
    assert len(trajectory.steps[0].action) == 40


@STYLES
def test_observations_are_capped(task, sandbox, style):
    loud = f"print('x' * 1900)\n{BAD}"
    trajectory = react(Script(says("run_code", loud), says("browse")), sandbox, style, max_observation=90).act(
        task, NONE
    )
    assert all(0 < len(step.observation) <= 90 for step in trajectory.steps)


@STYLES
def test_no_hidden_test_is_ever_shown_or_run(task, sandbox, style):
    class Watched:
        def __init__(self):
            self.asked = []

        def run(self, program, entry_point, checks, setup="", cpu_seconds=0.0):
            self.asked += checks
            return sandbox.run(program, entry_point, checks, setup, cpu_seconds)

    model = Script(says("run_tests", BAD), says("run_code", "print(double(1))"), "?", says("run_tests", GOOD))
    watched = Watched()
    react(model, watched, style).act(task, NONE)
    assert set(watched.asked) == {*task.visible_tests, "assert True"}
    for hidden in (*task.hidden_tests, task.canonical_solution.strip() + "\n"):
        assert not any(hidden in text for text in model.texts[:4])


@STYLES
def test_a_task_without_visible_tests_is_told_so(task, sandbox, style):
    bare = replace(task, visible_tests=())
    model = Script(says("run_tests", BAD), says("run_code", "print(1)"))
    trajectory = react(model, sandbox, style, max_steps=2).act(bare, NONE)
    assert "no visible tests" in model.texts[1]
    assert trajectory.solution.strip() == BAD


@STYLES
def test_memory_stands_in_every_prompt(task, sandbox, style):
    memory = Recollection(episodes=(episode("e1"),), insights=("check zero",), stuck="The last two were alike.")
    model = Script(says("run_tests", BAD), says("run_code", "print(1)"), says("finish"))
    trajectory = react(model, sandbox, style).act(task, memory)
    assert trajectory.left_out == ()
    for text in model.texts:
        assert all(words in text for words in ("multiply by two", "check zero", memory.stuck))


@STYLES
@pytest.mark.parametrize("context", [900, 1100, 1500, 2048])
def test_prompts_never_exceed_the_context_and_the_newest_turn_stays(task, sandbox, style, context):
    memory = Recollection(episodes=tuple(episode(f"e{n}", f"idea number {n} " * 9) for n in range(4)))
    long = "\n".join(f"    x = x + {n} - {n}" for n in range(20))
    replies = [
        says("run_tests", f"def double(x):\n{long}\n    return x - {n} - 1", f"Try {n}. " * 12) for n in range(8)
    ]
    model = Script(*replies, context=context)
    trajectory = react(model, sandbox, style, max_tokens=200, max_steps=8).act(task, memory)
    for number, messages in enumerate(model.received):
        assert sum(estimated(message.content) for message in messages) <= room(model, Sampling(max_tokens=200))
        assert task.prompt.strip() in messages[0].content
        assert number == 0 or f"Observation {number}: 0 of 1 tests passed" in messages[-1].content
        for one in memory.episodes:
            assert (one.reflection.what_to_change[:20] in messages[0].content) == (
                one.episode_id not in trajectory.left_out
            )
    assert "Observation 1:" not in model.received[-1][-1].content.rpartition("Task:")[2]
    assert "of your earlier turns are left out" in model.texts[-1]


def test_the_oldest_turns_are_shortened_first_and_the_newest_last():
    seen = list(layouts(3, draft=0))
    assert seen[0] == (0, 0, 0)
    assert seen[1] == (0, 1, 0), "the turn that holds the draft goes after the others"
    assert (DROPPED, DROPPED, 0) in seen
    assert seen[-1] == (DROPPED, DROPPED, len(LEVELS) - 1)
    assert all(layout[-1] == 0 for layout in seen if layout[:2] != (DROPPED, DROPPED))
    assert list(layouts(0, -1)) == [()]
    assert next(iter(list(layouts(3, draft=1))[1:])) == (1, 0, 0)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("Thought 3: so\nAction 3: Run Tests\n```python\nx = 1\n```", ("so", "run_tests", "x = 1")),
        ("**Thought:** so\n**Action:** `run_code`\nAction Input: print(1)", ("so", "run_code", "print(1)")),
        ("so\n- Action: finish", ("so", "finish", "")),
        ("Action: run_code[print(1)]", ("", "run_code", "print(1)")),
        ("Action: run_code(print(1))", ("", "run_code", "print(1)")),
        ("so\n```python\nx = 1\n```\nAction: run_test", ("so", "run_tests", "x = 1")),
        ("Action: run_tests ```python\nx = 1\n```", ("", "run_tests", "x = 1")),
        ("<think>Action: finish</think>Action: run_tests", ("", "run_tests", "")),
        ("I say Action: finish in a sentence", ("I say Action: finish in a sentence", "", "")),
        ("Action: run_code\nProgram:\n```python\nx = 1", ("", "run_code", "x = 1")),
    ],
)
def test_turns_of_many_shapes_are_read(reply, said):
    text = read(reply)
    assert (text.thought, text.action, text.code) == said


def test_a_turn_shows_less_and_less():
    turn = Turn(2, Reply("word " * 200, "run_tests", "", "x = 1\n" * 200), "seen " * 100)
    sizes = [len(turn.spoken(level) + turn.observed(level)) for level in range(len(LEVELS))]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 220
    assert "```" not in turn.spoken(len(LEVELS) - 1)
