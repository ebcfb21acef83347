"""Retry prompts of runs: lines by their text, own attempts as own, and nothing to correct in what passed."""

import re
from itertools import cycle

import pytest

from reflexion_lab.agent.models.simulated import SimulatedModel
from reflexion_lab.cli.main import main
from reflexion_lab.runner.config.compose import CONF
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.text.prompts.render import OVERHEAD
from reflexion_lab.text.shorten import estimated

RUN = ("benchmark=basics", "model=simulated", "tracker=none", "quiet=true", "model.repair=0.0", "cache.mode=off")
CASES = [
    ("single_shot", "default", "llm"), ("chain_of_thought", "terse", "rules"), ("react", "paper_style", "generic"),
    ("critique_revise", "default", "llm"),
]  # fmt: skip
NUMBERED = re.compile(r"\blines? \d+")
CORRECT = re.compile(r"corrected (function|version)|improved implementation|Failed before")


def prompts(root, *words):
    """The prompts of a run by task, attempt and call."""
    before = set(root.glob("2*"))
    assert main(["run", f"run_root={root}", *RUN, *words]) == 0
    (path,) = set(root.glob("2*")) - before
    attempts = RunFolder(path).attempts
    return {
        task: [
            ("\n".join(message.content for message in messages), attempt)
            for attempt in loop
            for messages in [attempt.trajectory.messages, *(step.messages for step in attempt.trajectory.steps)]
        ]
        for task, loop in attempts.items()
    }


@pytest.mark.parametrize(("actor", "variant", "reflector"), CASES)
def test_the_retries_of_a_second_pass_read_as_those_of_the_first(tmp_path, actor, variant, reflector):
    words = ["benchmark.limit=2", "benchmark.passes=2", "model.first=0.0", f"actor={actor}", f"prompts={variant}"]
    words += [f"reflector={reflector}"] if actor != "critique_revise" else ["actor@actor.generator=single_shot"]
    loops = prompts(tmp_path, *words, *(["reviser=llm"] if actor == "critique_revise" else []))
    seen = 0
    for task in [task for task in loops if not task.endswith("@pass2")]:
        first, second = loops[task], loops[f"{task}@pass2"]
        assert [text for text, _ in first] == [text for text, _ in second]
        for text, attempt in first:
            assert not NUMBERED.search(text), text
            assert "similar task" not in text.lower(), text
            seen += attempt.number > 1
    assert seen


def test_a_context_without_room_for_an_attempt_keeps_what_to_change(tmp_path, capsys):
    words = ["benchmark.limit=1", "model.first=0.0", "actor=single_shot", "actor.sampling.max_tokens=512"]
    (((first, _), *_),) = prompts(tmp_path, *words).values()
    (loop,) = prompts(tmp_path, *words, f"model.context={estimated(first) + 512 + OVERHEAD + 30}").values()
    for text, attempt in loop[1:]:
        assert f"Attempt {attempt.number - 1} failed. What to change: " in text and "```" not in text[len(first) :]
    capsys.readouterr()
    assert len(loop) > 1 and main(["show", str(max(tmp_path.glob("2*")))]) == 0
    assert "BLIND RETRIES" not in capsys.readouterr().out


@pytest.mark.parametrize("variant", ["default", "terse", "paper_style"])
def test_a_recalled_attempt_that_passed_is_not_to_be_corrected(tmp_path, variant):
    words = ["benchmark.limit=3", "model.first=1.0", "actor=single_shot", "recall=similar", f"prompts={variant}"]
    words += ["memory.shared.same_task=true", "store=sqlite", f"store.place={tmp_path / 'm.sqlite'}"]
    prompts(tmp_path, *words)
    recalling = [text for loop in prompts(tmp_path, *words).values() for text, attempt in loop if attempt.recalled]
    assert recalling and not any(CORRECT.search(text) for text in recalling)


ACTORS = [
    "single_shot", "chain_of_thought", "react", "critique_revise actor@actor.generator=single_shot reviser=llm",
    "candidates", "warming", "escalation",
]  # fmt: skip
CURATORS = sorted(path.stem for path in (CONF / "curator").glob("*.yaml") if path.stem not in ("none", "gold"))
METHODS = [
    *(f"preset={path.stem} actor=single_shot" for path in sorted((CONF / "preset").glob("*.yaml"))),
    *(
        f"curator={curator} actor={actor}" + (f" reflector={reflector}" if "revise" not in actor else "")
        for curator, actor, reflector in zip(CURATORS, cycle(ACTORS), cycle(["llm", "rules", "llm_json"]), strict=False)
    ),
]
NEW_PART = re.compile(r"\n(?=(?:# )?(?:My attempt|Attempt|Reflection) \d|(?:# )?Similar |Note |- )")
CHECKS = re.compile(r"^(?:- |# |`)*assert .*", re.MULTILINE)
CODE = re.compile(r"```.*?```", re.DOTALL)


def repeated(prompt):
    """Pieces of sentences that stand twice in what a prompt says of one attempt; programs and lists of checks aside."""
    parts = NEW_PART.split(CHECKS.sub("", CODE.sub("", prompt)))
    pieces = [(part, piece.strip()) for part in parts for piece in re.split(r"\n|[.:!?][\s\"]+", part)]
    code = ("Return ", ">>> ", "raise ValueError(")  # programs without a fence, in prompts of curators
    twice = {piece for part, piece in pieces if len(piece) > 30 and part.count(piece) > 1}
    return {piece for piece in twice if not piece.startswith(code)}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_prompt_of_every_role_says_what_is_true_once(tmp_path, monkeypatch, method):
    complete, asked = SimulatedModel.complete, []

    def recorded(self, messages, **options):
        asked.append("\n".join(message.content for message in messages))
        return complete(self, messages, **options)

    monkeypatch.setattr(SimulatedModel, "complete", recorded)
    words = [*method.split(), "benchmark.limit=3", "benchmark.passes=2", "model.first=0.4", "workers=1"]
    for loop in prompts(tmp_path, *words).values():
        for text, attempt in loop:
            assert not CORRECT.search(text) or attempt.number > 1 or text.startswith("Correct a draft")
    assert len(asked) > 6
    for text in asked:
        assert not NUMBERED.search(text), text
        assert not repeated(text), (repeated(text), text)
