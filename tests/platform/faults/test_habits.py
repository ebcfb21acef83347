"""Habits of servers, met by actor, reflector and curator: right verdicts or counted outcomes, nothing paid twice."""

import json
import re
from collections import Counter

import pytest
from fault_server import OVERFLOWS, FaultServer, error
from habits import HABITS
from model_server import wrong_answer

from reflexion_lab.runner.folder.folder import folders
from reflexion_lab.tasks.benchmarks.basics import basics

PROGRAMS = {task.entry_point: task.canonical_program for task in basics(seed=0, n=6)}
FIRST, _, THIRD, *_ = (rf"def {name}\b" for name in PROGRAMS)
MARKS = {"ROOT_CAUSE": "reflector", "First I think": "curator"}
ITEM = "TITLE: ends\nDESCRIPTION: for loops\nCONTENT: count to n"
CURATOR = ("curator=reasoning_bank", "memory.shared.round_size=1")
SGLANG = {"message": "The input (9120 tokens) is longer than the model's context length (400 tokens)."}
GEMINI = {"message": "Provider returned error", "metadata": {"raw": "Gemini blocked the request: PROHIBITED_CONTENT"}}
INVALID = {"detail": "Request contains an invalid argument."}


def role_of(text):
    return next((role for mark, role in MARKS.items() if mark in text), "actor")


class Server(FaultServer):
    """A student who solves each task at the second attempt. `paid`: how often each request got its answer."""

    def __init__(self, plan, model="m"):
        self.paid, self.attempts = Counter(), Counter()
        super().__init__(self.reply, plan, model)

    def answer(self, handler, raw):
        if handler.path != "/v1/chat/completions":
            return handler.send({"detail": "Not Found"}, 404)
        return super().answer(handler, raw)

    def reply(self, body):
        prompt = body["messages"][-1]["content"]
        self.paid[json.dumps(body)] += 1
        if (role := role_of(prompt)) != "actor":
            return ITEM if role == "curator" else wrong_answer(prompt)
        name = next(name for name in PROGRAMS if re.search(rf"def {name}\b", prompt))
        self.attempts[name] += 1
        return f"```python\n{PROGRAMS[name]}\n```" if self.attempts[name] > 1 else wrong_answer(prompt)


@pytest.fixture
def lab(command_line):
    def command(server, *words):
        own = ("model.price_per_million=[1,2]", "cache.executions=../executions.sqlite", "silent_replies=null")
        code, screen, errors = command_line(server, "run", *own, *words)
        assert {*server.paid.values(), *server.answered.values()} <= {1}, "an answer was paid twice"
        return code, screen, errors, folders("runs")[0]

    return command


def refusing(habit):
    """The server refuses parameters, each in its own words."""

    def fault(handler, server, body):
        status, reply = HABITS[habit](body) or (200, server.completion(body))
        handler.send(reply, status)

    return lambda request: fault


def on(pattern, status, body):
    """The server refuses prompts that match `pattern`."""
    return lambda request: error(status, body) if re.search(pattern, request.text, re.DOTALL) else ""


def once(fault):
    return lambda request: fault if request.nth == 1 else ""


