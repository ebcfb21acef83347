"""ReasoningBank: the items of thirty scripted replies, derived by hand from the paper's rules."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.memory.curators.curated import CuratedMemory
from reflexion_lab.memory.curators.items import ItemLimits
from reflexion_lab.memory.curators.reasoning_bank import FORM, MOST, ReasoningBank, grammar, strategies
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Sampling, Task
from reflexion_lab.text.prompts.render import Prompts
from tests.agent.reflectors.test_fields import as_regex
from tests.memory.curators.conftest import Scripted, loop

KEEP = ItemLimits(duplicates="keep", max_tokens=0)


def item(*names: str) -> str:
    """A reply with an item of each name."""
    return "\n\n".join(f"TITLE: {name}\nDESCRIPTION: when {name}\nCONTENT: do {name}" for name in names)


def text(name: str) -> str:
    return f"{name}\nwhen {name}\ndo {name}"


REPLIES = [
    # passed, reply, titles of the new items; "!" marks one without a description
    (True, item("a"), ["a"]),
    (False, item("b"), ["b"]),
    (True, item("c", "d", "e"), ["c", "d", "e"]),
    (False, item("f", "g", "h", "i"), ["f", "g", "h"]),  # at most three
    (True, item("a"), ["a"]),  # appended again: nothing is merged
    (None, item("never asked"), None),  # without a verdict
    (True, "", []),
    (False, "I cannot help with that.", []),
    (True, "TITLE: j", []),  # no content
    (True, "CONTENT: do k", []),  # no title
    (True, "TITLE: l\nCONTENT: do l", ["!l"]),
    (True, "TITLE: m\nDESCRIPTION: when m\n\nTITLE: n\nCONTENT: do n", ["!n"]),  # m has no content
    (True, "**TITLE:** o\n**DESCRIPTION:** when o\n**CONTENT:** do o", ["o"]),
    (True, "# Memory Item 1\n## Title: p\n## Description: when p\n## Content: do p\n\n# Memory Item 2\n", ["p"]),
    (True, "- Title: q\n- Description: when q\n- Content: do q", ["q"]),
    (True, "title 1: r\ndescription 1: when r\ncontent 1: do r", ["r"]),
    (True, "The attempt passed since it sorts.\n\n" + item("s"), ["s"]),
    (True, f"<think>\n{item('no')}\n</think>\n{item('t')}", ["t"]),
    (True, "```\n" + item("u") + "\n```", ["u"]),
    (True, "TITLE: v\nDESCRIPTION:\nwhen v\nCONTENT:\ndo\nv", ["v"]),
    (True, "TITLE: w\nDESCRIPTION: when w\nCONTENT: do w\nCONTENT: later", ["w"]),  # the first counts
    (True, "TITLE: ***\nCONTENT: ---", []),
    (True, item("x", "x"), ["x", "x"]),  # the wish not to repeat is only in the prompt
    (True, '{"title": "y", "content": "do y"}', []),  # lines are asked for
    (False, item("A", "B"), ["A", "B"]),
    (False, "TITLE: C\nTITLE: D\nCONTENT: do D", ["!D"]),
    (True, "DESCRIPTION: when E\nCONTENT: do E\n" + item("F"), ["F"]),
    (True, "\x00\ud83d{[(<", []),
    (True, item("G") + "\n" + "TITLE: \n" * 50, ["G"]),
    (False, item("H", "I", "J"), ["H", "I", "J"]),
]


def bank(*replies: str, limits: ItemLimits = KEEP, **options) -> tuple[CuratedMemory, Scripted]:
    model = Scripted(*replies)
    return CuratedMemory(ReasoningBank(Jaccard(), model, Sampling(), **options), limits), model


def test_thirty_replies_give_the_memory_derived_by_hand():
    memory, model = bank(*(reply for passed, reply, _ in REPLIES if passed is not None))
    expected = []
    for number, (passed, _, names) in enumerate(REPLIES):
        task = f"t/{number}"
        updates = list(memory.learn(number, [loop(task, passed)]))
        if names is None:
            assert not updates
            continue
        assert updates[0].unreadable == (not names), number
        assert {operation.kind for operation in updates[0].operations} <= {"add"}
        texts = [f"{name[1:]}\ndo {name[1:]}" if name[0] == "!" else text(name) for name in names]
        expected += [(new, f"about {task}", passed, (task,)) for new in texts]
    assert [(item.text, item.key, item.outcome, item.sources) for item in memory.memory.items] == expected
    assert len(model.prompts) == 29
    assert ["was solved" in prompt for prompt in model.prompts[:4]] == [True, False, True, False]
    assert ["not solved" in prompt for prompt in model.prompts[:4]] == [False, True, False, True]


def test_a_prompt_shows_all_items_of_the_most_similar_past_tasks():
    memory, _ = bank(item("a", "b"), item("c"), item("d"), n=2)
    for number, prompt in enumerate(("sort a list", "sort a tuple", "read a file")):
        list(memory.learn(number, [loop(f"t/{number}", True, prompt=prompt)]))
    task = Task(task_id="new", prompt="sort a list of words", entry_point="f")
    assert [item.text for item in memory.selection(task).items] == [text("a"), text("b"), text("c")]
    memory.curator.n = 1
    assert [item.text for item in memory.selection(task).items] == [text("a"), text("b")]


SIX = item(*"abcdef")


@pytest.mark.parametrize(
    ("scaling", "passed", "kind", "n_items", "shown"),
    [
        ("none", (False, False, True), "success", 3, [3]), ("none", (False, False), "failure", 3, [1]),
        ("parallel", (False, False, True), "parallel", 5, [1, 2, 3]),
        ("parallel", (False, False), "parallel", 5, [1, 2]), ("sequential", (False, True), "sequential", 5, [1, 2]),
        ("sequential", (True,), "success", 3, [1]),  # no second attempt
    ],
)  # fmt: skip
def test_scaling_draws_on_all_attempts_of_a_loop(scaling, passed, kind, n_items, shown):
    memory, model = bank(SIX, scaling=scaling)
    (update,) = memory.learn(0, [loop("t/0", *passed)])
    assert (update.kind, len(update.operations)) == (kind, n_items)
    assert [n for n in range(1, 4) if f"program_{n} = " in model.prompts[0]] == shown
    assert f"at most {n_items} memory items" in model.prompts[0]
    assert ("contrast" in model.prompts[0], "chain" in model.prompts[0]) == (kind == "parallel", kind == "sequential")


def test_as_released_success_is_inverted_and_items_are_the_blocks_between_blank_lines():
    memory, model = bank("Why it passed.\n\n" + item("a", "b", "c", "d"), "I cannot.", variant="released")
    list(memory.learn(0, [loop("t/0", True), loop("t/1", False)]))
    assert [item.text for item in memory.memory.items] == [
        "Why it passed.",
        *(f"TITLE: {name}\nDESCRIPTION: when {name}\nCONTENT: do {name}" for name in "abcd"),
        "I cannot.",
    ]
    assert "not solved" in model.prompts[0]
    assert "was solved" in model.prompts[1]


@given(st.from_regex(as_regex(grammar(3)), fullmatch=True))
def test_every_reply_that_the_grammar_allows_is_read(reply):
    texts = strategies(reply)
    assert len(texts) == len(re.findall("^TITLE: ", reply, re.MULTILINE)) <= MOST["success"]
    assert all(len(text.splitlines()) == 3 for text in texts)


def test_a_copy_of_the_form_is_no_item():
    form = Prompts().render("reasoning_bank", kind="success", most=3, trajectories=[])
    assert f"CONTENT: {FORM}" in form
    assert strategies(form) == []
    assert strategies(f"TITLE: a\nCONTENT: {FORM}, and\n\nTITLE: b\nCONTENT: Sort first.") == ["b\nSort first."]
