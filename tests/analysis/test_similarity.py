from __future__ import annotations

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.learning.similarity import MIN_TASKS, Near, bins, edges, jaccard, similarity, task_text
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.memory.retrieval.texts import query
from reflexion_lab.records import Episode, Message, Recollection, Sampling, Task
from reflexion_lab.text.prompts.render import PromptedModel, Prompts, known_examples

PROMPTS = {
    "sum": 'def add(numbers):\n    """Add up the numbers of a list."""\n',
    "mean": 'def average(numbers):\n    """The average of the numbers of a list."""\n',
    "text": 'def shout(words):\n    """All words in capitals, joined by spaces."""\n',
}
NAMES = {"sum": "add", "mean": "average", "text": "shout"}


def program(task_id):
    return f"{PROMPTS[task_id].rstrip()}\n    return 1\n"


def foreign(task_id):
    return Episode(
        agent_id="a", task_id=task_id, task_description=PROMPTS[task_id], attempt_number=1, code=program(task_id),
        test_results="", reflection=None, passed=False,
    )  # fmt: skip


def acted(task_id, style, others=(), examples=0):
    """What an actor really read and made, with episodes of other tasks in its memory."""
    reply = f"```python\n{program(task_id)}```" if style == "chat" else "\n    return 1\n"
    ask = PromptedModel(ScriptedModel(lambda messages: reply), Sampling(), Prompts(examples=examples), style)
    task = Task(task_id=task_id, prompt=PROMPTS[task_id], entry_point=NAMES[task_id])
    return ask("solve", task, Recollection(episodes=tuple(map(foreign, others)))).trajectory("single_shot")


@pytest.mark.parametrize("style", ["chat", "continuation"])
@pytest.mark.parametrize("examples", [0, 1])
def test_the_task_is_found_again_in_the_prompt_whatever_memory_shows(style, examples, attempt):
    for others in ((), ("mean", "text")):
        changed = replace(attempt("sum", 1, 0.0), trajectory=acted("sum", style, others, examples))
        assert task_text([changed]).strip() == PROMPTS["sum"].strip()


def test_attempts_without_a_program_do_not_hide_the_task(attempt):
    acts = acted("sum", "continuation")
    broken = replace(attempt("sum", 1, 0.0), trajectory=replace(acts, solution=""))
    assert task_text([broken]) == ""
    assert task_text([broken, replace(broken, number=2, trajectory=acts)]).strip() == PROMPTS["sum"].strip()


def test_a_prompt_that_cannot_be_told_apart_is_no_text(attempt):
    assert task_text([attempt("sum", 1, 0.0)]) == ""


def prompted(program, *blocks):
    text = "\n\n".join(f"```python\n{block.strip()}\n```" for block in blocks)
    trajectory = acted("sum", "chat")
    return replace(trajectory, solution=program, messages=(Message(role="user", content=text),))


def test_a_program_that_copies_what_it_read_does_not_hide_the_task(attempt):
    other, mine = known_examples()[0], PROMPTS["sum"]
    own = program("sum")
    for copied, blocks in (
        (other.right, (other.prompt, other.right, mine)),
        (program("mean"), (mine, program("mean"))),
    ):
        changed = replace(attempt("sum", 1, 0.0), trajectory=prompted(f"{copied}\n\n{own}", *blocks))
        assert task_text([changed]) == mine.strip()


@pytest.fixture
def arm_of(write_run, attempt):
    """An arm of attempts at tasks, each of which read what its fields say; a task's second attempt passes."""

    def make(**fields_by_task):
        attempts = {
            task: [
                replace(attempt(task, number, float(number > 1)), trajectory=acted(task, "chat"), **fields)
                for number, fields in enumerate(reads, 1)
            ]
            for task, reads in fields_by_task.items()
        }
        return Arm("near", [Log.read(write_run(attempts=attempts))])

    return make


