"""Models that say nothing: the first screen has the number and the key that helps, and such a run stops early."""

import json
import re

import pytest
from model_server import ModelServer, completion, wrong_answer

from reflexion_lab.cli.main import main
from reflexion_lab.runner.folder.folder import folders

VERDICT = "ISSUE: the loop ends early\nSUGGESTION: count to n\nSEVERITY: 0.9"
ALL = {"actor", "reflector", "critic", "suite_writer", "curator"}


def role_of(prompt):
    marks = {"ROOT_CAUSE": "reflector", "SEVERITY": "critic", "I need tests": "suite_writer",
             "First I think": "curator"}  # fmt: skip
    return next((role for mark, role in marks.items() if mark in prompt), "actor")


def spoken(prompt):
    """What a model says that knows its forms, but no program that passes."""
    return {"critic": VERDICT, "suite_writer": "assert 1 == 1"}.get(role_of(prompt)) or wrong_answer(prompt)


def silent(text, finish="stop", reasoning_tokens=0, **message):
    def answer(body):
        tokens = body["max_tokens"] if finish == "length" else 40
        reply = completion(text, (100, tokens), "m", finish, **message)
        reply["usage"]["completion_tokens_details"] = {"reasoning_tokens": reasoning_tokens and tokens}
        return reply

    return answer


CALL = [{"id": "1", "type": "function", "function": {"name": "solve", "arguments": "{}"}}]
THOUGHT = "8,192 of their 8,192 tokens reasoning"
CUT = "8 of 8 replies ended at max_tokens=1024"
EMPTY = "8 of 8 replies are empty"
HIDDEN = f"{EMPTY}, all of their text in reasoning_content: set model.extra_body={{chat_template_kwargs:"
FORMS = {
    "reasoning_content": (silent(None, reasoning_content="A sum."), HIDDEN),
    "budget": (silent("", "length", 1, reasoning_content="Hm."), f"{CUT}, {THOUGHT}: raise actor"),
    "prose cut": (silent("Let me think about it", "length"), f"{CUT}: raise actor.sampling.max_tokens"),
    "think alone": (silent("<think>a sum</think>\n"), f"{EMPTY}: see whether model.model"),
    "tool call": (silent(None, "tool_calls", tool_calls=CALL), f"{EMPTY} (tool_calls): set model.extra_body={{tool_"),
}


class Server(ModelServer):
    """Answers `silenced` roles by `form`, and others in words; from its `after`-th request on, or of some `tasks`."""

    def __init__(self, form, silenced=ALL, after=0, tasks=""):
        self.form, self.silenced, self.after, self.tasks, self.asked = form, silenced, after, tasks, 0
        super().__init__()

    def answer(self, handler, raw):
        body = json.loads(raw)
        prompt, self.asked = body["messages"][-1]["content"], self.asked + 1
        is_silent = role_of(prompt) in self.silenced and self.asked > self.after and re.search(self.tasks, prompt)
        handler.send(self.form(body) if is_silent else completion(spoken(prompt), (100, 40), "m"))


@pytest.fixture
def lab(command_line):
    """Runs against a server: exit code, and all that is printed on one line."""

    def command(server, *words):
        own = ("model.price_per_million=[1,2]", "cache.executions=../executions.sqlite")
        code, *printed = command_line(server, "run", *own, *words)
        return code, " ".join(printed)

    return command


def attempts_of(folder):
    return [attempt for loop in folder.attempts.values() for attempt in loop]


@pytest.mark.parametrize("form", FORMS)
def test_a_run_whose_first_eight_replies_say_nothing_stops_and_goes_on_by_a_key(lab, form):
    answer, words = FORMS[form]
    with Server(answer) as server:
        code, printed = lab(server)
        assert (code, words in printed) == (4, True), printed
        assert "silent_replies=null" in printed
        (folder,) = folders("runs")
        paid = server.asked
        again, printed_again = lab(server, f"resume={folder.path}")
        assert (again, server.asked, words in printed_again) == (4, paid, True)  # the calls are kept
        code, screen = lab(server, f"resume={folder.path}", "silent_replies=null")
    assert code == 0
    assert form != "budget" or main(["bundle", str(folder.path)]) == 0
    assert f"SILENT ACTOR: {words}" in screen
    assert "SILENT REFLECTOR: 4 of 4 replies" in screen
    reflections = [attempt.reflection for attempt in attempts_of(folder) if attempt.reflection]
    assert {words.category for words in reflections} == {"no_program"}
    assert not any("valid Python" in str(words) for words in reflections)


