"""Runs of questions: the right answer reaches no prompt, and the words are those of answers."""

import json
import re

import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.agent.actors.candidates import Candidates
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.agent.models.simulated import SimulatedModel
from reflexion_lab.agent.reflectors.llm import LLMReflector
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.agent.reflectors.self_review import SelfReview
from reflexion_lab.records import Recollection, Sampling, Task, Trajectory
from reflexion_lab.tasks.benchmarks.reasoning import reasoning
from reflexion_lab.tasks.environments.replay import FAILED
from reflexion_lab.tasks.evaluators.answers import SelfConsistency, check_of
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.text.replies.answers import key
from tests import builders as make

TASKS = [
    Task(
        task_id=f"q{n}", prompt=f"Which town is number {n}?", entry_point="", kind="answer", data={"is_number": False},
        hidden_tests=(check_of("exact", f"Townhall{n}"),), canonical_solution=f"Townhall{n}",
    )
    for n in range(6)
]  # fmt: skip
COMMON = ("experiment=reasoning", "model=simulated", "tracker=none", "model.first=0", "model.spread=0", "quiet=true")
CODE = re.compile(r"\b(?:program|function|code|check failed)\b", re.IGNORECASE)


def run(tmp_path, *overrides, tasks=TASKS):
    return rl.run(*COMMON, *overrides, benchmark=tasks, workers=1, run_root=tmp_path)


def prompts(tmp_path):
    for path in tmp_path.rglob("attempts.jsonl"):
        for line in path.read_text().splitlines():
            yield from (message["content"] for message in json.loads(line)["trajectory"]["messages"])


@pytest.mark.parametrize("actor", ["single_shot", "chain_of_thought"])
@pytest.mark.parametrize("reflector", ["llm", "rules"])
def test_answers_are_repaired_by_reflections_in_words_about_answers(tmp_path, actor, reflector):
    frames = rl.load(run(tmp_path, f"actor={actor}", f"reflector={reflector}", "model.repair=1"))
    assert set(frames.tasks["passed"]) == {True} and set(frames.tasks["attempts"]) == {2}
    texts = [*prompts(tmp_path)]
    assert len(texts) == 12 and sum("is wrong." in text for text in texts) == 6
    assert not [CODE.findall(text) for text in texts if CODE.search(text)]
    assert not [text for text in texts if "Townhall" in text], "right answers stand in no prompt"


def test_the_oracle_never_gives_away_the_answer_that_nobody_finds(tmp_path):
    run(tmp_path, "model.repair=0")
    written = {path.name: path.read_text(errors="replace") for path in tmp_path.rglob("*.json*")}
    assert len(written) > 3 and "# wrong draft" in written["attempts.jsonl"]
    assert not [name for name, text in written.items() if "Townhall" in text]


def test_the_control_repeats_the_first_prompt_and_both_arms_share_first_answers(tmp_path):
    known = ("model.first=0.5", "model.spread=1")
    words, retry = (run(tmp_path / arm, *known, f"arm={arm}", *more) for arm, more in
                    {"reflexion": (), "retry": ("reflector=none", "recall.omega=0")}.items())  # fmt: skip
    first = [[a.passed for a in rl.load(each).attempts.query("number == 1").itertuples()] for each in (words, retry)]
    assert first[0] == first[1] and {*first[0]} == {True, False}
    assert len({*prompts(tmp_path / "retry")}) == len(TASKS)


def test_without_an_oracle_the_model_reviews_its_answer(tmp_path):
    own = ("feedback_source=none", "reflector=self_review", "stop=[satisfied]", "model.review=1", "model.repair=1")
    frames = rl.load(run(tmp_path, *own))
    assert set(frames.tasks["hidden_passed"]) == {True} and set(frames.tasks["stop_reason"]) == {"satisfied"}
    assert not [text for text in prompts(tmp_path) if CODE.search(text)]


def test_without_an_oracle_agreement_is_the_feedback(tmp_path):
    own = ("feedback_source=none", "evaluator=self_consistency", "actor=candidates", "actor.rule=vote", "actor.n=3")
    more = ("actor@actor.actor=single_shot", "model.first=0.6", "loop.max_attempts=2", "model.repair=1")
    frames = rl.load(run(tmp_path, *own, *more))
    attempts = [json.loads(line) for path in tmp_path.rglob("attempts.jsonl") for line in path.read_text().splitlines()]
    assert {attempt["trajectory"]["usage"]["calls"] for attempt in attempts} == {3}, "every draw is paid for"
    assert {attempt["evaluation"]["reward"] for attempt in attempts} <= {1 / 3, 2 / 3, 1.0}
    assert set(frames.attempts["number"]) == {1, 2}
    assert any("answers disagree" in text for text in prompts(tmp_path))