@pytest.fixture
def arm(arm_of):
    """`sum` and `mean` know nothing; `text` reads them both, and then, what nobody here has written."""
    reads = [{"recalled": ("ep-run-1/sum-1", "ep-run-1/mean-1")}, {"recalled": ("ep-other-run/sum-1",)}]
    return arm_of(sum=[{}], mean=[{}], text=reads)


def more(attempt, match):
    assert match == "task_error"
    return ""


def test_the_score_is_that_of_the_retriever_and_of_the_nearest(arm):
    result = similarity(arm, more)
    (near,) = result.near
    retriever = Jaccard()
    retriever.add([PROMPTS["sum"], PROMPTS["mean"]])
    task = Task(task_id="text", prompt=PROMPTS["text"], entry_point="shout")
    best = retriever.rank(query(task, (), "task_error"), 1)[0]
    assert near.score == pytest.approx(best.score, abs=1e-6)
    assert (near.case.task_id, near.passed) == ("text", False)
    assert [case.task_id for case, _, _ in result.without] == ["sum", "mean"]
    assert result.unknown == 0


def test_later_attempts_are_separate_and_foreign_items_counted(arm):
    result = similarity(arm, more, is_later=True)
    assert (result.near, result.without, result.unknown) == ((), (), 1)


def test_what_the_prompt_had_no_room_for_was_not_read(write_run, attempt):
    attempts = {task: [replace(attempt(task, 1, 1.0), trajectory=acted(task, "chat"))] for task in ("sum", "text")}
    unread = replace(attempts["text"][0].trajectory, left_out=("ep-run-1/sum-1",))
    attempts["text"] = [replace(attempts["text"][0], trajectory=unread, recalled=("ep-run-1/sum-1",))]
    result = similarity(Arm("near", [Log.read(write_run(attempts=attempts))]), more)
    assert not result.near
    assert len(result.without) == 2


def test_mistakes_count_and_wisdom_alone_is_unknown(arm_of):
    mistake, wisdom = {"recalled_mistakes": ("mistake-run-1/mean-0123abcd",)}, {"recalled_wisdom": ("wis-1",)}
    result = similarity(arm_of(sum=[{}], mean=[wisdom], text=[mistake]), more)
    assert [near.score for near in result.near] == [jaccard(PROMPTS["text"], PROMPTS["mean"])]
    assert result.unknown == 1


def test_jaccard_is_shared_words_over_all_words():
    assert jaccard("red green", "green blue") == pytest.approx(1 / 3)
    assert (jaccard("", ""), jaccard("red", "red red")) == (0.0, 1.0)


CASE = Case(0, "sum")


def test_bins_hold_every_attempt_once_and_about_as_many_each():
    scores = [place / 100 for place in range(60)]
    near = [Near(CASE._replace(task_id=f"t{i}"), 1, score, i % 3 == 0, False) for i, score in enumerate(scores)]
    ends = edges(scores)
    groups = bins(near, ends)
    assert [group.n for group in groups.values()] == [MIN_TASKS] * 5
    assert [group.k for group in groups.values()] == [4] * 5
    assert (ends[0], ends[-1]) == (0.0, 0.59)


@pytest.mark.parametrize("scores", [[0.2], [0.2] * 40, [0.1] * 30 + [0.9], [0.0, *[0.5] * 50, 1.0]])
def test_equal_scores_stay_in_one_bin(scores):
    near = [Near(CASE, 1, score, True, True) for score in scores]
    groups = bins(near, edges(scores))
    assert sum(group.n for group in groups.values()) == len(scores)
    means = [group.score for group in groups.values()]
    assert means == sorted(means)


def test_the_lowest_score_has_a_bin_of_its_own_where_many_have_it():
    assert edges([0.5] * 60) == [0.5, 0.5]
    assert edges([0.0] * 50 + [0.3] * 10) == [0.0, 0.0, 0.3]
    with pytest.raises(ValueError, match="scores: got none"):
        edges([])
