"""Every memory is read: take one away, and the actor's prompt is another."""

import pytest

from reflexion_lab.agent.actors.continuation import Continuation
from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.agent.reflectors.fallback import WithFallback
from reflexion_lab.agent.reflectors.llm import LLMReflector
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.loop.reflexion import Reflexion
from reflexion_lab.loop.stop import FirstOf, MaxAttempts
from reflexion_lab.memory.archive import Archive, Rounds, Shown
from reflexion_lab.memory.episodic import EpisodicMemory
from reflexion_lab.memory.recall import Window, WindowThenSimilar
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Episode, Recollection, Sampling, Task
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests

SHOWN = Shown(wisdom=2, mistakes=2, insights=3)
REFLECTION = (
    "ROOT_CAUSE: double loses the sign\nWHAT_WENT_WRONG: f(2) gave -4\nWHAT_TO_CHANGE: keep the sign\nCONFIDENCE: 0.9\n"
)


def answer(messages):
    return REFLECTION if "ROOT_CAUSE" in messages[-1].content else "```python\ndef double(x):\n    return -2 * x\n```"


def tasks():
    prompt = 'def double(x):\n    """Twice x, number {}.\n    >>> double(2)\n    4\n    """\n'
    check = ("assert double(2) == 4",)
    return [
        Task(task_id=f"own/{n}", prompt=prompt.format(n), entry_point="double", visible_tests=check) for n in range(4)
    ]


def loops(sandbox, actor, model, reflector, recall, shown=SHOWN, show_session=True):
    """The two attempts at each task in turn; each task's memory holds those of the tasks before."""
    archive = Archive(InMemory(), Jaccard, shown=shown)
    rounds = Rounds(archive, 1, "run", "arm")
    for task in tasks():
        loop = Reflexion(
            actor=actor(model, Sampling()), evaluator=UnitTests(sandbox), reflector=reflector,
            memory=EpisodicMemory(recall, shared=archive, run_id="run", agent_id="arm", show_session=show_session),
            stop=FirstOf(MaxAttempts(2)),
        )  # fmt: skip
        attempts = list(loop.attempts(task))
        rounds.finished(task, attempts)
        rounds.end([task])
        yield attempts


def prompts(sandbox, actor, **options):
    """The actor's prompts for both attempts at the fourth task."""
    model = ScriptedModel(answer)
    reflector = WithFallback(LLMReflector(model, Sampling()), Rules())
    *_, attempts = loops(sandbox, actor, model, reflector, **options)
    return [attempt.trajectory.messages[-1].content for attempt in attempts]


WHOLE = {"recall": WindowThenSimilar(omega=1, k=1)}


@pytest.mark.parametrize("actor", [SingleShot, Continuation])
def test_without_its_session_an_actor_reads_less_after_the_first_attempt(sandbox, actor):
    """Of the other memories see the contract of words that arrive."""
    whole, without = prompts(sandbox, actor, **WHOLE), prompts(sandbox, actor, **WHOLE, show_session=False)
    assert whole[0] == without[0] and len(whole[1]) > len(without[1])


@pytest.mark.parametrize("actor", [SingleShot, Continuation])
def test_the_prompt_tells_where_its_lessons_come_from(sandbox, actor):
    first, second = prompts(sandbox, actor, **WHOLE)
    assert "double loses the sign (seen 6 times in 3 tasks; known to" in first
    assert "Mistake: " in first and "Correction: none was found" in first
    assert "imilar task" in first
    assert "own/" not in first
    assert (
        "Earlier attempts:" if actor is SingleShot else "# My attempt 1 at the function below failed, score 0 of 100:"
    ) in second


@pytest.mark.parametrize("actor", [SingleShot, Continuation])
def test_an_insight_is_shown_once_where_an_episode_states_it_too(sandbox, actor):
    first, second = prompts(sandbox, actor, recall=Window(1), shown=Shown(insights=3), show_session=False)
    assert "Key insights so far:" in first and first.count("keep the sign") == 1
    assert "Key insights so far:" not in second and second.count("keep the sign") == 1


def test_with_nothing_known_the_first_prompt_is_the_bare_task(sandbox):
    bare = tasks()[3].prompt.rstrip()
    first, second = prompts(sandbox, Continuation, recall=Window(0), shown=Shown(), show_session=False)
    assert first == second == bare


def test_the_reflector_gets_only_the_tasks_own_episodes(sandbox):
    class Noting(Rules):
        def reflect(self, task, attempt, episodes):
            reflected.append([(episode.task_id, attempt.number) for episode in episodes])
            return super().reflect(task, attempt, episodes)

    reflected = []
    recall = WindowThenSimilar(omega=1, k=1)
    _, attempts, *_ = loops(sandbox, SingleShot, ScriptedModel(answer), Noting(), recall, show_session=False)
    assert len(attempts[1].recalled) == 2
    assert reflected[:4] == [[], [("own/0", 2)], [], [("own/1", 2)]]


@pytest.mark.parametrize("actor", [SingleShot, Continuation])
def test_a_verdict_that_nobody_gave_is_no_failure(actor):
    similar = Episode(
        agent_id="a", task_id="x", task_description="about x", attempt_number=1, code="pass", test_results="",
        reflection=None, passed=False, metadata={"outcome": "no_tests"},
    )  # fmt: skip
    model = ScriptedModel(answer)
    read = actor(model, Sampling()).act(tasks()[0], Recollection(others=(similar,))).messages[-1].content
    assert "was never tested:" in read
    assert "failed" not in read.replace("previous failures", "")