OWN = "SERVER'S OWN top_p in {total} of {total} replies"
ONE = "REFUSED PROMPTS: the server refused 1 of 4 prompts of the {role}"
LOST = "attempts without a program: 2 of 8 (2 {})"
TABLE = {
    "seed": (refusing("mistral"), 4, "", ""), "closed fields": (refusing("closed"), 4, OWN, OWN),
    "top_p": (refusing("tgi"), 4, OWN, OWN), "o-series": (refusing("o_series"), 4, OWN, OWN),
    "too long": (on(THIRD, 400, SGLANG), 3, LOST.format("context_overflow"), ONE),
    "in detail": (on(THIRD, 400, {"detail": OVERFLOWS["vllm"][1]["message"]}), 3, LOST.format("context_overflow"), ONE),
    "filter": (on(THIRD, 400, {"error": GEMINI}), 3, LOST.format("content_filter"), ONE),
    "unknown words": (on(THIRD, 422, INVALID), 3, LOST.format("refused"), ONE),
    "thoughts alone": (lambda _: "thought", 0, *["{total} of {total} replies are empty, all of their text in"] * 2),
    "budget of thoughts": (lambda _: "budget", 0, *["{total} of {total} replies ended at max_tokens"] * 2),
    "no usage": (lambda _: "no_usage", 4, *["({total} of {calls} replies without usage)"] * 2),
    "429": (once("429_zero"), 4, "", ""), "500": (once("500"), 4, "", ""), "file name": (lambda _: "", 4, "", ""),
    "no /v1": (lambda _: "", 4, "", ""),
    "cut": (lambda _: "cut", 4, *["CUT PROMPTS: the server cuts {total} of {total} prompts of the {role}"] * 2),
}  # fmt: skip
"""By habit: when it shows, tasks solved if the actor meets it, words of the first screen then, and of other roles."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("habit", "role"),
    [(habit, role) for n, habit in enumerate(TABLE) for role in ("actor", ("reflector", "curator")[n % 2])],
)
def test_a_habit_is_met_or_counted_and_nothing_is_paid_twice(lab, habit, role):
    plan, solved, of_actor, of_others = TABLE[habit]
    name = "file-Q4_1.gguf" if habit == "file name" else "m"
    with Server(lambda request: plan(request) if role_of(request.text) == role else "", name) as server:
        server.about["/v1/models"] = ({"object": "list", "data": [{"id": name}]},)
        own = (f"model.base_url={server.url.removesuffix('/v1')}",) * (habit == "no /v1")
        code, screen, errors, _ = lab(server, *own, *(CURATOR if role == "curator" else ()))
    assert code == 0, errors
    assert f"{solved if role == 'actor' else 4} of 4 tasks" in screen
    total, calls = (8, 12) if role == "actor" else (4, 12 + 4 * (role == "curator"))
    words = (of_actor if role == "actor" else of_others).format(role=role, total=total, calls=calls)
    assert words in screen, screen


LINE = "REFUSED PROMPTS: the server refused "


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "overrides", "counts"),
    [
        (FIRST, (), "3 of 9 prompts of the actor, 1 of 4 prompts of the reflector; attempts without a program: 2 of 8"),
        (THIRD, ("workers=4",), "3 of 9 prompts of the actor, 1 of 4 prompts of the reflector; attempts without a pro"),
        ("^(?!.*ROOT_CAUSE).*Earlier attempts", (), "4 of 12 prompts of the actor: set model.context"),
    ],
)  # fmt: skip
def test_a_refused_prompt_is_named_after_a_try_with_less_memory(lab, command_line, pattern, overrides, counts):
    with Server(on(pattern, 422, INVALID)) as server:
        code, screen, errors, folder = lab(server, *overrides)
    assert (code, LINE + counts in screen) == (0, True), screen + errors
    for attempt in [a for loop in folder.attempts.values() for a in loop if a.evaluation.outcome == "refused"]:
        assert f"422 - {INVALID['detail']}" in attempt.trajectory.reply
        assert INVALID["detail"] in command_line(None, "show", str(folder.path), attempt.task_id)[1]
    assert LINE in command_line(None, "show", str(folder.path))[1]
    assert LINE in command_line(None, "compare", "runs")[1]
    assert command_line(None, "verify", str(folder.path))[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "asked", "workers"), [("", 3, 1), ("ROOT_CAUSE", 6, 4), (f"ROOT_CAUSE|def (?!{FIRST[4:]})", 8, 1)],
    ids=["all", "a role", "after an answer"],
)  # fmt: skip
def test_a_server_that_refuses_every_prompt_stops_the_run_soon(lab, pattern, asked, workers):
    six = (f"workers={workers}", "benchmark.load.n=6")
    with Server(on(pattern, 422, INVALID)) as server:
        code, _, errors, folder = lab(server, *six)
        assert (code, INVALID["detail"] in errors, "model.extra_body" in errors) == (2, True, True), errors
        assert len(server.requests) <= asked * workers
        server.plan = on(THIRD, 422, INVALID)
        code, _, errors, folder = lab(server, *six, f"resume={folder.path}")
        asked = len(server.requests)
        assert (code, len(folder.results)) == (0, 6), errors
        assert LINE in lab(server, *six, f"resume={folder.path}")[1]
        assert len(server.requests) == asked
