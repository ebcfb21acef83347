"""Agent Workflow Memory: the file after each of thirty scripted replies, derived by hand from the method's rules."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from reflexion_lab.memory.curators.awm import FORM, GRAMMAR, SECTION, AgentWorkflowMemory, workflows
from reflexion_lab.memory.curators.curated import CuratedMemory
from reflexion_lab.memory.curators.items import ItemLimits
from reflexion_lab.records import Item, Sampling, Task
from reflexion_lab.text.prompts.render import Prompts
from tests.agent.reflectors.test_fields import as_regex
from tests.memory.curators.conftest import Scripted, loop


def flow(*names: str) -> str:
    """A reply with a workflow of two steps for each name."""
    return "\n".join(f"WORKFLOW: {name}\nSTEP: {name} first\nSTEP: {name} last" for name in names)


SAME = None
REPLIES = [
    # passed, reply, the file afterwards by the goals of its workflows
    (True, flow("a"), "a"),
    (False, flow("never asked"), SAME),
    (None, flow("never asked"), SAME),
    (True, flow("a", "b"), "ab"),
    (True, flow("c"), "c"),  # what the reply leaves out is lost
    (True, "", SAME),
    (True, "I cannot help with that.", SAME),
    (True, "WORKFLOW: d", SAME),  # no step
    (True, "WORKFLOW: d\nSTEP: d first", SAME),  # one step
    (True, "STEP: d first\nSTEP: d last", SAME),  # no goal
    (True, "WORKFLOW: d\nSTEP: d first\n" + flow("e"), "e"),
    (True, flow("e", "e"), "e"),  # equal ones are one
    (True, "WORKFLOW 1: f\nSTEP 1: f first\nSTEP 2: f last", "f"),
    (True, "**WORKFLOW:** g\n- STEP: g first\n- STEP: g last", "g"),
    (True, "## Workflow\nh\n1. h first\n2. h last", "h"),
    (True, "WORKFLOW: i\n- i first\n- i last", "i"),
    (True, "<think>\n" + flow("no") + "</think>\n" + flow("j"), "j"),
    (True, "```\n" + flow("k") + "\n```", "k"),
    (True, "Here is the file:\n\n" + flow("l", "m"), "lm"),
    (True, flow("m", "l"), "ml"),  # in the order of the reply
    (True, "workflow: n\nstep: n first\nstep: n\nlast", "n"),
    (True, "WORKFLOW: ---\nSTEP: ***\nSTEP: ...", SAME),
    (True, "WORKFLOW: o\nSTEP: o first\nSTEP: ---\nSTEP: o last", "o"),
    (True, flow(*"pqrstu"), "pqrstu"),
    (True, flow(*"uts"), "uts"),
    (False, flow("never asked"), SAME),
    (True, "\x00\ud83d{[(<", SAME),
    (True, '{"workflow": "v", "step": "w"}', SAME),
    (True, "WORKFLOW: w\n\nSTEP:   w   first\n\nSTEP: w last\n", "w"),
    (True, flow("x", "y", "z"), "xyz"),
]


def curated(*replies: str) -> tuple[CuratedMemory, Scripted]:
    model = Scripted(*replies)
    return CuratedMemory(AgentWorkflowMemory(model, Sampling()), ItemLimits()), model


def text(name: str) -> str:
    return f"{name}\n1. {name} first\n2. {name} last"


def test_thirty_replies_give_the_files_derived_by_hand():
    memory, model = curated(*(reply for passed, reply, _ in REPLIES if passed))
    names = ""
    for number, (passed, _, after) in enumerate(REPLIES):
        before = memory.memory.items
        updates = list(memory.learn(number, [loop(f"t/{number}", passed)]))
        assert len(updates) == (passed is True)
        names = names if after is SAME else after
        assert [item.text for item in memory.memory.items] == [text(name) for name in names], number
        if passed:
            assert updates[0].unreadable == (after is SAME)
            assert all(item.text in model.prompts[-1] for item in before)
            removed = [name for op in updates[0].operations if op.kind == "remove" for name in op.item_ids]
            assert removed == ([] if after is SAME else [item.item_id for item in before])
    assert len(model.prompts) == sum(passed is True for passed, _, _ in REPLIES)


def test_a_goal_that_the_prompt_holds_itself_is_none():
    form = Prompts().render("awm", trajectories=[], workflows=[]).partition("For each workflow I write\n")[2]
    assert FORM in form and workflows(form) == workflows(form.replace(" its", " **Its")) == ()
    assert workflows("\n".join((form, flow("a")))) == (text("a"),)


def test_every_prompt_shows_the_whole_file_and_an_unchanged_workflow_keeps_its_sources():
    memory, _ = curated(flow("a", "b"))
    memory.begin([Item(item_id="of-another-curator", text="Sort first.")])
    list(memory.learn(0, [loop("t/0", True)]))
    shown = memory.selection(Task(task_id="new", prompt="", entry_point="f")).items
    assert [(item.text, item.section) for item in shown] == [(text("a"), SECTION), (text("b"), SECTION)]
    assert len(memory.memory) == 3
    memory, _ = curated(flow("a"), flow("a", "b"))
    list(memory.learn(0, [loop("t/0", True), loop("t/1", True)]))
    assert [item.sources for item in memory.memory.items] == [("t/0",), ("t/0", "t/1")]


@settings(max_examples=10)  # long ones
@given(st.from_regex(as_regex(GRAMMAR), fullmatch=True))
def test_every_reply_that_the_grammar_allows_is_read(reply):
    distinct = set(re.split(r"^WORKFLOW: ", reply, flags=re.MULTILINE)[1:])
    assert len(workflows(reply)) == len(distinct)
