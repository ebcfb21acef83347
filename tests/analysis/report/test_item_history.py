"""Memory across tasks in the page of a run, in the record of a task, and on the screen."""

import re

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.report.history import Sources, history
from reflexion_lab.analysis.report.item_history import ROOM, memory_section
from reflexion_lab.analysis.report.page import page
from reflexion_lab.analysis.report.pieces import MOST_OPERATIONS, task_link
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


def test_the_section_begins_with_size_and_cost_and_names_readers(make):
    log = make(
        [add("first", section="Rules", votes={"helpful": 1})], [edit("second")], [edit("", votes={"helpful": 2})]
    )
    html, refused = memory_section(log, task_link), Operation(kind="vote", item_ids=("none",))
    text = words(html)
    assert "Memory across tasks 1 item, 2 tokens after 3 rounds" in text
    assert "curator: 3 updates, 3 model calls, 300 tokens; 0 unreadable replies, 0 operations refused" in text
    assert "second helpful 3; read by 2 loops, 1 passed" in text
    assert re.findall(r'href="([^"]*)"', html)[0] == "#task=t/0"
    assert "#task=t/gone" not in html
    assert "counted a Rules; helpful 1 → 3" in text
    assert "edited a Rules; diff to the version before: −1 +1 lines" in text
    assert text.index("Round 2") < text.index("Round 1") < text.index("Round 0")
    assert "<a " not in memory_section(log)
    text = words(memory_section(make([add("first"), refused], unreadable=2)))
    assert "2 unreadable replies, 1 operations refused" in text
    assert "refused vote none: no item none" in text


def test_a_collapse_is_marked(make):
    html = memory_section(make([add("one two three four five six")], [edit("one")]))
    assert "▼ COLLAPSE in round 1: 7 to 1 tokens in one call" in words(html)
    assert html.count(", ▼ collapse") == 1


def test_a_run_without_a_curator_has_no_section(write_run):
    log = Log.read(write_run(VERDICTS))
    assert memory_section(log) == ""
    assert "Memory across tasks" not in page(log)


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


def test_the_screen_of_a_task_lists_its_items(make, write_run):
    log = make([add("first")], [edit("second")], [])
    lines = task_screen(write_run(VERDICTS, name="other"), log, "t/2")
    assert "  read: item a (t/0, t/gone): second" in lines


def test_hostile_words_stay_words(make):
    hostile = add(HOSTILE, section=HOSTILE, reason=HOSTILE, key=HOSTILE)
    log = make([hostile, edit(HOSTILE, votes={HOSTILE: 1})], [edit(HOSTILE + "x")], replies=(HOSTILE,), kind=HOSTILE)
    log = replace(log, updates=tuple(replace(update, task_ids=(*update.task_ids, HOSTILE)) for update in log.updates))
    for html in (memory_section(log, task_link), history(log.attempts["t/1"], log.grades, Sources.of(log))):
        assert "<script" not in html
        assert html.count("&lt;script&gt;") > 3
        assert not re.search("[\x00\u202e]", html)


def test_a_long_history_is_cut_with_the_number_of_others(make):
    every = [add(f"{number} " + "word " * 400, f"i{number}") for number in range(1_000)]
    log = make(*([add(f"{round} {each.text}", f"{round}-{each.item_ids[0]}") for each in every] for round in range(3)))
    html = memory_section(log)
    text = words(html)
    shown = ROOM // (600 + len("0 999 " + "word " * 400))
    assert len(html) < 6 * ROOM
    assert re.search(r"2,\d\d\d older items are left out", text)
    assert "Round 2" in text
    assert "2 earlier rounds are left out" in text
    assert f"{1_000 - shown} more changes" in text or "more changes" in text
    task = words(history(log.attempts["t/1"], log.grades, Sources.of(log)))
    assert f"{1_000 - MOST_OPERATIONS} more operations" in task
