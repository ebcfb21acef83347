"""Controls and wisdom: what they keep, and what they show."""

import pytest
from msgspec.structs import replace

from reflexion_lab.memory.curators.controls import Filler, FullHistory, Gold, RawTrajectories, Shuffled
from reflexion_lab.memory.curators.curated import CuratedMemory
from reflexion_lab.memory.curators.items import ItemLimits
from reflexion_lab.memory.curators.wisdom import Wisdom
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Batch, Finished, Recollection, Task
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import reflects_on_last
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.shorten import estimated
from tests import builders

COLOURS = ("red ball", "red box", "blue ball", "green hat", "green box")
FIRST = "curator@curator.first"
TASKS = [
    Task(
        task_id=f"t/{number}", prompt=f"def f():\n    '''Return the {words}.'''", entry_point="f",
        canonical_solution=f"def f():\n    return {words!r}", cluster=words.partition(" ")[0],
    )
    for number, words in enumerate(COLOURS)
]  # fmt: skip


def taught(curator, passed=(True, False, True, True, True), cause="") -> CuratedMemory:
    """Memory after a round of one attempt at each task."""
    memory = CuratedMemory(curator, ItemLimits())
    finished = []
    for task, is_passed in zip(TASKS, passed, strict=True):
        reflection = builders.reflection(root_cause=cause, what_to_change=f"Mind {task.task_id}.") if cause else None
        judged = {"passed": is_passed}
        attempt = builders.attempt(task_id=task.task_id, judged=judged, reflection=reflection)
        finished.append(memory.finished(task, [attempt]))
    list(memory.learn(0, finished))
    return memory


def shown(memory: CuratedMemory, task: Task) -> list[str]:
    """Sources of the items in the prompt."""
    return [item.sources[0] for item in memory.selection(task).items]


def test_raw_trajectories_are_the_nearest_loops_that_passed_and_full_history_shows_every_loop():
    memory = taught(RawTrajectories(Jaccard(), k=2))
    assert shown(memory, TASKS[1]) == ["t/4", "t/0"]
    assert "t/1" in shown(taught(RawTrajectories(Jaccard(), k=4, passed_only=False)), TASKS[0])
    first = memory.memory.items[0]
    assert first.text.startswith("Task:\ndef f():\n    '''Return the red ball.'''")
    assert "Attempt 1, which passed:" in first.text
    assert builders.ADD.strip() in first.text
    assert shown(taught(FullHistory()), TASKS[2]) == ["t/4", "t/3", "t/1", "t/0"]


def test_a_small_context_keeps_the_newest_loops_of_the_full_history():
    items = {item.sources[0]: item for item in taught(FullHistory()).selection(TASKS[2]).items}
    prompts, task = Prompts(), {"prompt": TASKS[2].prompt, "task_id": TASKS[2].task_id}
    newest = Recollection(items=(items["t/4"], items["t/3"]))
    room = estimated(prompts.render("solve", memory=newest, **task))
    fitted = prompts.fit("solve", room, Recollection(items=tuple(items.values())), **task)
    assert set(fitted.left_out) == {items["t/0"].item_id, items["t/1"].item_id}


def test_shuffled_shows_as_many_of_the_others_and_filler_keeps_number_and_tokens():
    first = RawTrajectories(Jaccard(), k=2)
    chosen, control = taught(first), taught(Shuffled(RawTrajectories(Jaccard(), k=2)))
    assert len(shown(control, TASKS[1])) == 2
    assert set(shown(control, TASKS[1])).isdisjoint(shown(chosen, TASKS[1]))
    assert shown(control, TASKS[1]) == shown(taught(Shuffled(RawTrajectories(Jaccard(), k=2))), TASKS[1])
    chosen, control = taught(RawTrajectories(Jaccard(), k=2)), taught(Filler(RawTrajectories(Jaccard(), k=2)))
    pairs = zip(chosen.selection(TASKS[1]).items, control.selection(TASKS[1]).items, strict=True)
    for item, filler in pairs:
        assert replace(filler, text=item.text) == item
        assert estimated(filler.text) == estimated(item.text)
        assert not set(item.text.split()) & set(filler.text.split())


def test_gold_shows_solutions_of_the_same_cluster_first():
    memory = taught(Gold(TASKS, Jaccard(), k=2))
    assert shown(memory, TASKS[1])[0] == "t/0"
    assert "return 'red ball'" in memory.selection(TASKS[1]).items[0].text
    assert len(shown(memory, TASKS[1])) == 2


def test_wisdom_is_a_cause_from_its_second_failure_on():
    once = taught(Wisdom(Jaccard()), passed=(True, False, True, True, True), cause="I return early")
    assert (len(once.memory), shown(once, TASKS[0])) == (1, [])
    twice = taught(Wisdom(Jaccard()), passed=(True, False, False, True, True), cause="I return the ball 7 early")
    (item,) = twice.memory.items
    assert item.counts == {"failures": 2}
    assert item.sources == ("t/1", "t/2")
    assert item.text == "I return the ball 7 early What to change: Mind t/1."
    assert shown(twice, TASKS[0]) == ["t/1"]
    assert shown(twice, TASKS[1]) == []


def test_wisdom_that_its_readers_fail_with_is_retired():
    memory = taught(
        Wisdom(Jaccard(), retire_after=2), passed=(False, False, True, True, True), cause="the ball is lost"
    )
    (item,) = memory.memory.items
    for number in (2, 3):
        attempt = builders.attempt(
            task_id=f"t/{number}", recalled_items=(item.item_id,), judged={"passed": False, "feedback": "no"}
        )
        assert shown(memory, TASKS[number]) == ["t/0"]
        list(memory.learn(number, [memory.finished(TASKS[number], [attempt])]))
    assert memory.memory.items[0].counts == {"failures": 2, "used": 2, "passed": 0}
    assert shown(memory, TASKS[2]) == []


@pytest.mark.parametrize("control", ["filler", "shuffled"])
def test_the_config_names_the_curator_of_a_control(control):
    targets = [compose(f"curator={control}", *words).curator.first._target_ for words in ([], [f"{FIRST}=expel"])]
    assert [target.rpartition(".")[2] for target in targets] == ["RawTrajectories", "ExpeL"]


def test_wisdom_is_asked_about_failures_with_words_and_readers_alone():
    loops = [
        loop(CuratedMemory(Wisdom(Jaccard()), ItemLimits()), passed, words)
        for passed, words in ((True, True), (False, False), (False, True))
    ]
    assert Wisdom(Jaccard()).due(loops) == [Batch(finished=(loops[2],))]


def loop(memory: CuratedMemory, passed: bool, has_words: bool) -> Finished:
    words = builders.reflection() if has_words else None
    return memory.finished(TASKS[0], [builders.attempt(task_id="t/0", judged={"passed": passed}, reflection=words)])


@pytest.mark.parametrize(
    ("words", "reflects"),
    [
        (["curator=wisdom"], True), (["curator=expel"], False), (["curator=shuffled", f"{FIRST}=wisdom"], True),
        (["curator=filler", f"{FIRST}=expel"], False),
    ],
)  # fmt: skip
def test_last_attempts_are_reflected_on_if_the_curator_reads_reflections(words, reflects):
    assert reflects_on_last(RunConfig.of(compose(*words))) is reflects