class Says:
    def __init__(self, *answers):
        self.answers = iter(answers)

    def act(self, task, recollection):
        return Trajectory(solution=next(self.answers), strategy="x")


def voted(task, *answers):
    return Candidates(Says(*answers), make_unjudged(), len(answers), "vote").act(task, Recollection())


def make_unjudged():
    class Unjudged:
        def evaluate(self, task, trajectory):
            return run_tests(None, task, trajectory.solution, ())

    return Unjudged()


def test_a_vote_counts_answers_as_the_rules_compare_them():
    number = replace(TASKS[0], data={"is_number": True})
    assert voted(number, "4", "$5.0", "5").solution == "$5.0"
    assert voted(TASKS[0], "the End", "x", "end!").solution == "the End"
    assert voted(replace(TASKS[0], data={"options": ["x"]}), "x", "y", "y").solution == "y", "options of one's own"
    assert key(replace(TASKS[0], data={"options": {"A": "B", "B": "A", "C": ""}}), "A") == "A"
    options = replace(TASKS[0], data={"options": {"B": "Rome", "C": "Paris"}})
    assert voted(options, "B", "C", "rome", "C) Paris", "Paris").solution == "C"
    failed = f"{FAILED}no such game"
    for none in ("", failed):
        assert voted(TASKS[0], none, none, "x").solution == "x", "no answer is no answer's vote"
    assert SelfConsistency().evaluate(number, voted(number, failed, failed, "5")).outcome == "no_tests"
    task = replace(TASKS[0], visible_tests=TASKS[0].hidden_tests)
    best = Candidates(Says(failed, "x"), make_unjudged(), 2, "best").act(task, Recollection())
    assert best.solution == "x", "a failed world is no answer"
    verdict = SelfConsistency(0.6).evaluate(number, voted(number, "4", "5", "5.0"))
    assert (verdict.passed, round(verdict.reward, 2)) == (True, 0.67)
    verdict = SelfConsistency(0.7).evaluate(number, voted(number, "4", "5", "5.0"))
    assert (verdict.outcome, verdict.feedback) == ("fail", "My 3 answers disagree: '5' 2 times, '4' 1 times.")
    assert SelfConsistency().evaluate(number, voted(number, "", "")).outcome == "extraction_failed"
    assert SelfConsistency().evaluate(number, Trajectory(solution="4", strategy="x")).outcome == "no_tests"


class Recording(ScriptedModel):
    grammars: tuple[str, ...] = ()

    def complete(self, messages, *, sampling, sample=0):
        self.grammars += (sampling.grammar,)
        return super().complete(messages, sampling=sampling, sample=sample)


def attempt_at(task, answer, tests=None):
    evaluation = run_tests(None, task, answer, task.hidden_tests if tests is None else tests)
    return make.attempt(trajectory=Trajectory(solution=answer, strategy="x", reply=answer), evaluation=evaluation)


def test_reflections_speak_of_answers():
    reply = "ROOT_CAUSE: I misread it\nWHAT_WENT_WRONG: it\nWHAT_TO_CHANGE: read again\nCONFIDENCE: 0.5"
    review = "REVIEW: My answer is fine\nVERDICT: correct\nWHAT_TO_CHANGE: nothing"
    for kind, text in ((LLMReflector, reply), (SelfReview, review)):
        model = Recording(lambda _, text=text: text)
        for answer in ("Oslo", "", "my program of work"):
            kind(model, Sampling()).reflect(TASKS[0], attempt_at(TASKS[0], answer), ())
        asked = [messages[-1].content for messages in model.received]
        assert not CODE.search("\n".join(asked).replace("my program of work", ""))
        assert "my program of work" in asked[2] and not any(CODE.search(grammar) for grammar in model.grammars)
    for answer in ("Oslo", ""):
        texts = Rules().reflect(TASKS[0], attempt_at(TASKS[0], answer), ())
        assert not CODE.search(repr(texts).replace("no_program", ""))


def test_no_admitted_family_accepts_the_simulated_models_wrong_answer():
    tasks = reasoning(["quantum_lock", "gsm_symbolic", "sokoban", "fraction_simplification"], n=8).tasks
    model = SimulatedModel(tasks, first=0)
    assert model.chance(tasks[0], "```text\n# wrong draft 0a1b\n```") == model.repair
    for task in tasks:
        assert not run_tests(None, task, "# wrong draft 0a1b", task.hidden_tests).passed
