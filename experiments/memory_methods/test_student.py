"""A student whose gain from memory is planted: it solves as often as the rules in its prompt say."""

from random import Random

import pytest

from experiments.memory_methods import student as family_student
from experiments.memory_methods.families import families, rule_of, rules_in
from experiments.memory_methods.student import FamilyStudent
from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.reflectors.llm import LLMReflector
from reflexion_lab.cli.main import main
from reflexion_lab.memory.episodic import episode_of
from reflexion_lab.records import Message, Recollection, Sampling
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.text.prompts.render import VARIANTS, Prompts
from tests.builders import FAMILIES

SAMPLING = Sampling()
TASKS = families(seed=0, n=48, families=6)
NAIVE = families(seed=0, n=48, families=6, stream="naive")
LATER = [task for task in TASKS if "later" in task.tags]
FIRST = [task for task in TASKS if "first" in task.tags]
DRAWS = 12
"""Per task: 42 later tasks give 504 draws, of which four standard errors are at most 0.09."""


def others(task):
    return [rule_of(other) for other in FIRST if other.cluster != task.cluster]


def prompt_of(task, *memory):
    about = {"prompt": task.prompt, "memory": Recollection()}
    return "\n".join([Prompts().render("solve", **about), *memory])


def replies(model, prompt, n=DRAWS):
    messages = [Message(role="user", content=prompt)]
    return [model.complete(messages, sampling=SAMPLING, sample=sample).text for sample in range(n)]


def share_right(model, prompts):
    texts = [text for prompt in prompts for text in replies(model, prompt)]
    return sum("wrong draft" not in text for text in texts) / len(texts)


MEMORY = {
    "nothing": (lambda task: [], 0.2),
    "no rule": (lambda task: ["Read the examples closely."], 0.2),
    "its rule": (lambda task: [rule_of(task)], 0.8),
    "a longer text": (lambda task: [f"> I learnt: {rule_of(task)} Use it.", *others(task)], 0.8),
    "the first task": (lambda task: [next(t.prompt for t in FIRST if t.cluster == task.cluster)], 0.8),
    "a right program": (lambda task: [next(t for t in LATER if t.cluster == task.cluster).canonical_program], 0.8),
    "other rules": (others, 0.1),
    "a wrong rule": (lambda task: [family_student.changed(rule_of(task), Random(1))], 0.1),
}


@pytest.mark.parametrize("memory", MEMORY)
def test_programs_are_right_as_often_as_the_rules_in_the_prompt_say(memory):
    lines_of, planted = MEMORY[memory]
    model = FamilyStudent(TASKS)
    prompts = [prompt_of(task, *lines_of(task)) for task in LATER]
    assert {model.chance(task, prompt) for task, prompt in zip(LATER, prompts, strict=True)} == {planted}
    assert share_right(model, prompts) == pytest.approx(planted, abs=0.09)


def test_a_task_that_states_its_rule_needs_no_memory():
    assert share_right(FamilyStudent(NAIVE), map(prompt_of, NAIVE)) == pytest.approx(0.8, abs=0.09)
    assert {FamilyStudent(TASKS).chance(task, prompt_of(task, *others(task))) for task in FIRST} == {0.8}


@pytest.mark.parametrize("variant", VARIANTS)
def test_its_own_earlier_programs_change_no_probability(attempt, variant):
    model = FamilyStudent(TASKS, without=0.0)
    actor, tells = SingleShot(model, SAMPLING, Prompts(variant)), LLMReflector(model, SAMPLING, Prompts(variant))
    for task in LATER[:9]:
        draft = actor.act(task.public, Recollection()).solution
        assert "wrong draft" in draft and not rules_in(draft)
        failed = attempt(task.task_id, 1, 0.0, draft)
        reflected = attempt(task.task_id, 1, 0.0, draft, reflection=tells.reflect(task.public, failed, []))
        episode = episode_of(task, reflected, "session", "actor")
        assert "wrong draft" in actor.act(task.public, Recollection(own=(episode,), attempt=2)).solution


