"""Operations on items: what each does, what is refused, which limits hold, and that the log rebuilds memory."""

import random
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from reflexion_lab.errors import DataError
from reflexion_lab.memory.curators.curated import CuratedMemory
from reflexion_lab.memory.curators.items import ItemLimits, ItemMemory, after, rebuilt
from reflexion_lab.records import Batch, Curation, Finished, Item, Operation, Selection, Task
from reflexion_lab.text.shorten import estimated
from tests import builders

A = Item(item_id="a", text="Use a set.", counts={"score": 2}, links=("b",), sources=("t/1",))
B = Item(item_id="b", text="Sort first.", section="rules", counts={"score": 1}, sources=("t/2",))


def applied(items, operations, limits, call=""):
    """Memory after the operations of one call, these as applied, and those that were refused."""
    memory = ItemMemory(items, limits)
    log, refused = memory.apply(operations, call)
    assert rebuilt(items, log) == memory.items
    return SimpleNamespace(items=memory.items, operations=log, refused=refused)


def op(kind, *ids, **fields) -> Operation:
    return Operation(kind=kind, item_ids=ids, **fields)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (op("add", "c", text="New.", votes={"score": 2}), (A, B, Item(item_id="c", text="New.", counts={"score": 2}))),
        (
            op("edit", "a", text="Use a dict.", votes={"score": 1}, sources=("t/3",)),
            (replace(A, text="Use a dict.", counts={"score": 3}, sources=("t/1", "t/3")), B),
        ),
        (op("vote", "b", votes={"score": -1}), (A,)),
        (op("vote", "a", votes={"harmful": 1}), (replace(A, counts={"score": 2, "harmful": 1}), B)),
        (op("link", "b", "a"), (A, replace(B, links=("a",)))),
        (
            op("merge", "a", "b", text="Sort, or use a set."),
            (Item(item_id="a", text="Sort, or use a set.", counts={"score": 3}, sources=("t/1", "t/2")),),
        ),
        (op("remove", "a", "b"), ()),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_an_operation_changes_what_it_names(operation, expected):
    result = applied((A, B), [operation], ItemLimits())
    assert result.items == expected
    assert (result.operations, result.refused) == ((operation,), ())


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (op("edit", "z", text="x"), "no item z"), (op("merge", "a"), "too few items"),
        (op("merge", "a", "a"), "an item is named twice"), (op("edit"), "too few items"),
        (op("add", "a", text="x"), "the id of a new item is taken"), (op("add", text="  "), "an empty text"),
        (op("add", text="sort  FIRST", section="rules"), "a duplicate"),
        (op("add", text="x y " * 200), "the text alone exceeds the limit"),
        (op("edit", "a", text="x y " * 200), "the text alone exceeds the limit"),
        (op("add", text="Always sort first. Then search.", section="rules"), "it contains the text of an item"),
    ],
)  # fmt: skip
def test_an_operation_that_cannot_be_applied_is_refused_with_its_reason(operation, reason):
    result = applied((A, B), [operation], ItemLimits(max_tokens=100, duplicates="contained"))
    assert [refusal.reason for refusal in result.refused] == [reason]
    assert (result.items, result.operations) == ((A, B), ())


def test_the_order_within_a_call_is_vote_remove_edit_merge_link_add():
    """An item that a vote removes is not there for the edit after it, and its place is free for a new one."""
    operations = [
        op("add", text="Sort first.", section="rules"), op("edit", "b", text="x"), op("vote", "b", votes={"score": -1}),
    ]  # fmt: skip
    result = applied((A, B), operations, ItemLimits())
    assert [operation.kind for operation in result.operations] == ["vote", "add"]
    assert [item.text for item in result.items] == ["Use a set.", "Sort first."]
    assert [refusal.operation.kind for refusal in result.refused] == ["edit"]


def test_beyond_a_limit_the_lowest_score_goes_the_oldest_first():
    old, new = Item(item_id="o", text="old one"), Item(item_id="n", text="new one")
    result = applied((A, old, B, new), [op("add", "c", text="newest")], ItemLimits(max_items=3))
    assert [item.item_id for item in result.items] == ["a", "b", "c"]
    assert [(each.kind, each.item_ids, each.reason) for each in result.operations[1:]] == [
        ("remove", ("o",), "limit"),
        ("remove", ("n",), "limit"),
    ]


def test_ids_of_new_items_depend_on_the_call_and_the_contents():
    def new(call, text):
        return applied((), [op("add", text=text)], ItemLimits(), call).items[0].item_id

    assert new("0/0", "x") == new("0/0", "x")
    assert len({new("0/0", "x"), new("0/1", "x"), new("0/0", "y")}) == 3
    assert len(new("0/0", "x")) == len("item-") + 16
    twice = applied((), [op("add", text="x"), op("add", text="x")], ItemLimits(duplicates="keep"))
    assert len({item.item_id for item in twice.items}) == 2


