"""Memento: the case bank after thirty loops, and what a prompt shows of it."""

from reflexion_lab.memory.curators.curated import CuratedMemory
from reflexion_lab.memory.curators.items import ItemLimits
from reflexion_lab.memory.curators.memento import Memento
from reflexion_lab.memory.curators.trajectories import described
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Finished, Task
from tests import builders
from tests.memory.curators.conftest import loop

WORDS = [f"w{number}" for number in range(30)]
VERDICTS = (True, False, None)


def test_each_loop_with_a_verdict_is_a_case_whose_middle_is_cut():
    memory = CuratedMemory(Memento(Jaccard()), ItemLimits())
    list(memory.learn(0, [loop("a", False, True), loop("b", False, False), loop("c", None)]))
    assert [(item.text, item.key, item.section, item.outcome, item.sources) for item in memory.memory.items] == [
        ("Question:\nabout a\nSolution:\nprogram_2 = 'a'", "about a", "Positive examples", True, ("a",)),
        ("Question:\nabout b\nSolution:\nprogram_1 = 'b'", "about b", "Negative examples", False, ("b",)),
    ]
    memory = CuratedMemory(Memento(Jaccard(), max_chars=100), ItemLimits())
    list(memory.learn(0, [loop("a", True, prompt="long " * 100)]))
    (case,) = memory.memory.items
    assert len(case.text) <= 100 + len("Question:\n\nSolution:\n")
    assert case.key == "long " * 100


def test_a_prompt_shows_the_eight_most_similar_of_thirty_loops():
    """The question of loop n has the words w0 to wn; the verdicts are passed, failed, none, … The similarity to a
    question of the words w0 to w9 is (n + 1) / 10 up to loop 9, then 10 / (n + 1): 1, 0.91, 0.8, 0.77, 0.71, 0.7, 0.63
    and 0.59 for loops 9, 10, 7, 12, 13, 6, 15 and 16; 8, 11, 14 and 5 have no verdict.
    """
    memory = CuratedMemory(Memento(Jaccard()), ItemLimits(max_tokens=0))
    for n in range(30):
        updates = list(memory.learn(n, [loop(f"t/{n}", VERDICTS[n % 3], prompt=" ".join(WORDS[: n + 1]))]))
        assert len(updates) == (n % 3 < 2)
        assert all(update.usage.calls == 0 for update in updates)
    assert len(memory.memory) == 20
    items = memory.selection(Task(task_id="new", prompt=" ".join(WORDS[:10]), entry_point="f")).items
    shown = [(item.section.split()[0], item.sources[0]) for item in items]
    assert [source for section, source in shown[:4] if section == "Positive"] == ["t/9", "t/12", "t/6", "t/15"]
    assert [source for section, source in shown[4:] if section == "Negative"] == ["t/10", "t/7", "t/13", "t/16"]


def test_a_body_keeps_its_indentation():
    prompt = 'def f(x):\n    """Twice x."""\n'
    attempt = builders.attempt(acted={"solution": f"{prompt}    y = x\n    return 2 * y\n"}, judged={"passed": True})
    finished = Finished(task=Task(task_id="t/1", prompt=prompt, entry_point="f"), attempts=(attempt,))
    memory = CuratedMemory(Memento(Jaccard()), ItemLimits())
    list(memory.learn(0, [finished]))
    for text in (memory.memory.items[0].text, described(finished)):
        assert text.endswith(":\n    y = x\n    return 2 * y")
