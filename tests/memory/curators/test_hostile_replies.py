"""Replies of weak and hostile models: unreadable ones change nothing and are counted."""

import json

import pytest
from msgspec.structs import replace

from reflexion_lab.memory.curators.ace import ACE
from reflexion_lab.memory.curators.dynamic_cheatsheet import DynamicCheatsheet
from reflexion_lab.memory.curators.expel import ExpeL
from reflexion_lab.memory.curators.items import ItemMemory
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Batch, Sampling
from tests.builders import Replies
from tests.memory.curators.conftest import loop

METHODS = {
    "expel": lambda model: ExpeL(model, Sampling()),
    "expel/paper": lambda model: ExpeL(model, Sampling(), variant="paper", max_operations=0),
    "ace": lambda model: ACE(model, Sampling()),
    "ace/paper": lambda model: ACE(model, Sampling(), None, Jaccard(), variant="paper", similar=0.9),
    "cheatsheet": lambda model: DynamicCheatsheet(model, Sampling(), Jaccard()),
}
HOSTILE = [
    "", " \n\t", "\x00" * 10, "\ud800", "None", "{}", "[]", "{" * 50_000, "[" * 50_000, '{"operations": ' * 5000,
    "ADD" * 20_000, "*" * 50_000, "#" * 50_000, "ADD " + "1" * 50_000, "<think>" * 5000, "```" * 5000,
    '{"operations": {"type": "ADD"}}', '{"operations": [1, null, "ADD"]}',
    '{"operations": [{"type": "ADD", "section": 1}]}',
    '{"operations": [{"section": "OTHERS", "content": "no type"}]}', '{"bullet_tags": 3, "operations": 4}',
    "<cheatsheet", "cheatsheet>", "<cheatsheet><cheatsheet>",
]  # fmt: skip
HARMLESS = [
    # Readable by one method or another, without a valid operation for any.
    "ADD 1: " + "long " * 3000, "AGREE 999999999999999999999: x.", "EDIT -1: x.", "EDIT 0: x.", "REMOVE: .", "ADD 1: .",
    "ADD 1: a\x07bell.", '{"bullet_tags": [1, null, {"id": ["x"]}, {"id": {}, "tag": []}], "operations": []}',
    '{"key_insight": "x", "operations": [{"type": {"a": 1}}, {"type": "UPDATE"}]}',
    '{"key_insight": "x", "operations": [{"type": "MERGE", "source_ids": [{}]}]}',
]  # fmt: skip
BEGINNING = {"expel": "ADD 1: Sort first.", "ace": None, "cheatsheet": "<cheatsheet>A</cheatsheet>"}


def started(name):
    """A method with a memory of one or more items."""
    model = Replies(BEGINNING[name.partition("/")[0]] or json.dumps(
        {"key_insight": "x", "operations": [{"type": "ADD", "section": "OTHERS", "content": "Sort first."}]}
    ))  # fmt: skip
    method, memory = METHODS[name](model), ItemMemory()
    memory.apply(learn(method, memory).operations)
    assert len(memory) == 1
    return model, method, memory


def learn(method, memory):
    (batch,) = method.due([loop("t/1", True)])
    return method.curate(memory.items, Batch(finished=tuple(replace(f, shown=memory.items) for f in batch.finished)))


@pytest.mark.parametrize("name", METHODS)
def test_an_unreadable_reply_changes_nothing_and_is_counted(name):
    for reply in [*HOSTILE, *HARMLESS]:
        model, method, memory = started(name)
        before = memory.items
        model.reply = reply
        curation = learn(method, memory)
        memory.apply(curation.operations, "2")
        assert memory.items == before, reply[:50]
        assert curation.unreadable > 0 or reply in HARMLESS, reply[:50]
        assert reply == "" or reply in curation.replies


@pytest.mark.parametrize("name", METHODS)
def test_a_withheld_reply_is_unreadable(name):
    model, method, memory = started(name)
    model.fields["finish_reason"] = "content_filter"
    curation = learn(method, memory)
    assert curation.operations == () and curation.unreadable > 0