def _random_operation(rng: random.Random, ids: list[str]) -> Operation:
    kind = rng.choice(("add", "edit", "vote", "link", "merge", "remove"))
    named = rng.sample(ids, min(len(ids), rng.randint(1, 3))) if ids else []
    text = " ".join(rng.choice(("sort", "search", "édit", "", "x" * 50)) for _ in range(rng.randint(0, 30)))
    votes = {"score": rng.randint(-3, 2)}
    section = rng.choice(("", "rules"))
    return op(kind, *(() if kind == "add" else named), text=text, votes=votes, section=section)


def test_random_operations_keep_the_limits_and_the_log_rebuilds_memory():
    limits = ItemLimits(max_items=7, max_tokens=150)
    for seed in range(40):
        rng = random.Random(seed)
        memory, log = ItemMemory((), limits), []
        for call in range(25):
            ids = [item.item_id for item in memory.items]
            operations, _ = memory.apply([_random_operation(rng, ids) for _ in range(4)], str(call))
            log += operations
            assert len(memory) <= 7
            assert memory.tokens == sum(estimated(item.text) for item in memory.items) <= 150
        assert rebuilt((), log) == memory.items
        assert ItemMemory(memory.items).digest == memory.digest


class Scripted:
    """Adds the names of the tasks of each call; the texts that it shows come from the memory given."""

    def select(self, items, task):
        return Selection(items=(*items, Item(item_id=f"for-{task.task_id}", text="written")))

    def due(self, finished):
        return [Batch(finished=(each,)) for each in finished]

    def curate(self, items, batch):
        names = " ".join(each.task.task_id for each in batch.finished)
        return Curation(operations=(op("add", text=f"{names} after {len(items)}", sources=tuple(names.split())),))


def finished(number: int) -> Finished:
    task = Task(
        task_id=f"t/{number}", prompt="p", entry_point="f", hidden_tests=("secret",), canonical_solution="secret"
    )
    return CuratedMemory(Scripted(), ItemLimits()).finished(task, [builders.attempt(task_id=task.task_id)])


def test_each_call_of_a_round_sees_the_operations_before_it_and_logged_ones_are_not_made_again():
    memory = CuratedMemory(Scripted(), ItemLimits())
    updates = list(memory.learn(0, [finished(1), finished(2)]))
    assert [item.text for item in memory.memory.items] == ["t/1 after 0", "t/2 after 1"]
    assert [(update.round, update.call, update.items) for update in updates] == [(0, 0, 1), (0, 1, 2)]
    assert after((), updates) == memory.memory.items
    assert after((), [*updates, *memory.learn(1, [finished(3)])], rounds=1) == after((), updates)
    first = CuratedMemory(Scripted(), ItemLimits())
    updates = list(first.learn(0, [finished(1), finished(2)]))
    again = CuratedMemory(Scripted(), ItemLimits())
    new = list(again.learn(0, [finished(1), finished(2)], updates[:1]))
    assert (new, again.memory.items) == (updates[1:], first.memory.items)


@pytest.mark.parametrize("change", [{"digest": "0" * 16}, {"operations": (op("remove", "z"),)}])
def test_a_log_that_does_not_give_its_memory_is_named(change):
    update = next(iter(CuratedMemory(Scripted(), ItemLimits()).learn(0, [finished(1)])))
    damaged = replace(update, **change)
    with pytest.raises(DataError, match=r"operations\.jsonl, round 0, call 0"):
        ItemMemory().follow([damaged])


def test_an_item_is_not_shown_to_the_task_that_it_comes_from():
    memory = CuratedMemory(Scripted(), ItemLimits())
    memory.begin((A, B))
    for task_id, shown in (("t/1", ["b"]), ("t/2", ["a"]), ("t/3", ["a", "b"])):
        task = Task(task_id=task_id, repetition=2, prompt="p", entry_point="f")
        selection = memory.selection(task)
        assert [item.item_id for item in selection.items] == [*shown, f"for-{task_id}"]
        assert [item.text for item in selection.written] == ["written"]
    every = CuratedMemory(Scripted(), ItemLimits(), same_task=True)
    every.begin((A, B))
    assert len(every.selection(Task(task_id="t/1", prompt="p", entry_point="f")).items) == 3


def test_a_curator_sees_neither_hidden_tests_nor_the_solution():
    assert finished(1).task.hidden_tests == ()
    assert finished(1).task.canonical_solution == ""