def test_right_programs_pass_and_wrong_ones_fail_every_test(sandbox):
    for skill, outcomes in ((0.0, {"error"}), (1.0, {"pass"})):
        actor = SingleShot(FamilyStudent(TASKS, without=skill, with_rule=skill), SAMPLING)
        for task in (FIRST[0], LATER[0]):
            program = actor.act(task.public, Recollection()).solution
            run = sandbox.run(program, task.entry_point, task.visible_tests + task.hidden_tests)
            assert {check.outcome for check in run.checks} == outcomes


def test_a_reply_depends_on_seed_prompt_and_draw_alone():
    prompt = prompt_of(LATER[0])
    assert replies(FamilyStudent(TASKS), prompt) == replies(FamilyStudent(TASKS), prompt)
    assert len(set(replies(FamilyStudent(TASKS), prompt))) > 1


def curated(monkeypatch, *shown, n=1, **skill):
    """Distinct rules in each of `n` replies to a curator that shows these texts."""
    monkeypatch.setitem(family_student.CURATIONS, "CURATE", lambda seen: "\n".join(seen.rules))
    return [rules_in(text) for text in replies(FamilyStudent(TASKS, **skill), "\n\n".join(["CURATE", *shown]), n)]


def test_as_a_curator_it_states_the_rules_of_the_tasks_shown(monkeypatch):
    late, first = LATER[0], next(task for task in FIRST if task.cluster != LATER[0].cluster)
    shown = [late.prompt, f"# {first.prompt[:60]}", late.canonical_program, LATER[0].entry_point]
    assert curated(monkeypatch, *shown) == [[rule_of(late), rule_of(first)]]
    assert curated(monkeypatch, f"A program of {LATER[0].entry_point} failed.") == [[]]


def test_without_insight_its_rules_have_the_right_term_and_a_wrong_constant(monkeypatch):
    rules = [rule for (rule,) in curated(monkeypatch, LATER[0].prompt, n=400, insight=0.7)]
    right = rule_of(LATER[0])
    assert rules.count(right) / 400 == pytest.approx(0.7, abs=0.1)
    assert {rule.split(" is ")[0] for rule in rules} == {right.split(" is ")[0]}


def test_a_task_that_is_still_to_be_solved_teaches_nothing():
    past, coming = FIRST[0], next(task for task in LATER if task.cluster != FIRST[0].cluster)
    about = {"trajectories": [past.prompt], "question": coming.prompt, "page": others(past)[-1], "words": 9}
    (page,) = replies(FamilyStudent(TASKS), Prompts().render("cheatsheet_synthesis", **about), n=1)
    assert rules_in(page) == [others(past)[-1], rule_of(past)]


def test_tasks_without_a_rule_are_refused():
    with pytest.raises(ValueError, match=r"model: got family_student for basics/\S+, .* expected benchmark=families"):
        FamilyStudent(basics(0, 1))


def test_the_fingerprint_depends_on_every_skill_and_on_the_tasks():
    skills = [{}, {"without": 0.3}, {"with_rule": 0.7}, {"with_wrong": 0.2}, {"insight": 0.5}]
    prints = {FamilyStudent(TASKS, **skill).fingerprint for skill in skills}
    assert len(prints | {FamilyStudent(TASKS[:9]).fingerprint}) == len(skills) + 1


@pytest.mark.parametrize(("stream", "right"), [("compositional", 6), ("naive", 24)])
def test_a_run_without_memory_solves_what_states_its_rule(tmp_path, monkeypatch, stream, right):
    """24 tasks in 6 families, and certain skills."""
    monkeypatch.chdir(tmp_path)
    code = main(
        [
            *("run", *FAMILIES, "benchmark.load.n=24", "benchmark.load.families=6"),
            *(f"benchmark.load.stream={stream}", "model.without=0", "model.with_rule=1"),
            *("actor=single_shot", "loop.max_attempts=1", "tracker=none", "quiet=true"),
        ]
    )
    folder = RunFolder.existing(next((tmp_path / "runs").glob("*-families-s0")))
    assert code == 0
    assert sum(folder.grades[task_id, 1].passed for task_id in folder.results) == right
    assert folder.manifest.model_fingerprint.startswith("family_student:")
