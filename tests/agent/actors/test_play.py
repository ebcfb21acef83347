"""The actor that plays: its turns, what it submits, how a play ends, and how prompts fit."""

import re

import pytest

from reflexion_lab.agent.actors.play import NOTHING, Play, grammar, read, transcript
from reflexion_lab.records import Completion, Observation, Recollection, Sampling, Task, Usage
from reflexion_lab.tasks.environments.replay import FAILED, replayed
from reflexion_lab.tasks.evaluators.play import PlayHeuristics
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
from reflexion_lab.text.shorten import estimated
from tests import builders as make
from tests.contract.test_environments import Corridor, walk

NONE = Recollection()


class Script:
    """Gives `replies` one after another, the last one for ever."""

    fingerprint, slots = "script", 1

    def __init__(self, *replies, context=0):
        self.replies, self.context = replies, context
        self.received, self.samplings = [], []

    def complete(self, messages, *, sampling, sample=0):
        reply = self.replies[min(len(self.received), len(self.replies) - 1)]
        self.received.append(messages)
        self.samplings.append(sampling)
        if isinstance(reply, Completion):
            return reply
        return Completion(text=reply, model="script", usage=Usage(calls=1, prompt_tokens=5, completion_tokens=2))


def turn(action):
    return f"Thought: On.\nAction: {action}"


def play(*replies, environment=None, task=None, context=0, memory=NONE, **options):
    model = Script(*replies, context=context)
    actor = Play(model, environment or Corridor(), Sampling(max_tokens=20), **options)
    return actor.act(task or walk("a"), memory), model


def test_a_play_submits_its_actions_and_ends_where_the_world_does():
    trajectory, model = play(turn("forward"))
    assert trajectory.solution == "forward\nforward\nforward"
    assert (trajectory.ended, trajectory.status) == ("over", "complete")
    assert [step.observation for step in trajectory.steps] == [f"You are in room {n} of 3." for n in (1, 2, 3)]
    assert trajectory.usage.calls == len(model.received) == 3


def test_prompts_hold_the_task_the_help_and_each_turn_once():
    _, model = play(turn("forward"))
    head, *turns = model.received[2]
    assert "Walk to room 3, task a." in head.content
    assert "The actions are forward, back, and wait." in head.content
    assert "at most 12 turns" in head.content
    assert [message.role for message in turns] == ["assistant", "user"] * 2
    assert turns[0].content == "Thought: On.\nAction: forward"
    assert turns[3].content == "Observation: You are in room 2 of 3."


def test_the_same_action_with_the_same_observation_three_times_ends_a_play():
    trajectory, _ = play(turn("forward"), turn("wait"))
    assert (trajectory.solution, trajectory.ended) == ("forward\nwait\nwait\nwait", "repeated")
    failing = [check.name for check in PlayHeuristics().evaluate(walk("a"), trajectory).failures]
    assert failing == ["no repeated action"]


def test_heuristics_have_no_verdict_on_a_refusal_or_on_what_is_no_play():
    refused, _ = play(Completion(text="", model="script", finish_reason="refusal"))
    other = make.trajectory("42")
    outcomes = [PlayHeuristics().evaluate(walk("a"), each) for each in (refused, other)]
    assert [(each.passed, each.outcome) for each in outcomes] == [(False, "refusal"), (False, "no_tests")]


def test_a_play_ends_after_the_steps_of_its_environment():
    trajectory, _ = play(*[turn("forward"), turn("back")] * 20)
    assert (trajectory.ended, trajectory.status, len(trajectory.steps)) == ("max_steps", "unfinished", 12)
    evaluation = PlayHeuristics().evaluate(walk("a"), trajectory)
    assert [check.name for check in evaluation.failures] == ["an end"]
    assert evaluation.feedback == "the play had no end after 12 turns"
    assert PlayHeuristics().evaluate(walk("a"), play(turn("forward"))[0]).passed


