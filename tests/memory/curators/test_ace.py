"""ACE: traces worked by hand from its rules."""

import json

import numpy as np
import pytest
from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.curators.ace import ACE, Reflected, parse_reflection, statistics
from reflexion_lab.memory.curators.items import ItemLimits, ItemMemory
from reflexion_lab.memory.retrieval.bm25 import BM25
from reflexion_lab.memory.retrieval.controls import Random
from reflexion_lab.memory.retrieval.embedding import EmbeddingRetriever
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Batch, Item, Sampling
from tests.memory.curators.conftest import Scripted, loop

LOOP = loop("t/1", False, True)
TIPS, ERRORS, CODE, OTHERS = "STRATEGIES & INSIGHTS", "COMMON MISTAKES TO AVOID", "CODE SNIPPETS & TEMPLATES", "OTHERS"


def tags(**named):
    """A reflection; `@1` stands for the id of the first item that memory had."""
    listed = [{"id": f"@{name[1:]}", "tag": tag} for name, tag in named.items()]
    return json.dumps({"reasoning": "r", "key_insight": "an insight", "bullet_tags": listed})


def ops(*operations):
    return json.dumps({"reasoning": "r", "operations": operations})


def add(section, content):
    return {"type": "ADD", "section": section, "content": content}


def on(kind, *ids, content=""):
    named = {"source_ids": ids} if kind == "MERGE" else {"bullet_id": ids[0]}
    return {"type": kind, **named, "content": content}


READ, OFF, NAMES, SETS, ONCE = "Read the examples.", "Off by one.", "Name things.", "Use sets.", "Sort once."
RELEASED = [
    # Two replies of a call; what changes of text -> (section, helpful, harmful), None: it is gone; unreadable replies.
    (tags(), ops(add(TIPS, READ)), {READ: (TIPS, 0, 0)}, 0),
    (tags(n1="helpful"), ops(add("common_mistakes_to_avoid", OFF)), {READ: (TIPS, 1, 0), OFF: (ERRORS, 0, 0)}, 0),
    (tags(n1="harmful", n2="neutral"), ops(), {READ: (TIPS, 1, 1)}, 0),
    (tags(n9="helpful"), ops(on("UPDATE", "@1", content="New.")), {}, 0),
    (tags(n1="great"), ops(on("DELETE", "@2")), {}, 0),
    ('{"bullet_tags": [{"bullet": "@2", "tag": "helpful"}]}', ops(add("Unknown", NAMES)),
     {OFF: (ERRORS, 1, 0), NAMES: (OTHERS, 0, 0)}, 0),
    ("No idea.", ops(add(TIPS, SETS)), {SETS: (TIPS, 0, 0)}, 1),
    (tags(n3="helpful"), "not json", {NAMES: (OTHERS, 1, 0)}, 1),
    (tags(n3="helpful"), ops(add(TIPS, "Valid."), {"type": "ADD", "section": TIPS}), {NAMES: (OTHERS, 2, 0)}, 1),
    ('{"bullet_tags": [{"id": "@1", "tag": "helpful"}, {"id": "@1", "tag": "harmful"}]}', ops(),
     {READ: (TIPS, 1, 2)}, 0),
    (tags(), f"Here:\n```json\n{ops(add('code snippets and templates', ONCE))}\n```", {ONCE: (CODE, 0, 0)}, 0),
    (tags(), ops(add(TIPS, "READ  the examples!")), {}, 0),  # the lab refuses equal words
    (tags(), ops(on("MERGE", "@1", "@2", content="Both.")), {}, 0),
    ('{"key_insight": "Only this."}', ops(add(ERRORS, "A second one.")), {"A second one.": (ERRORS, 0, 0)}, 0),
    (tags(), ops({"type": "CREATE_META", "section_name": "META"}), {}, 0),
]  # fmt: skip
PAPER = [
    (tags(), ops(add(TIPS, READ), add(ERRORS, OFF), add(OTHERS, NAMES)),
     {READ: (TIPS, 0, 0), OFF: (ERRORS, 0, 0), NAMES: (OTHERS, 0, 0)}, 0),
    (tags(n1="helpful", n2="helpful", n3="harmful"), ops(on("UPDATE", "@1", content="Read them all.")),
     {READ: (TIPS, 1, 0), OFF: (ERRORS, 1, 0), NAMES: (OTHERS, 0, 1)}, 0),
    # a duplicate is dropped, whatever its section
    (tags(n1="helpful"), ops(add(OTHERS, "The read examples!"), add(CODE, ONCE)),
     {READ: (TIPS, 2, 0), ONCE: (CODE, 0, 0)}, 0),
    (tags(), ops(on("DELETE", "@3"), on("MERGE", "@1", "@2", content="X.")), {}, 0),
]  # fmt: skip


def curated(curator, model, memory, replies, ids=()):
    for number, name in enumerate(ids, 1):
        replies = [reply.replace(f"@{number}", name) for reply in replies]
    model.replies += replies
    batch = Batch(finished=(replace(LOOP, shown=memory.items),))
    curation = curator.curate(memory.items, batch)
    return curation, memory.apply(curation.operations, str(len(model.replies)))


@pytest.mark.parametrize(("variant", "trace"), [("released", RELEASED), ("paper", PAPER)])
def test_a_trace_of_replies_gives_the_playbook_that_the_method_says(variant, trace):
    model, memory, playbook, ids = Scripted(), ItemMemory(), {}, {}
    curator = ACE(model, Sampling(), None, Jaccard(), variant=variant)
    for reflection, operations, changes, unreadable in trace:
        curation, _ = curated(curator, model, memory, (reflection, operations), ids)
        ids |= dict.fromkeys(item.item_id for item in memory.items)
        playbook = {text: value for text, value in (playbook | changes).items() if value}
        state = {i.text: (i.section, i.counts["helpful"], i.counts["harmful"]) for i in memory.items}
        assert (state, curation.unreadable) == (playbook, unreadable), operations


