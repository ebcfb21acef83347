import pytest
from msgspec.structs import replace

from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.critique.critique_revise import CritiqueRevise
from reflexion_lab.agent.critique.llm_reviser import LLMReviser
from reflexion_lab.agent.critique.tool_critic import ToolCritic
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.errors import CritiqueError, HarnessError, ModelError, ModelNotFound, StoreError
from reflexion_lab.records import Critique, Message, Recollection, Sampling, Step, Trajectory, Usage
from reflexion_lab.tasks.evaluators.combined import Combined
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests

COST = Usage(calls=1, prompt_tokens=10, completion_tokens=5)
TEXTS = ("a" * 10, "b" * 30, "c" * 60, "d" * 90, "e" * 120)


class Drafts:
    """A generator and a reviser that write one text after another, and remember what they were given."""

    def __init__(self, texts=TEXTS, steps=(), fails_at=None):
        self.texts, self.steps, self.fails_at = iter(texts), steps, fails_at
        self.memories, self.revised = [], []

    def act(self, task, recollection):
        self.memories.append(recollection)
        return self.next(steps=self.steps)

    def revise(self, task, program, critique):
        self.revised.append((program, critique))
        if len(self.revised) == self.fails_at:
            raise ModelError("the server is gone")
        return self.next()

    def next(self, **more):
        text = next(self.texts)
        messages = (Message(role="user", content=f"write {text[0]}"),)
        return Trajectory(solution=text, strategy="x", messages=messages, reply=f"say {text[0]}", usage=COST, **more)


class Says:
    """A critic that says one thing after another, or raises it."""

    def __init__(self, *critiques):
        self.critiques, self.saw = iter(critiques), []

    def critique(self, task, program):
        self.saw.append(program)
        item = next(self.critiques)
        if isinstance(item, Exception):
            raise item
        return item


def severity(value, score=None, **more):
    return Critique(severity=value, score=score, source="llm", usage=COST, **more)


def run(task, *critiques, drafts=None, **options):
    drafts = drafts or Drafts()
    return CritiqueRevise(drafts, Says(*critiques), drafts, **options).act(task, Recollection())


def test_each_step_has_the_critique_of_its_draft(task):
    drafts, critic = Drafts(), Says(*(severity(s) for s in (0.9, 0.7, 0.5)))
    trajectory = CritiqueRevise(drafts, critic, drafts).act(task, Recollection())
    assert critic.saw == [step.program for step in trajectory.steps] == list(TEXTS[:3])
    assert [step.critique.severity for step in trajectory.steps] == [0.9, 0.7, 0.5]
    assert [(program, critique.severity) for program, critique in drafts.revised] == [(TEXTS[0], 0.9), (TEXTS[1], 0.7)]
    assert [step.reply for step in trajectory.steps] == ["say a", "say b", "say c"]
    assert [step.messages[0].content for step in trajectory.steps] == ["write a", "write b", "write c"]


@pytest.mark.parametrize(
    "problem", [HarnessError("no sandbox"), StoreError("disk full"), ModelNotFound("no such model")]
)
def test_what_a_user_has_to_fix_stops_it_loudly(task, problem):
    with pytest.raises(type(problem), match=str(problem)):
        run(task, problem)


def test_only_the_generator_reads_memory_and_its_turns_are_kept(task):
    turn = Step(action="run", usage=COST)
    drafts, memory = Drafts(steps=(turn,)), Recollection(insights=("look twice",))
    trajectory = CritiqueRevise(drafts, Says(severity(0.1)), drafts).act(task, memory)
    assert drafts.memories == [memory]
    assert trajectory.steps[0] == turn
    assert sum((step.usage for step in trajectory.steps), Usage()) == trajectory.usage


def test_a_passing_draft_beats_a_failing_one_with_clean_types(sandbox, task):
    wrong, right = "def double(x: int) -> int:\n    return x * x\n", "def double(x: int) -> str:\n    return 2 * x\n"
    three = replace(task, visible_tests=("assert double(2) == 4", "assert double(1) == 2", "assert double(0) == 0"))
    drafts = Drafts((right, wrong))
    trajectory = CritiqueRevise(drafts, ToolCritic(Combined(sandbox)), drafts).act(three, Recollection())
    assert (trajectory.solution, trajectory.ended) == (right, "low_severity")


def test_real_tests_drive_a_real_revision(sandbox, task):
    def replies(messages):
        text = messages[-1].content
        return f"```python\ndef double(x):\n    return {'2 * x' if 'expected 4, got 2' in text else 'x'}\n```"

    model = ScriptedModel(replies)
    actor = CritiqueRevise(SingleShot(model, Sampling()), ToolCritic(UnitTests(sandbox)), LLMReviser(model, Sampling()))
    trajectory = actor.act(task.public, Recollection())
    assert trajectory.ended == "low_severity"
    assert trajectory.solution == "def double(x):\n    return 2 * x\n"
    assert [step.critique.score for step in trajectory.steps] == [0.0, 1.0]
    assert trajectory.others == {}  # no model was asked for a critique
    assert not any(
        test in message.content for prompt in model.received for message in prompt for test in task.hidden_tests
    )


GONE = ModelError("the server is gone")
UNREADABLE = CritiqueError("no label", COST, "Well, hm.")


@pytest.mark.parametrize(
    ("critiques", "drafts", "most", "ended", "submitted", "error"),
    [
        ([severity(0.8), severity(0.5), severity(0.2)], {}, 3, "low_severity", 2, ""),
        ([severity(0.8), severity(0.8)], {}, 2, "max_iterations", 0, ""),
        ([severity(0.9)], {}, 1, "max_iterations", 0, ""),
        ([severity(0.8), severity(0.8)], {"texts": ("same", "same")}, 3, "minimal_change", 0, ""),
        ([GONE], {}, 3, "error", 0, "the server is gone"),
        ([severity(0.8), severity(0.6)], {"fails_at": 2}, 3, "error", 1, "the server is gone"),
        ([severity(0.5), severity(0.7), UNREADABLE], {}, 4, "error", 0, "no label"),
    ],
)
def test_the_loop_ends_and_submits_the_best_draft(task, critiques, drafts, most, ended, submitted, error):
    parts = Drafts(**drafts)
    result = run(task, *critiques, drafts=parts, max_iterations=most)
    assert (result.ended, len(result.steps)) == (ended, len(critiques))
    assert (result.solution, result.steps[-1].error) == (result.steps[submitted].program, error)
    assert (result.strategy, result.status) == ("critique_revise", "stuck" if error else "complete")
    assert [step.critique for step in result.steps] == [c if isinstance(c, Critique) else None for c in critiques]
    assert result.steps[-1].observation == ("Well, hm." if UNREADABLE in critiques else "")
    assert len(parts.revised) == len(critiques) - (0 if "fails_at" in drafts else 1)
    assert result.usage == sum((step.usage for step in result.steps), Usage()) == sum([COST] * len(critiques), Usage())
    assert result.others.get("critic", Usage()).calls == len(critiques) - (GONE in critiques)