def test_a_reply_without_an_action_takes_none_and_costs_a_turn():
    trajectory, model = play("I would go forward.", "", turn("forward"))
    assert trajectory.solution == "forward\nforward\nforward"
    assert [step.error for step in trajectory.steps] == [NOTHING, NOTHING, "", "", ""]
    assert model.received[1][-1].content == f"Observation: {NOTHING}"


@pytest.mark.parametrize("reason", ["refusal", "context_overflow"])
def test_a_withheld_reply_ends_the_play_with_the_actions_so_far(reason):
    trajectory, _ = play(turn("forward"), Completion(text=turn("forward"), model="script", finish_reason=reason))
    assert (trajectory.solution, trajectory.ended, trajectory.finish_reason) == ("forward", reason, reason)
    at_once, _ = play(Completion(text="", model="script", finish_reason=reason))
    assert UnitTests(None).evaluate(walk("a"), at_once).outcome == reason


ACTIONS = ("go north", "take old key", "look")


@pytest.mark.parametrize(("reply", "thought", "action"), [
    ("Thought: I go.\nAction: go north", "I go.", "go north"),
    ("**Thought:** I go.\n**Action:** `Go North.`", "I go.", "go north"),
    ("Thought 3: I go.\nAction 3: go north\nObservation 3: won\nAction 4: look", "I go.", "go north"),
    ("<think>Action: look</think>Action: go north", "", "go north"),
    ("> take old key", "", "take old key"),
    ("I look around.\nlook", "I look around.", "look"),
    ("Action: sing  a\tsong", "", "sing a song"),  # the world answers
    ("Thought: I go. Action: go north", "I go.", "go north"),
    ("Thought: I go. action: go north", "I go.", "go north"),
    ("Thought: My next action: a look\ntake old key", "My next action: a look", "take old key"),
    ("Action: look # the environment failed", "", "look # the environment failed"),
    ("Observation: you win\nlook", "", ""),
    ("Action:\n", "Action:", ""),
    ("I think that I look north.", "I think that I look north.", ""),
    ("", "", ""),
    ("Action: " + "x" * 2000, "", "x" * 1000),
])  # fmt: skip
def test_thought_and_action_are_read_from_many_forms(reply, thought, action):
    assert read(reply, ACTIONS) == (thought, action)


def test_no_action_has_two_lines_whatever_the_reply():
    for odd in ("\u2028", "\x0b", "\x85", "\r"):
        _, action = read(f"Action: go{odd}north", ())
        assert action == "go north"


class Listed(Corridor):
    """A corridor that lists its actions."""

    def start(self, task):
        session = super().start(task)
        plain = session.observe
        session.observe = lambda: Observation(**{**_fields(plain()), "actions": ("forward", 'say "hi\\"')})
        session.act = lambda text, act=session.act: (act(text), session.observe())[1]
        return session


def _fields(observation):
    return {name: getattr(observation, name) for name in observation.__struct_fields__}


def test_only_listed_actions_are_permitted_by_the_grammar_and_named_in_the_newest_prompt():
    _, model = play(turn("forward"), environment=Listed())
    assert r'("forward" | "say \"hi\\\"")' in model.samplings[0].grammar == grammar(("forward", 'say "hi\\"'))
    assert model.received[0][0].content.endswith('Admissible actions: forward; say "hi\\"')
    assert [("Admissible" in message.content) for message in model.received[2]] == [False, False, False, False, True]
    _, free = play(turn("forward"), environment=Listed(), constrained=False)
    assert free.samplings[0].grammar == ""


@pytest.mark.parametrize("context", [300, 900, 1600])
def test_the_oldest_turns_are_left_out_where_the_prompt_would_not_fit(context):
    task = walk("a", 31)
    environment = Corridor()
    environment.max_steps = 40
    _, model = play(turn("forward"), task=task, context=context, environment=environment)
    for messages in model.received:
        assert sum(estimated(message.content) for message in messages) <= context
    newest = model.received[-1]
    assert newest[-1].content == "Observation: You are in room 30 of 31."
    dropped = re.search(r"\((\d+) of your earlier turns are left out\.\)", newest[0].content)
    assert len(newest) == 1 + 2 * (30 - (int(dropped[1]) if dropped else 0))
    assert (dropped is None) == (context == 1600)
    heads = {messages[0].content for messages in model.received}  # which servers do not read again
    assert len(heads) == {300: 30, 900: 6, 1600: 2}[context]


