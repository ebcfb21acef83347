"""What is nearest depends on the items alone, not on what the index has seen before."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from reflexion_lab.errors import ModelError
from reflexion_lab.memory.curators.index import Index
from reflexion_lab.memory.curators.items import ItemMemory
from reflexion_lab.memory.retrieval.bm25 import BM25
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.memory.retrieval.tfidf import TfIdf
from reflexion_lab.records import Item, Task

WORDS = ["sort", "list", "sum", "word", "count", "set", "dict", "key", "value", "index", "loop", "return"]


def items(rng: random.Random, n: int) -> list[Item]:
    return [Item(item_id=f"i{i}", text=" ".join(rng.choices(WORDS, k=4))) for i in range(n)]


@pytest.mark.parametrize("retriever", [Jaccard, BM25, TfIdf])
def test_nearest_is_a_function_of_the_items(retriever):
    rng = random.Random(0)
    memory, lived = items(rng, 12), Index(retriever())
    for step in range(30):
        change = step % 4
        if change == 0:
            memory = memory[1:]
        elif change == 1:
            memory = [*memory, Item(item_id=f"n{step}", text=" ".join(rng.choices(WORDS, k=4)))]
        elif change == 2:
            place = rng.randrange(len(memory))
            memory = [replace(item, text="sort words") if n == place else item for n, item in enumerate(memory)]
        view = memory if change < 3 else memory[::2]
        query = " ".join(rng.choices(WORDS, k=3))
        assert lived.nearest(view, query, 3) == Index(retriever()).nearest(view, query, 3)


def test_a_view_is_ranked_by_the_index_of_the_whole():
    memory = ItemMemory(replace(item, sources=(f"t/{n % 4}",)) for n, item in enumerate(items(random.Random(1), 20)))
    index = Index(TfIdf())
    for task_id in ("t/0", "t/1", "t/9"):
        view = memory.of_other_tasks(Task(task_id=task_id, prompt="p", entry_point="f"))
        near = index.nearest(view, "sort list sum", 4)
        assert near == [item for item in Index(TfIdf()).nearest(memory.items, "sort list sum", 20) if item in view][:4]
        assert not [item for item in near if task_id in item.sources]


def test_scores_below_the_minimum_and_more_items_than_there_are():
    memory = [Item(item_id="a", text="sort the list"), Item(item_id="b", text="sum", key="sort the list now")]
    index = Index(Jaccard())
    assert [item.item_id for item in index.nearest(memory, "sort the list now", 9)] == ["b", "a"]
    assert [item.item_id for item in index.nearest(memory, "sort the list now", 9, min_score=1.0)] == ["b"]
    assert index.nearest((), "sort", 3) == []


@pytest.mark.parametrize("module", [Jaccard.__module__, __name__])  # only the lab's retrievers edit in place
def test_an_indexing_that_failed_is_made_again(module):
    class Failing(Jaccard):
        fails, __module__ = False, module

        def add(self, documents):
            if self.fails:
                raise ModelError("no vector")
            super().add(documents)

        def replace(self, number, old, new):
            super().replace(number, old, "" if self.fails else new)
            self.add(())  # fails once the words are gone

    retriever = Failing()
    index, memory = Index(retriever), [Item(item_id=name, text=f"{name} word") for name in ("sort", "sum", "count")]
    index.nearest(memory, "sort", 1)
    changed = [replace(memory[0], text="other word"), *memory[1:]]
    retriever.fails = True
    with pytest.raises(ModelError):
        index.nearest(changed, "sum", 1)
    retriever.fails = False
    later = [*changed, Item(item_id="last", text="last word")]
    assert [index.nearest(later, item.text, 1)[0].item_id for item in later] == ["sort", "sum", "count", "last"]


def test_tasks_that_ask_at_once_get_of_their_own_items():
    indexed_again = threading.Event()

    class Waiting(Jaccard):
        def add(self, documents):
            super().add(documents)
            if documents[0].startswith("b"):
                indexed_again.set()

        def rank(self, query, k):
            indexed_again.wait(0.2)
            return super().rank(query, k)

    index = Index(Waiting())
    lists = [[Item(item_id=f"{name}{n}", text=f"{name} sort {n}") for n in range(3)] for name in "ab"]
    with ThreadPoolExecutor(2) as pool:
        near = [pool.submit(index.nearest, each, "sort", 3) for each in lists]
    assert [{item.item_id[0] for item in hits.result()} for hits in near] == [{"a"}, {"b"}]


def test_tasks_search_at_once_and_the_items_change_between_searches():
    both = threading.Barrier(2, timeout=10)

    class Slow(Jaccard):
        def rank(self, query, k):
            both.wait()  # as an embedder does, for each query
            return super().rank(query, k)

    index, memory = Index(Slow()), items(random.Random(2), 6)
    with ThreadPoolExecutor(4) as pool:
        near = [pool.submit(index.nearest, memory[n // 2 :], "sort list", 9) for n in range(4)]
    assert near[0].result() == near[1].result() != near[2].result() == near[3].result()