def test_all_items_are_shown_by_section_as_lines_of_the_playbook():
    model, memory = Scripted(), ItemMemory()
    curator = ACE(model, Sampling())
    curated(curator, model, memory, (tags(), ops(add(ERRORS, OFF), add(TIPS, READ))))
    curated(curator, model, memory, (tags(n1="helpful"), ops()), [item.item_id for item in memory.items])
    off, read = (item.item_id for item in memory.items)
    lines = [f"[{read}] helpful=0 harmful=0 :: {READ}", f"[{off}] helpful=1 harmful=0 :: {OFF}"]
    selection = curator.select(memory.items, LOOP.task)
    assert [(item.item_id, item.text) for item in selection.items] == [(read, lines[0]), (off, lines[1])]
    assert f"[{off}] helpful=0 harmful=0 :: {OFF}" in model.prompts[2]  # before the tags
    assert all(line in model.prompts[3] for line in (*lines, f"## {TIPS}", "an insight", "at most 80000 tokens"))
    assert "2 items, of which 0 high-performing, 0 problematic, 1 unused." in model.prompts[3]
    assert f'\\"{off}\\"' in model.grammars[2]


def test_the_attempts_of_a_loop_are_the_rounds_of_one_reflection():
    model = Scripted()
    curated(ACE(model, Sampling()), model, ItemMemory(), (tags(), ops()))
    reflection, curation = model.prompts
    assert reflection.index("Attempt 1, which failed") < reflection.index("Attempt 2, which passed")
    assert LOOP.task.prompt in curation and "Attempt" not in curation


@pytest.mark.parametrize(
    ("budget", "words"), [(0, "The playbook (its sections"), (70, "The playbook (at most 70 tokens; its sections")]
)
def test_the_prompt_names_a_budget_if_there_is_one(budget, words):
    model = Scripted()
    curated(ACE(model, Sampling(), token_budget=budget), model, ItemMemory(), (tags(), ops()))
    assert words in model.prompts[1]


class Words:
    """Vectors of words, far from those of equal queries."""

    def embed(self, texts, kind):
        words = ["read", "the", "given", "examples", "first", "use", "a", "set"]
        rows = np.array([[5 * (kind == "query"), *(word in text.split() for word in words)] for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("retriever", [Jaccard(), EmbeddingRetriever(Words())])
def test_an_item_that_is_similar_to_another_leaves_it_its_source(retriever):
    model, memory = Scripted(), ItemMemory()
    curator = ACE(model, Sampling(), None, retriever, similar=0.7)
    curated(curator, model, memory, (tags(), ops(add(TIPS, "read the given examples first"))))
    other = Batch(finished=(loop("t/2", True),))
    model.replies += [tags(), ops(add(TIPS, "read the examples first"), add(TIPS, "use a set"))]
    memory.apply(curator.curate(memory.items, other).operations, "2")
    assert [(item.text, item.sources) for item in memory.items] == [
        ("read the given examples first", ("t/1", "t/2")),
        ("use a set", ("t/2",)),
    ]


@pytest.mark.parametrize(("off", "left"), [("harmful", READ), ("helpful", OFF)])
def test_a_full_playbook_goes_on_learning_and_loses_what_harms_then_what_is_old(off, left):
    model, memory = Scripted(), ItemMemory(limits=ItemLimits(max_items=2))
    curator = ACE(model, Sampling())
    curated(curator, model, memory, (tags(), ops(add(TIPS, READ), add(ERRORS, OFF))))
    ids = [item.item_id for item in memory.items]
    curated(curator, model, memory, (tags(n1="helpful", n2=off), ops(add(OTHERS, NAMES))), ids)
    assert [item.text for item in memory.items] == [left, NAMES]


@pytest.mark.parametrize(
    ("counts", "name"),
    [((6, 1), "high-performing"), ((6, 2), ""), ((1, 1), "problematic"), ((0, 2), "problematic"), ((0, 0), "unused")],
)
def test_statistics_of_a_playbook(counts, name):
    item = Item(item_id="a", text="x", counts=dict(zip(("helpful", "harmful"), counts, strict=True)))
    assert [key for key, n in statistics([item]).items() if n] == [name] * bool(name)


def test_two_similar_items_of_a_reply_are_one():
    model, memory = Scripted(), ItemMemory()
    curator = ACE(model, Sampling(), None, Jaccard(), variant="paper")
    curated(curator, model, memory, (tags(), ops(add(TIPS, READ), add(OTHERS, "The examples: read!"), add(CODE, ONCE))))
    assert [item.text for item in memory.items] == [READ, ONCE]


@pytest.mark.parametrize("retriever", [None, BM25(), Random()])
def test_duplicates_need_a_similarity(retriever):
    with pytest.raises(ConfigError, match=r"curator\.similar: got 0\.9 with"):
        ACE(Scripted(), Sampling(), None, retriever, variant="paper")
    ACE(Scripted(), Sampling(), None, retriever)


def test_tags_of_a_reflection_that_broke_off_count():
    broken = '{"key_insight": "Sort.", "bullet_tags": [{"id": "a", "tag": "harmful"}, {"id": "b", "tag": "hel'
    assert parse_reflection(broken, ["a", "b"]) == Reflected({"a": "harmful"}, "")
    assert parse_reflection('{"key_insight": "Sort.", "bullet_tags": [{"id": "a", "ta', ["a"]) is None
