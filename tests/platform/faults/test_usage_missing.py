"""Replies without a token count: spending is a lower bound and its cost unknown, in every view."""

import itertools
import json
import math
import re
from contextlib import contextmanager

import pytest
from model_server import ModelServer, completion, wrong_answer

import reflexion_lab as rl
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.cli.main import main
from reflexion_lab.runner.folder.folder import folders
from reflexion_lab.studies.tracking.run_view import metrics

SAID = "at least 1,200 tokens, cost unknown (1 of 6 replies without usage)"


@pytest.fixture
def screens(command_line):
    """Runs commands with a server that says the same all the time; `usage` makes the usage of a reply to a prompt."""

    @contextmanager
    def served(usage):
        def respond(body, headers):
            prompt = body["messages"][-1]["content"]
            return 200, completion(wrong_answer(prompt), model="m") | {"usage": usage(prompt)}

        def screen(command, *words):
            own = ("model.price_per_million=[3,15]", "benchmark.load.n=2") if command in ("run", "estimate") else ()
            code, printed, _ = command_line(server if own else None, command, *own, *words)
            assert code == 0
            return printed

        with ModelServer(respond) as server:
            yield screen

    return served


def counted(prompt_tokens=220):
    return {"prompt_tokens": prompt_tokens, "completion_tokens": 20, "total_tokens": prompt_tokens + 20}


def test_one_reply_without_usage_is_told_in_every_view(screens, monkeypatch):
    number = itertools.count(1)  # every sixth reply has no usage
    with screens(lambda prompt: counted() if next(number) % 6 else None) as said:
        monkeypatch.setenv("COLUMNS", "100")
        assert f"6 calls, {SAID}" in said("run")
        (folder,) = folders("runs")
        assert SAID in said("show", str(folder.path))
        full = said("show", "--full", str(folder.path))
        assert SAID in full
        assert re.search(r"all 6 ≥ 1,100 ≥ 100 - \S+ unknown", full)
        assert SAID in said("run", "-m", "seed=0", "run_root=swept", "cache.mode=off")
        said("run", "seed=1", "cache.mode=off", "experiment=retry")
        said("run", "seed=1", "cache.mode=off")
        for full in ((), ("--full",)):
            compared = said("compare", "runs", *full)
            assert "at least 2,400 tokens, cost unknown (2 of 12 replies without usage)" in compared
        assert "reflexion 12 - - - - -" in compared
    frames = rl.load(folder.path)
    assert math.isnan(frames.runs.cost[0])
    assert frames.runs.uncounted[0] == 1
    assert frames.attempts.cost.isna().sum() == 1
    log = Log.read(folder)
    assert not [metric.name for metric in metrics(log, summary(log)) if metric.name.endswith("cost")]


@pytest.mark.parametrize(("usage", "words"), [
    ({"completion_tokens": 20}, "at least 60 tokens, cost unknown (3 of 3 replies without usage)"),
    ({"prompt_tokens": 220}, "at least 660 tokens, cost unknown (3 of 3 replies without usage)"),
    ({"prompt_tokens": 220, "total_tokens": 240}, "720 tokens, cost 0.0029"),
    ({"completion_tokens": 20, "total_tokens": 240}, "720 tokens, cost 0.0029"),
])  # fmt: skip
def test_half_a_usage_is_missing_unless_the_total_gives_the_rest(screens, usage, words):
    with screens(lambda prompt: usage) as screen:
        assert f"3 calls, {words}" in screen("run", "benchmark.load.n=1")


def test_a_budget_of_a_loop_without_usage_has_a_line(screens):
    with screens(lambda prompt: None) as screen:
        printed = screen("run", "stop=[budget]", "stop.budget.tokens=9")
    assert "stop.budget.tokens took 6 replies without usage for free: set stop.budget.calls" in printed


def test_an_estimate_without_usage_is_no_estimate_of_0(screens):
    with screens(lambda prompt: None) as screen:
        text = screen("estimate", "benchmark.load.n=9")
    assert re.search(r"all .*≥ 0 \[0, 0\].* unknown", text)
    assert re.search(r"newly spent \d+ calls, at least 0 tokens, cost unknown", text)
    bound = re.search(r"as long as allowed: 36 calls, (\S+) tokens, cost 0\.3", text)
    assert int(bound[1].replace(",", "")) > 18 * (1024 + 192) + 36 * 100  # replies, and prompts
    assert "replies of the probe are without usage" in text


@pytest.mark.parametrize(("prices", "cost"), [({}, "unknown"), ({"actor": "unknown"}, "unknown"),
                                              ({"actor": "nothing is paid: it runs here"}, "0")])  # fmt: skip
def test_without_a_price_the_cost_is_unknown_and_not_0(tmp_path, monkeypatch, capsys, prices, cost):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "model=simulated", "benchmark.load.n=2", "tracker=none"]) == 0
    (folder,) = folders("runs")
    manifest = {**json.loads((folder.path / "manifest.json").read_text()), "prices": prices}
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    capsys.readouterr()
    main(["show", str(folder.path)])
    assert f"tokens, cost {cost}\n" in capsys.readouterr().out
    main(["show", "--full", str(folder.path)])
    assert (" unknown" in capsys.readouterr().out.partition("Usage")[2]) is (cost == "unknown")


@pytest.mark.parametrize(
    ("window", "roles"),
    [
        (10**6, set()),
        (20, {"actor", "reflector"}),  # less than a third of the estimate
        (150, {"reflector"}),  # more than a third, and the same count for prompts of any length
    ],
)
def test_prompts_that_the_server_cuts_are_told_with_the_key(screens, window, roles):
    with screens(lambda prompt: counted(min(len(prompt) // 4, window))) as screen_of:
        screen = screen_of("run", "benchmark.load.n=4")
    assert {
        role for role in ("actor", "reflector") if f"prompts of the {role}, {window} tokens counted" in screen
    } == roles
    assert ("set model.context" in screen) is bool(roles)