ROLES = {
    "reflector": ((), "4 of 4 replies ended at max_tokens=192: raise reflector.first.sampling.max_tokens"),
    "critic": (
        ("actor=critique_revise", "actor@actor.generator=single_shot", "critic=llm", "reviser=llm"),
        "8 of 8 replies ended at max_tokens=256: raise critic.sampling.max_tokens",
    ),
    "suite_writer": (
        ("feedback_source=self_tests", "suite_writer=chat"),
        "4 of 4 replies ended at max_tokens=1024: raise suite_writer.writer.sampling.max_tokens",
    ),
    "curator": (
        ("curator=reasoning_bank", "loop.max_attempts=1"),
        "4 of 4 replies ended at max_tokens=512: raise curator.sampling.max_tokens",
    ),
}  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
def test_a_role_that_alone_says_nothing_has_its_line_and_its_key(lab, role):
    overrides, words = ROLES[role]
    with Server(silent("<think>\nHm", "length"), {role}) as server:
        code, screen = lab(server, *overrides)
    assert code == 0
    assert f"SILENT {role.upper()}: " in screen
    assert words in screen
    assert screen.count("SILENT") == 1


@pytest.mark.parametrize("role", ["critic", "reflector"])
def test_a_reply_that_says_its_part_and_is_cut_afterwards_is_not_silent(lab, role):
    words = VERDICT if role == "critic" else "ROOT_CAUSE: a cause\nWHAT_WENT_WRONG: a symptom\nWHAT_TO_CHANGE: a fix"
    with Server(silent(f"{words}\nCONFIDENCE: 0.7\nAnd so on", "length"), {role}) as server:
        code, screen = lab(server, *ROLES[role][0])
    assert (code, "SILENT" in screen) == (0, False), screen


def test_replies_that_are_empty_after_a_first_success_stop_nothing(lab):
    with Server(FORMS["tool call"][0], {"actor"}, after=1) as server:
        code, screen = lab(server, "benchmark.load.n=9")
    assert code == 0
    assert "SILENT ACTOR: 17 of 18 replies are empty (tool_calls)" in screen


@pytest.mark.parametrize(("tasks", "code"), [("", 4), ("def (?!reads_both_ways)", 0), ("def (?!too_long)", 4)])
def test_the_stop_does_not_depend_on_the_number_of_workers(lab, tasks, code):
    """The first eight replies are those of the first tasks, of which one speaks, or a later one does."""
    for workers in (1, 8):
        with Server(FORMS["budget"][0], {"actor"}, tasks=tasks) as server:
            assert lab(server, "benchmark.load.n=12", f"workers={workers}", f"run_root=w{workers}")[0] == code


def test_a_reply_with_an_action_is_not_silent_and_an_attempt_counts_once(lab):
    for text, expected in ("Thought 1: I look.\nAction: run_code\nInput:\nprint(1)\n", 0), ("Hm, let me see", 4):
        with Server(silent(text, "length"), {"actor"}) as server:
            code, printed = lab(server, "actor=react", "benchmark.load.n=8", f"run_root=e{expected}")
        assert (code, server.asked >= 8) == (expected, True), printed


def test_silent_cells_of_a_sweep_say_so_and_go_on_by_the_key(lab):
    answer, words = FORMS["budget"]
    with Server(answer) as server:
        code, screen = lab(server, "-m", "seed=0,1", "quiet=true")
        assert (code, screen.count(words), "cells 0, 1: " in screen) == (4, 1, True), screen
        assert lab(server, "-m", "seed=0,1", "silent_replies=null")[0] == 0
