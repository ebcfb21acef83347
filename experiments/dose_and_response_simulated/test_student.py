"""A student repairs by the truth of the words that it reads, in every prompt."""

import pytest
from msgspec.structs import replace

from experiments.dose_and_response_simulated.student import Student
from experiments.oracle_words.words import Corrupted, Oracle
from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.models.simulated import wrong
from reflexion_lab.agent.reflectors.placebo import Generic
from reflexion_lab.agent.reflectors.quoted import Quoted
from reflexion_lab.memory.episodic import episode_of
from reflexion_lab.records import Recollection, Sampling, Task
from reflexion_lab.text.prompts.render import VARIANTS, Prompts

SAMPLING = Sampling()
STUDENT = {"first": 0.0, "repair": 0.0, "repair_true": 1.0, "repair_wrong": 0.0}


def add_task(number):
    return Task(
        task_id=f"own/{number}",
        prompt=f'def add_{number}(x):\n    """x and {number}."""\n',
        entry_point=f"add_{number}",
        visible_tests=(f"assert add_{number}(1) == {number + 1}",),
        hidden_tests=(f"assert candidate(5) == {number + 5}",),
        canonical_solution=f"    return x + {number}\n",
    )


TASKS = [add_task(number) for number in range(9)]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("skill", [STUDENT, STUDENT | {"repair_true": 0.0, "repair_wrong": 1.0}])
@pytest.mark.parametrize(
    ("reflector", "is_true"),
    [
        (Oracle(TASKS), True),
        (Quoted(TASKS), True),
        (Corrupted(Oracle(TASKS), TASKS, share=0.0), True),
        (Corrupted(Oracle(TASKS), TASKS, share=1.0), False),
        (Generic(), False),
    ],
)
def test_a_student_heeds_true_words_in_every_prompt(attempt, variant, skill, reflector, is_true):
    actor = SingleShot(Student(TASKS, **skill), SAMPLING, Prompts(variant))
    for task in TASKS:
        failed = attempt(task.task_id, 1, 0.0, wrong(task, "0f0f"))
        words = reflector.reflect(task.public, failed, [])
        episode = episode_of(task, replace(failed, reflection=words), "session", "actor")
        program = actor.act(task.public, Recollection(own=(episode,), attempt=2)).solution
        assert ("wrong draft" not in program) == (is_true == (skill == STUDENT))


def test_wrong_words_that_quote_a_line_of_the_draft_stay_wrong(attempt):
    model, task = Student(TASKS, **STUDENT), TASKS[3]
    failed = attempt(task.task_id, 1, 0.0, wrong(task, "0f0f"))
    words = replace(Generic().reflect(task.public, failed, []), root_cause="In `return x + 3`, `3` is wrong.")
    episode = episode_of(task, replace(failed, reflection=words), "session", "actor")
    actor = SingleShot(model, SAMPLING)
    assert "wrong draft" in actor.act(task.public, Recollection(own=(episode,), attempt=2)).solution


def test_a_curve_has_a_fingerprint_of_its_own():
    prints = {Student(TASKS, **skill).fingerprint for skill in ({}, {"repair_true": 0.5}, STUDENT, {"first": 0.1})}
    assert len(prints) == 4


def test_without_words_a_repair_is_as_likely_as_said():
    assert Student(TASKS, **STUDENT | {"repair": 0.4}).chance_of_repair(TASKS[3], wrong(TASKS[3], "0f0f"), "") == 0.4
