"""The history of items: rounds, versions, changes."""

import random

import pytest

from reflexion_lab.errors import DataError
from reflexion_lab.memory.curators.history import Timeline, changes, steps, without_copies
from reflexion_lab.memory.curators.items import ItemLimits, ItemMemory
from reflexion_lab.memory.curators.items import after as after_rounds
from reflexion_lab.records import Item, Operation, Update

START = (Item(item_id="start", text="of a store"),)


def written(*calls, items=START, limits=None):
    """The log of a run with one call in each round, which makes these operations."""
    memory, log = ItemMemory(items, limits), []
    for number, operations in enumerate(calls):
        done, refused = memory.apply(operations, f"{number}/0")
        log.append(
            Update(round=number, call=0, task_ids=(f"t/{number}",), operations=done, refused=refused,
                   items=len(memory), tokens=memory.tokens, digest=memory.digest)
        )  # fmt: skip
    return log


def add(name, text="a rule"):
    return Operation(kind="add", item_ids=(name,), text=text)


def edit(name, text):
    return Operation(kind="edit", item_ids=(name,), text=text)


def test_changes_by_round_are_those_between_versions():
    rng, calls = random.Random(0), []
    for number in range(40):
        kinds = rng.choices(("add", "edit", "vote", "remove", "merge"), k=3)
        names = [f"i{rng.randrange(max(0, number - 6), number + 1)}" for _ in kinds]
        calls.append([add(f"i{number}", f"rule {number}"), *(
            Operation(kind=kind, item_ids=(name, "start") if kind == "merge" else (name,), text=f"{kind} {number}",
                      votes={"score": rng.choice((-1, 1))})
            for kind, name in zip(kinds, names, strict=True) if kind != "add"
        )])  # fmt: skip
    log = written(*calls, limits=ItemLimits(max_items=9))
    every = [after_rounds(START, log, n) for n in range(len(calls) + 1)]
    assert {change.kind for _, differing in steps(START, log) for change in differing} == {
        "added", "edited", "counted", "removed"
    }  # fmt: skip
    for (number, differing), before, after in zip(steps(START, log), every[:-1], every[1:], strict=True):
        assert sorted(differing, key=str) == sorted(changes(before, after), key=str), number
    timeline = Timeline(START, log)
    for number, memory in enumerate(every[:-1]):
        known = {item.item_id: item for item in memory}
        assert {name: timeline.before(name, number) for name in ("start", "i0", "i7", "i20")} == {
            name: known.get(name) for name in ("start", "i0", "i7", "i20")
        }
    assert {item.item_id for item in timeline.items} == {item.item_id for item in every[-1]}


def test_items_that_a_rewrite_copies_are_no_changes():
    before = [Item(item_id=name, text=text) for name, text in {"a": "one", "b": "one", "c": "two"}.items()]
    after = [Item(item_id=name, text=text) for name, text in {"d": "one", "e": "three"}.items()]
    rest, copies = without_copies(changes(before, after))
    assert copies == 1
    assert [(change.kind, change.item.text) for change in rest] == [
        ("removed", "one"), ("removed", "two"), ("added", "three"),
    ]  # fmt: skip
    other_section = [Item(item_id="d", text="two", section="Rules")]
    assert without_copies(changes(before[2:], other_section))[1] == 0


def test_a_log_without_its_first_lines_is_named():
    log = written([add("a")], [edit("a", "another")])
    with pytest.raises(DataError, match=r"operations\.jsonl, round 1: got an operation on 'a'"):
        Timeline(START, log[1:])
