"""How often a model answers otherwise is measured as it is: on a server of our own that flips a known share."""

import json
import random
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.studies.determinism import Said, across, first_difference, within

PROGRAM = "```python\ndef answer(*arguments):\n    return {}\n```"


class Flipping(BaseHTTPRequestHandler):
    """Gives the same program to every prompt, or where `flips` says so for this call, another one."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.counting:
            number = len(self.server.asked)
            self.server.asked.append(asked)
        flipped = self.server.flips(number)
        choice = {"message": {"role": "assistant", "content": PROGRAM.format(int(flipped))}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9}
        named = {"model": "fake", "system_fingerprint": f"fp-{int(flipped)}"}
        body = json.dumps({"choices": [choice], "usage": usage, **named}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *parts):
        pass


@contextmanager
def serving(flips):
    """`flips`: from a call's number to whether its reply is another one."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), Flipping)
    http.flips, http.asked, http.counting = flips, [], threading.Lock()
    thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield http
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def probed(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none-is-needed")

    def probe(http, *words, slots=1):
        overrides = [
            "model=openai", "model.model=fake", f"model.base_url=http://127.0.0.1:{http.server_port}/v1",
            f"model.slots={slots}", "actor=single_shot", f"run_root={tmp_path}", "benchmark.limit=20",
        ]  # fmt: skip
        code = main(["doctor", "--determinism", *overrides, *words])
        out, errors = capsys.readouterr()
        return code, out, errors

    return probe


def told(out):
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("share", [pytest.param(0.0, marks=pytest.mark.slow), 0.2])
def test_the_rate_found_covers_the_share_of_replies_that_are_flipped(probed, share):
    draws = random.Random(5)
    flips = [draws.random() < share for _ in range(120)]
    with serving(flips.__getitem__) as http:
        code, out, _ = probed(http, "--prompts", "20", "--repeats", "6", "--json")
    assert code == 0
    (alone,) = told(out)["conditions"]
    assert alone["pairs"]["low"] <= 2 * share * (1 - share) <= alone["pairs"]["high"]
    assert alone["differing"]["low"] <= 1 - share**6 - (1 - share) ** 6 <= alone["differing"]["high"]
    assert alone["same_program"]["value"] == pytest.approx(1 - alone["pairs"]["value"])
    by_prompt = [flips[number::20] for number in range(20)]
    assert alone["differing"]["k"] == sum(len(set(made)) > 1 for made in by_prompt)
    assert set(alone["first_differences"]) <= {PROGRAM.index("{")}
    assert len(alone["system_fingerprints"]) == 1 + any(flips)


def test_a_model_that_answers_otherwise_under_load_agrees_with_itself_and_differs_between_conditions(probed):
    with serving(lambda number: number >= 20) as http:
        code, out, _ = probed(http, "--prompts", "10", "--repeats", "2", "--json", slots=4)
    assert code == 0
    alone, at_once, between = told(out)["conditions"]
    assert [one["name"] for one in (alone, at_once, between)] == ["alone", "4 at once", "between the two"]
    assert (alone["pairs"]["value"], at_once["pairs"]["value"], between["pairs"]["value"]) == (0, 0, 1)
    assert between["same_program"]["value"] == 0


def test_equal_calls_are_asked_with_one_seed_and_never_answered_from_the_cache(probed):
    with serving(lambda number: False) as http:
        for _ in range(2):
            code, out, _ = probed(http, "--prompts", "3", "--repeats", "4", slots=2)
            assert code == 0
            assert "24 calls to openai:" in out.splitlines()[0]
            assert "the call cache is off" in out.splitlines()[0]
        asked = [json.dumps(call, sort_keys=True) for call in http.asked]
    assert len(asked) == 48
    assert len(set(asked)) == 3
    assert {asked.count(call) for call in asked} == {16}


def test_the_probe_stays_within_the_caps(probed):
    with serving(lambda number: False) as http:
        code, _, errors = probed(http, "caps.calls=3")
        assert len(http.asked) == 3
    assert code == 3
    assert "caps.calls=3 is reached" in errors


def test_one_repeat_has_nothing_to_be_compared_with(probed):
    with serving(lambda number: False) as http:
        code, _, errors = probed(http, "--repeats", "1")
        assert http.asked == []
    assert code == 2
    assert "--repeats: got 1, expected 2 or more" in errors


def test_an_actor_of_several_turns_is_measured_by_its_first_reply_alone(probed):
    turns = ("actor=critique_revise", "actor@actor.generator=single_shot", "reviser=llm", "critic=llm")
    with serving(lambda number: number == 0) as http:
        code, out, errors = probed(http, *turns, "--prompts", "2", "--json")
    assert code == 0, errors
    (alone,) = told(out)["conditions"]
    assert alone["differing"]["k"] == 1
    assert alone["same_program"] is None


def test_intervals_hold_the_true_rate_in_about_95_of_100():
    draws, held, share = random.Random(1), 0, 0.2
    for _ in range(40):
        replies = [[Said("ab"[draws.random() < share], "") for _ in range(5)] for _ in range(20)]
        found = within("", replies).pairs
        held += found.low <= 2 * share * (1 - share) <= found.high
    assert held >= 34


def test_pairs_are_counted_within_a_prompt_and_never_between_prompts():
    one, other = [Said("a", "p"), Said("a", "p"), Said("b", "p")], [Said("x", "q")] * 3
    found = within("some", [one, other])
    assert (found.differing.k, found.differing.n, found.replies) == (1, 2, 6)
    assert found.pairs.value == pytest.approx((2 / 3 + 0) / 2)
    assert found.same_program.value == 1
    assert across("both", [one, other], [one, other]).pairs.value == pytest.approx((4 / 9 + 0) / 2)


@pytest.mark.parametrize(
    ("one", "other", "place"), [("abc", "abd", 2), ("ab", "abc", 2), ("", "x", 0), ("é!", "e!", 0)]
)
def test_the_first_difference_is_a_character_counted_from_0(one, other, place):
    assert first_difference(one, other) == first_difference(other, one) == place
