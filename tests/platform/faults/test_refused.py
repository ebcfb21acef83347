"""Prompts that a server refuses in unknown words: outcomes of their loops, or the end of a run that cannot work."""

import json
import re

import pytest
from model_server import ModelServer, completion, wrong_answer

from reflexion_lab.runner.folder.folder import folders
from reflexion_lab.tasks.benchmarks.basics import basics

NAMES = [re.escape(task.entry_point) for task in basics(seed=0, n=6)]
FIRST, THIRD = rf"def {NAMES[0]}\b", rf"def {NAMES[2]}\b"
CURATOR = ("curator=reasoning_bank", "memory.shared.round_size=1")
LINE = "REFUSED PROMPTS: the server refused "


class Refusing(ModelServer):
    """Refuses prompts that match `pattern`. `asked`: requests; `paid`: the bodies of those that it answered."""

    def __init__(self, pattern):
        self.pattern, self.asked, self.paid = pattern, 0, []
        super().__init__()

    def answer(self, handler, raw):
        prompt = json.loads(raw)["messages"][-1]["content"]
        self.asked += 1
        if re.search(self.pattern, prompt, re.DOTALL):
            return handler.send({"detail": "Request contains an invalid argument."}, 422)
        self.paid.append(raw)
        return handler.send(completion(wrong_answer(prompt), (len(prompt) // 4, 20), "m"))


@pytest.fixture
def lab(command_line):
    def command(server, *words):
        own = ("model.price_per_million=[1,2]", "cache.executions=../executions.sqlite", *words)
        code, screen, errors = command_line(server, "run", *own)
        assert len(server.paid) == len(set(server.paid)), "an answer was paid twice"
        return code, screen, errors, folders("runs")[0]

    return command


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "overrides", "counts"),
    [
        (FIRST, (), "3 of 9 prompts of the actor, 1 of 4 prompts of the reflector; 2 of 8 attempts have no program"),
        (THIRD, (), "3 of 9 prompts of the actor, 1 of 4 prompts of the reflector; 2 of 8 attempts have no program"),
        (THIRD, ("workers=4",), "3 of 9 prompts of the actor, 1 of 4 prompts of the reflector; 2 of 8"),
        (f"(?=.*ROOT_CAUSE).*{THIRD}", (), "1 of 4 prompts of the reflector: set model.context"),
        (f"(?=.*First I think).*{THIRD}", CURATOR, "1 of 4 prompts of the curator: set model.context"),
        ("^(?!.*ROOT_CAUSE).*Earlier attempts", (), "4 of 12 prompts of the actor: set model.context"),
    ],
)  # fmt: skip
def test_a_refused_prompt_is_an_outcome_of_its_loop_and_named(lab, command_line, pattern, overrides, counts):
    with Refusing(pattern) as server:
        code, screen, errors, folder = lab(server, *overrides)
    assert (code, LINE + counts in screen) == (0, True), screen + errors
    refused = [a for loop in folder.attempts.values() for a in loop if a.trajectory.finish_reason == "refused"]
    assert all(
        "422" in attempt.trajectory.reply and "invalid argument" in attempt.trajectory.reply for attempt in refused
    )
    assert {attempt.evaluation.outcome for attempt in refused} <= {"refused"}
    if refused:
        assert "invalid argument" in command_line(None, "show", str(folder.path), refused[0].task_id)[1]
    assert LINE in command_line(None, "show", str(folder.path))[1]
    assert LINE in command_line(None, "compare", "runs")[1]
    assert command_line(None, "verify", str(folder.path))[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize(
    ("pattern", "asked"), [("", 3), ("ROOT_CAUSE", 6), (f"ROOT_CAUSE|def (?!{NAMES[0]})", 8)],
    ids=["all", "a role", "after an answer"],
)  # fmt: skip
def test_a_server_that_refuses_every_prompt_stops_the_run_soon(lab, pattern, asked, workers):
    with Refusing(pattern) as server:
        code, _, errors, folder = lab(server, f"workers={workers}", "benchmark.load.n=6")
        assert (code, "invalid argument" in errors, "model.extra_body" in errors) == (2, True, True), errors
        assert server.asked <= asked * workers
        server.pattern = THIRD
        code, _, errors, folder = lab(server, f"workers={workers}", "benchmark.load.n=6", f"resume={folder.path}")
    assert (code, len(folder.results)) == (0, 6), errors


def test_a_finished_run_with_a_refused_prompt_asks_nothing_again(lab):
    with Refusing(THIRD) as server:
        *_, folder = lab(server)
        asked = server.asked
        code, screen, errors, _ = lab(server, f"resume={folder.path}")
    assert (code, server.asked, LINE in screen) == (0, asked, True), errors


def test_rules_replace_a_reflector_that_is_refused_on_request(lab):
    with Refusing("ROOT_CAUSE") as server:
        code, screen, errors, _ = lab(server, "reflector.on_failure=fallback")
    assert (code, "reflections 4 (0 by the model: 4 generation_failed)" in screen) == (0, True), screen + errors
