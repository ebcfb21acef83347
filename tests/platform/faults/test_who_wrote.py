"""Who wrote the reflections stands on the first screen of a run and of a comparison."""

import pytest
from model_server import ModelServer, completion, wrong_answer

FIELDS = "ROOT_CAUSE: a cause {}\nWHAT_WENT_WRONG: a symptom\nWHAT_TO_CHANGE: I will count to n\nCONFIDENCE: 0.7"
FORM = """ROOT_CAUSE: which line or decision of my program is to blame, and why
WHAT_WENT_WRONG: how that led to the wrong result in the failing check
WHAT_TO_CHANGE: the one concrete change that I will make next
CONFIDENCE: a number from 0 to 1"""


@pytest.fixture
def lab(command_line):
    """Runs the command line; a server whose reflector answers by `words`, or with a status of an error."""
    words, asked = [FIELDS], [0]

    def respond(body, headers):
        prompt, asked[0] = body["messages"][-1]["content"], asked[0] + 1
        if "ROOT_CAUSE" not in prompt:
            return 200, completion(wrong_answer(prompt), (len(prompt) // 4, 20), "m")
        if isinstance(words[0], int):
            return words[0], {"error": {"message": "no such model"}}
        return 200, completion(words[0].format(asked[0]), (len(prompt) // 4, 20), "m")

    with ModelServer(respond) as server:

        def screen_of(command, *arguments, reflects=FIELDS):
            words[0] = reflects
            own = ("model.retries=0", "cache.mode=off") if command == "run" else ()
            code, screen, _ = command_line(server if own else None, command, *arguments, *own)
            assert code == 0
            return screen

        yield screen_of


@pytest.mark.parametrize(
    ("reflects", "overrides", "said", "marked"),
    [
        (FIELDS, (), "reflections 4 by the model", ""),
        (FORM, (), "reflections 4 (0 by the model: 4 parse_error)", "0 of 8 reflections by the model (8 fallback:"),
        (404, ("reflector.on_failure=skip",), "reflections 4 (0 by the model: 4 not_found)",
         "0 of 8 reflections by the model (8 failed)"),
        (FIELDS, ("reflector=rules",), "reflections 4 (4 rules)", "CONTROL: no model wrote the 8 reflections"),
        (FIELDS, ("reflector=keywords",), "reflections 4 (4 control:keywords)",
         "CONTROL: a control moved or changed the words of the 8"),
    ],
)  # fmt: skip
def test_the_first_screen_says_who_wrote_the_reflections(lab, reflects, overrides, said, marked):
    for seed in ("seed=0", "seed=1"):
        screen = lab("run", *overrides, seed, "arm=words", reflects=reflects)
        assert f"· {said}" in screen
        lab("run", "experiment=retry", "temperature=0.8", seed, "reflector=none")
    compared = lab("compare", "runs")
    if marked:
        assert marked in compared
    else:
        assert "by the model" not in compared
