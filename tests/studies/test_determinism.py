"""Disagreement of equal calls: measured on a server that flips a known share of its replies."""

import itertools
import json
import random

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.studies.determinism import Reply, across, first_difference, within
from tests.studies.small_runs import chat_server

PROGRAM = "```python\ndef answer(*arguments):\n    return {}\n```"


def flipping(flips):
    """The same program for every prompt; another one where `flips` says so of a call's number."""
    numbers = itertools.count()

    def reply(_request):
        flipped = int(flips(next(numbers)))
        return {"text": PROGRAM.format(flipped), "system_fingerprint": f"fp-{flipped}"}

    return chat_server(reply)


@pytest.fixture
def probed(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none-is-needed")

    def probe(http, *words, slots=1):
        overrides = [
            "model=openai", "model.model=fake", f"model.base_url={http.url}", f"model.slots={slots}",
            "actor=single_shot", f"run_root={tmp_path}", "benchmark.limit=20",
        ]  # fmt: skip
        code = main(["doctor", "--determinism", *overrides, *words])
        return code, *capsys.readouterr()

    return probe


def conditions(out):
    return json.loads(out.splitlines()[-1])["conditions"]


@pytest.mark.parametrize("share", [pytest.param(0.0, marks=pytest.mark.slow), 0.2])
def test_the_interval_covers_the_share_of_flipped_replies(probed, share):
    draws = random.Random(5)
    flips = [draws.random() < share for _ in range(120)]
    with flipping(flips.__getitem__) as http:
        code, out, _ = probed(http, "--prompts", "20", "--repeats", "6", "--json")
    assert code == 0
    (alone,) = conditions(out)
    assert alone["pairs"]["low"] <= 2 * share * (1 - share) <= alone["pairs"]["high"]
    assert alone["differing"]["low"] <= 1 - share**6 - (1 - share) ** 6 <= alone["differing"]["high"]
    assert alone["same_program"]["value"] == pytest.approx(1 - alone["pairs"]["value"])
    by_prompt = [flips[number::20] for number in range(20)]
    assert alone["differing"]["k"] == sum(len(set(replies)) > 1 for replies in by_prompt)
    assert set(alone["first_differences"]) <= {PROGRAM.index("{")}
    assert len(alone["system_fingerprints"]) == 1 + any(flips)


def test_replies_that_change_under_load_differ_between_conditions(probed):
    with flipping(lambda number: number >= 20) as http:
        code, out, _ = probed(http, "--prompts", "10", "--repeats", "2", "--json", slots=4)
    assert code == 0
    shares = {condition["name"]: condition["pairs"]["value"] for condition in conditions(out)}
    assert shares == {"alone": 0, "4 at once": 0, "between the two": 1}
    assert conditions(out)[2]["same_program"]["value"] == 0


def test_equal_calls_have_one_seed_and_never_come_from_the_cache(probed):
    with flipping(lambda number: False) as http:
        for _ in range(2):
            code, out, _ = probed(http, "--prompts", "3", "--repeats", "4", slots=2)
            assert code == 0
            assert "24 calls to openai:" in out.splitlines()[0]
            assert "the call cache is off" in out.splitlines()[0]
    requests = [json.dumps(request, sort_keys=True) for request in http.requests]
    assert [requests.count(request) for request in set(requests)] == [16, 16, 16]


@pytest.mark.parametrize(
    ("words", "code", "calls", "message"),
    [
        (("caps.calls=3",), 3, 3, "caps.calls=3 is reached"),
        (("--repeats", "1"), 2, 0, "--repeats: got 1, expected 2 or more"),
    ],
)
def test_caps_and_impossible_repeats_stop_the_probe(probed, words, code, calls, message):
    with flipping(lambda number: False) as http:
        exit_code, _, errors = probed(http, *words)
    assert (exit_code, len(http.requests)) == (code, calls)
    assert message in errors


def test_an_actor_of_several_turns_is_measured_by_its_first_reply(probed):
    turns = ("actor=critique_revise", "actor@actor.generator=single_shot", "reviser=llm", "critic=llm")
    with flipping(lambda number: number == 0) as http:
        code, out, errors = probed(http, *turns, "--prompts", "2", "--json")
    assert code == 0, errors
    (alone,) = conditions(out)
    assert (alone["differing"]["k"], alone["same_program"]) == (1, None)


def test_intervals_cover_the_true_rate_in_about_95_of_100():
    draws, covered, share = random.Random(1), 0, 0.2
    for _ in range(40):
        replies = [[Reply("ab"[draws.random() < share], "") for _ in range(5)] for _ in range(20)]
        pairs = within("", replies).pairs
        covered += pairs.low <= 2 * share * (1 - share) <= pairs.high
    assert covered >= 34


def test_pairs_are_counted_within_a_prompt_only():
    replies = [[Reply("a", "p"), Reply("a", "p"), Reply("b", "p")], [Reply("x", "q")] * 3]
    agreement = within("some", replies)
    assert (agreement.differing.k, agreement.differing.n, agreement.replies) == (1, 2, 6)
    assert agreement.pairs.value == pytest.approx((2 / 3 + 0) / 2)
    assert agreement.same_program.value == 1
    assert across("both", replies, replies).pairs.value == pytest.approx((4 / 9 + 0) / 2)


@pytest.mark.parametrize(
    ("first", "second", "place"), [("abc", "abd", 2), ("ab", "abc", 2), ("", "x", 0), ("é!", "e!", 0)]
)
def test_the_first_difference_is_a_character_counted_from_0(first, second, place):
    assert first_difference(first, second) == first_difference(second, first) == place
