"""A model of known skill: it does what its numbers say, again and again, and is marked as no honest model."""

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.actors.react import ReAct
from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.critique.llm_critic import LLMCritic
from reflexion_lab.agent.models.simulated import SimulatedModel, wrong
from reflexion_lab.agent.reflectors.llm import LLMReflector
from reflexion_lab.agent.reflectors.quoted import Quoted
from reflexion_lab.errors import ModelError
from reflexion_lab.memory.episodic import episode_of
from reflexion_lab.records import Message, Recollection, Sampling, Task
from reflexion_lab.text.prompts.render import VARIANTS, Prompts

SAMPLING = Sampling()


def add_task(number):
    return Task(
        task_id=f"own/{number}", prompt=f'def add_{number}(x):\n    """x and {number}."""\n',
        entry_point=f"add_{number}", visible_tests=(f"assert add_{number}(1) == {number + 1}",),
        hidden_tests=(f"assert candidate(5) == {number + 5}",), canonical_solution=f"    return x + {number}\n",
    )  # fmt: skip


TASKS = [add_task(number) for number in range(600)]


ABOUT = {"prompt": TASKS[3].prompt, "memory": Recollection()}
FOURTH = [Message(role="user", content=Prompts().render("solve", **ABOUT))]


def share_right(model, recollection=lambda task: Recollection(), tasks=TASKS):
    actor = SingleShot(model, SAMPLING)
    programs = [actor.act(task.public, recollection(task)).solution for task in tasks]
    return sum("wrong draft" not in program for program in programs) / len(tasks)


@pytest.fixture
def after(attempt):
    """What an actor reads after such a program at its first attempt."""

    def of(task, program):
        failed = attempt(task.task_id, 1, 0.0, program)
        return Recollection(own=(episode_of(task, failed, "session", "actor"),), attempt=2)

    return of


# 600 draws: four standard errors are at most 0.082.


@pytest.mark.slow
def test_the_first_program_is_right_with_its_probability():
    assert share_right(SimulatedModel(TASKS, first=0.8)) == pytest.approx(0.8, abs=0.082)
    assert share_right(SimulatedModel(TASKS, first=0.3, spread=0)) == pytest.approx(0.3, abs=0.082)
    assert [share_right(SimulatedModel(TASKS, first=first), tasks=TASKS[:60]) for first in (0, 1)] == [0, 1]


@pytest.mark.parametrize(
    ("skill", "draft", "share"),
    [
        ({"first": 0, "repair": 0.4}, lambda task: wrong(task, "0f0f"), 0.4),
        ({"first": 0, "damage": 0.3}, lambda task: task.canonical_program, 0.7),
    ],
)
def test_the_last_program_is_fixed_or_broken_with_its_probability(after, skill, draft, share):
    model = SimulatedModel(TASKS, **skill)
    assert share_right(model, lambda task: after(task, draft(task))) == pytest.approx(share, abs=0.082)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_quoted_whole_program_is_no_draft(attempt, variant):
    task = replace(TASKS[3], prompt="Write add_3.", canonical_solution=TASKS[3].canonical_program)
    for damage, repair in ((1.0, 1.0), (0.0, 0.0)):
        model = SimulatedModel([task], first=0, damage=damage, repair=repair)
        failed = attempt(task.task_id, 1, 0.0, wrong(task, "0f0f"))
        words = Quoted([task]).reflect(task.public, failed, [])
        episode = episode_of(task, replace(failed, reflection=words), "session", "actor")
        actor = SingleShot(model, SAMPLING, Prompts(variant))
        program = actor.act(task.public, Recollection(own=(episode,), attempt=2)).solution
        assert ("wrong draft" not in program) == (repair == 1)


def test_the_fingerprint_depends_on_skill_and_seed():
    skills = [{}, {"first": 0.1}, {"first": 0.2}, {"seed": 1}, {"first": 0.1, "seed": 1}]
    prints = [SimulatedModel(TASKS[:2], **skill).fingerprint for skill in skills]
    assert len(set(prints)) == len(skills)
    assert prints[0] == "simulated:0a8d7424ec3e5eed"


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_of_the_prompt_shows_it_the_last_program(after, variant):
    model = SimulatedModel(TASKS[:9], first=0.5, repair=1, damage=1)
    actor = SingleShot(model, SAMPLING, Prompts(variant, examples=2))
    for task in TASKS[:9]:
        assert "wrong draft" not in actor.act(task.public, after(task, wrong(task, "0f0f"))).solution
        assert "wrong draft" in actor.act(task.public, after(task, task.canonical_program)).solution


def test_another_tasks_program_is_not_its_own_past(after):
    model = SimulatedModel(TASKS, first=1, repair=0, damage=1)
    other = [TASKS[1], *[TASKS[0]] * 59]
    assert (
        share_right(
            model, lambda task: after(other[TASKS.index(task)], wrong(other[TASKS.index(task)], "0f0f")), TASKS[:60]
        )
        == 1
    )


