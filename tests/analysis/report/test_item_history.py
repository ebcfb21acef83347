"""Items of memory in the record of a task and on the screen."""

import re

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.report.history import Sources, history
from reflexion_lab.analysis.report.pieces import MOST_OPERATIONS
from reflexion_lab.analysis.report.screen import task_screen
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.memory.curators.items import ItemLimits, ItemMemory
from reflexion_lab.records import Operation, Update, Usage

VERDICTS = {"t/0": [(0.0, False), (1, True)], "t/1": [(1, True)], "t/2": [(0.0, False)]}
HOSTILE = "<script>alert(1)</script>\x00\u202e"
CALL = Usage(calls=1, prompt_tokens=70, completion_tokens=30)


@pytest.fixture
def make(write_run):
    """Log of three rounds of one task, each with a call of these operations. The loops at t/1 and t/2 read item `a`."""

    def make(*calls, **fields):
        log, memory, updates = Log.read(write_run(VERDICTS)), ItemMemory((), ItemLimits(max_tokens=0)), []
        for number, operations in enumerate(calls):
            done, refused = memory.apply(operations, f"{number}/0")
            updates.append(
                Update(round=number, call=0, task_ids=(f"t/{number}",), operations=done, refused=refused, usage=CALL,
                       items=len(memory), tokens=memory.tokens, **fields)
            )  # fmt: skip
        attempts = {
            name: [replace(attempt, recalled_items=("a",) if name != "t/0" else ()) for attempt in loop]
            for name, loop in log.attempts.items()
        }
        return replace(log, attempts=attempts, updates=tuple(updates))

    return make


def add(text, name="a", **fields):
    return Operation(kind="add", item_ids=(name,), text=text, sources=("t/0", "t/gone"), **fields)


def edit(text, **fields):
    return Operation(kind="edit", item_ids=("a",), text=text, **fields)


def words(html):
    """The text of HTML, spaces in a row as one."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_a_task_shows_its_items_as_they_were_and_what_the_curator_made_of_it(make):
    log = make([add("first")], [edit("second", reason="better")], [Operation(kind="remove", item_ids=("a",))])
    texts = {name: words(history(log.attempts[name], log.grades, Sources.of(log))) for name in log.attempts}
    assert "item t/0, t/gone text first since removed in round 2" in texts["t/1"]
    assert "item t/0, t/gone text second since removed in round 2" in texts["t/2"]
    assert "Recalled from memory nothing" in texts["t/0"]
    assert (
        "What the curator made of it round 1, call 0; 100 tokens; 1 item afterwards edit a (better) second"
        in texts["t/1"]
    )
    assert "add a first" in texts["t/0"]


def test_the_screen_of_a_task_lists_its_items_and_operations_are_cut_with_the_number_of_others(make, write_run):
    log = make([add("first")], [edit("second")], [])
    lines = task_screen(write_run(VERDICTS, name="other"), log, "t/2")
    assert "  read: item a (t/0, t/gone): second" in lines
    log = make([add(f"{number} word", f"i{number}") for number in range(1_000)])
    task = words(history(log.attempts["t/0"], log.grades, Sources.of(log)))
    assert f"{1_000 - MOST_OPERATIONS} more operations" in task


def test_hostile_words_stay_words(make):
    hostile = add(HOSTILE, section=HOSTILE, reason=HOSTILE, key=HOSTILE)
    log = make([hostile, edit(HOSTILE, votes={HOSTILE: 1})], [edit(HOSTILE + "x")], replies=(HOSTILE,), kind=HOSTILE)
    log = replace(log, updates=tuple(replace(update, task_ids=(*update.task_ids, HOSTILE)) for update in log.updates))
    html = history(log.attempts["t/1"], log.grades, Sources.of(log))
    assert "<script" not in html
    assert html.count("&lt;script&gt;") > 3
    assert not re.search("[\x00\u202e]", html)