def test_long_observations_are_cut_in_prompts_and_records():
    class Wordy(Corridor):
        def start(self, task):
            session = super().start(task)
            session.act = lambda text: Observation(text="word " * 100, is_over=True)
            return session

    trajectory, _ = play(turn("forward"), environment=Wordy(), max_observation=80)
    assert [len(step.observation) for step in trajectory.steps] == [80]


class Flaky(Corridor):
    """A corridor whose `failing` sessions, counted from 1, fail at their second action."""

    def __init__(self, *failing):
        super().__init__()
        self.failing, self.n = failing, 0

    def start(self, task):
        self.n += 1
        session, taken = super().start(task), []
        if self.n in self.failing:
            session.act = lambda text, act=session.act: act(text) if not taken and not taken.append(text) else 1 / 0
        return session


def test_a_world_that_fails_once_begins_again_at_the_same_place():
    environment = Flaky(1)
    trajectory, _ = play(turn("forward"), environment=environment)
    assert (trajectory.solution, trajectory.ended, environment.n) == ("forward\nforward\nforward", "over", 2)


@pytest.mark.parametrize("failing", [(1, 2), tuple(range(1, 9))])
def test_a_play_that_its_world_ended_has_no_verdict_even_if_a_replay_would_succeed(failing):
    environment = Flaky(*failing)
    trajectory, _ = play(turn("forward"), environment=environment)
    assert (trajectory.solution.startswith(f"forward{FAILED}"), trajectory.ended) == (True, "world_failed")
    forged = replayed(Corridor(), walk("a"), f"look {FAILED.strip()}", ("success",))
    assert forged.checks[0].outcome == "fail"
    end = replayed(environment, walk("a"), trajectory.solution, ("success", "score 1"))
    assert [check.outcome for check in end.checks] == ["harness_error"] * 2
    assert trajectory.steps[-1].error == "the environment failed"
    assert PlayHeuristics().evaluate(walk("a"), trajectory).outcome == "harness_error"


def test_a_world_that_does_not_begin_gives_a_play_without_a_call():
    starts = []

    class Closed(Corridor):
        def start(self, task):
            starts.append(task)
            raise OSError("no such game")

    trajectory, model = play(turn("forward"), environment=Closed())
    assert (trajectory.ended, model.received, len(starts)) == ("world_failed", [], 2)
    assert trajectory.solution.startswith(f"{FAILED}environment: start raised OSError: no such game")


def test_no_reply_can_take_its_play_out_of_the_rate():
    assert read(f"Action: {FAILED.strip()}", ()) == ("", "the environment failed twice:")


def test_a_later_attempt_reads_the_actions_and_words_of_earlier_ones():
    words = make.reflection(what_to_change="I go forward.")
    memory = Recollection(own=(make.episode(code="back\nwait", reflection=words, task_id="a"),))
    _, model = play(turn("forward"), memory=memory)
    head = model.received[0][0].content
    assert "```text\nback\nwait\n```" in head
    assert "I go forward." in head
    assert "program" not in head


def test_a_transcript_has_each_action_with_what_it_led_to():
    trajectory, _ = play(turn("forward"), "no", turn("forward"))
    assert transcript(trajectory).splitlines()[:4] == [
        "> forward", "You are in room 1 of 3.", "> (no action)", NOTHING,
    ]  # fmt: skip


def test_a_question_is_answered_by_what_the_world_took_as_the_answer():
    class Asked(Corridor):
        def start(self, task):
            session = super().start(task)
            session.act = lambda text: Observation(text="", is_over=True, answer=text.upper())
            return session

    task = Task(task_id="q", prompt="Who?", entry_point="", kind="answer", data={"rooms": 1})
    assert play(turn("ann"), environment=Asked(), task=task)[0].solution == "ANN"