def test_draws_depend_on_seed_prompt_and_number_alone_and_are_alike_at_full_spread():
    model = SimulatedModel(TASKS, first=0.5, spread=1)
    names = {"wrong draft" in model.complete(FOURTH, sampling=SAMPLING, sample=n).text for n in range(30)}
    assert len(names) == 1
    mixed = SimulatedModel(TASKS, first=0.5, spread=0)
    assert len({"wrong draft" in mixed.complete(FOURTH, sampling=SAMPLING, sample=n).text for n in range(30)}) == 2
    model, twin = (SimulatedModel(TASKS, first=0.5, spread=0) for _ in range(2))
    draws = [model.complete(FOURTH, sampling=SAMPLING, sample=n).text for n in range(20)]
    assert draws == [twin.complete(FOURTH, sampling=SAMPLING, sample=n).text for n in reversed(range(20))][::-1]
    other = replace(SAMPLING, seed=1)
    assert draws != [model.complete(FOURTH, sampling=other, sample=n).text for n in range(20)]


def test_right_programs_pass_wrong_ones_fail_and_it_takes_its_turn_in_react(sandbox):
    for task in TASKS[:3]:
        for program, outcomes in ((task.canonical_program, {"pass"}), (wrong(task, "0f0f"), {"error"})):
            ran = sandbox.run(program, task.entry_point, [*task.visible_tests, *task.hidden_tests])
            assert {check.outcome for check in ran.checks} == outcomes
    trajectory = ReAct(SimulatedModel(TASKS, first=1, spread=0), sandbox, SAMPLING).act(TASKS[5].public, Recollection())
    assert (trajectory.ended, [step.action for step in trajectory.steps]) == ("finish", ["finish"])
    assert "return x + 5" in trajectory.solution


@pytest.mark.parametrize("shape", ["fields", "lessons", "service", "session"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_reflects_in_the_form_that_it_is_asked_for(attempt, shape, variant):
    reflector = LLMReflector(SimulatedModel(TASKS), SAMPLING, Prompts(variant), shape=shape)
    reflection = reflector.reflect(TASKS[0].public, attempt("own/0", 1, 0.0, "def add_0(x): ..."), [])
    assert "return the value that the check wants" in reflection.what_to_change
    assert bool(reflection.lessons) == (shape in ("lessons", "service"))
    assert bool(reflection.key_insight) == (shape == "session")


@pytest.mark.parametrize("variant", VARIANTS)
def test_as_a_critic_it_tells_a_wrong_draft_from_a_right_one(variant):
    critic = LLMCritic(SimulatedModel(TASKS), SAMPLING, Prompts(variant))
    severities = [
        critic.critique(TASKS[0].public, program).severity
        for program in (TASKS[0].canonical_program, wrong(TASKS[0], "0a1b"))
    ]
    assert severities == [0.0, 0.8]


@pytest.mark.parametrize("variant", VARIANTS)
def test_as_a_writer_of_tests_it_returns_the_visible_ones(variant):
    prompt = Prompts(variant).render("write_tests", prompt=TASKS[3].prompt, entry_point="add_3", n=3)
    reply = SimulatedModel(TASKS).complete([Message(role="user", content=prompt)], sampling=SAMPLING).text
    assert reply == "```python\nassert add_3(1) == 4\n```"


def test_a_prompt_of_no_task_and_a_task_without_a_solution_are_errors():
    with pytest.raises(ModelError, match="expected one of the benchmark"):
        SimulatedModel(TASKS).complete([Message(role="user", content="write a poem")], sampling=SAMPLING)
    with pytest.raises(ValueError, match="own/0 has no canonical solution"):
        SimulatedModel([replace(TASKS[0], canonical_solution="")])


def test_a_partly_wrong_program_passes_its_share_of_tests_and_never_all(sandbox):
    task = replace(
        TASKS[3],
        visible_tests=tuple(f"assert add_3({x}) == {x + 3}" for x in range(400)),
        hidden_tests=("assert candidate(5) == 8", "assert candidate(6) == 9"),
    )
    model = SimulatedModel([task], first=0, partial=0.4)
    for sample in range(5):
        program = model.complete(FOURTH, sampling=SAMPLING, sample=sample).text.strip("`").removeprefix("python\n")
        visible, hidden_tests = (
            [check.outcome for check in sandbox.run(program, task.entry_point, tests).checks]
            for tests in (task.visible_tests, task.hidden_tests)
        )
        assert visible.count("pass") / 400 == pytest.approx(0.4, abs=0.1)  # four standard errors
        assert {*visible} == {"pass", "fail"} and "fail" in hidden_tests
    assert model.fingerprint != SimulatedModel([task], first=0).fingerprint
