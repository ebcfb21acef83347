"""A-Mem: the notes after scripted replies, thirty of them, derived by hand from the paper's rules."""

import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.memory.curators.a_mem import ANALYSIS, AMem, Note, decided, evolution
from reflexion_lab.memory.curators.curated import CuratedMemory
from reflexion_lab.memory.curators.items import ItemLimits
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.protocols import Hit
from reflexion_lab.records import Item, Sampling, Task
from tests import builders
from tests.agent.reflectors.test_fields import as_regex
from tests.memory.curators.conftest import Scripted, loop


class ByName:
    """A retriever by which notes are near in the order of their tasks' names."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.first = 0

    def add(self, documents):
        self.names += [re.findall("about (.)", document)[0] for document in documents]

    def forget(self, before):
        self.first = before

    def rank(self, query, k):
        numbers = sorted(range(self.first, len(self.names)), key=lambda n: self.names[n])
        return [Hit(number, 1.0) for number in numbers[:k]]


def described(name: str) -> str:
    return f"KEYWORDS: {name} word\nCONTEXT: on {name}\nTAGS: {name} tag"


BAD = "I cannot help with that."
REPLIES = [
    # task, its description, the decision, how the new note differs, its links, edits of neighbours, unreadable replies
    ("a", described("a"), None, {}, "", {}, 0),  # without neighbours there is nothing to decide
    ("b", described("b"), "EVOLVE: no", {}, "", {}, 0),
    ("c", described("c"), "EVOLVE: yes\nLINK: 1, 2\nTAGS: new c", {"tags": "new c"}, "ab", {}, 0),
    (
        "d", described("d"), "EVOLVE: yes\nLINK: none\nTAGS: none\nNEIGHBOUR: 1\nCONTEXT: sums\nTAGS: lists", {}, "",
        {"a": {"context": "sums", "tags": "lists"}}, 0,
    ),
    ("e", described("e"), BAD, {}, "", {}, 1),
    ("f", BAD, "EVOLVE: no", {"context": "General", "keywords": "", "tags": ""}, "", {}, 1),
    (  # its neighbours are a to e
        "g", described("g"), "EVOLVE: yes\nNEIGHBOUR: 9\nCONTEXT: x\nNEIGHBOUR: 5\nTAGS: five", {}, "",
        {"e": {"tags": "five"}}, 0,
    ),
    ("h", described("h"), "EVOLVE: yes\nCONTEXT: not its own\nKEYWORDS: no\nLINK: 7, 0, 3, 3", {}, "c", {}, 0),
    (  # neighbours without numbers are in order
        "i", described("i"), "EVOLVE: yes\nNEIGHBOUR:\nCONTEXT: first\nNEIGHBOUR:\nCONTEXT: second", {}, "",
        {"a": {"context": "first"}, "b": {"context": "second"}}, 0,
    ),
    ("j", described("j"), "LINK: 1\nTAGS: x", {}, "", {}, 1),  # whether it evolves is not said
    ("k", described("k"), "EVOLVE: maybe\nLINK: 1", {}, "", {}, 1),
    ("l", described("l"), "**should_evolve:** True\n- Links: 2\n- New tags: l tags", {"tags": "l tags"}, "b", {}, 0),
    ("m", BAD, BAD, {"context": "General", "keywords": "", "tags": ""}, "", {}, 2),
    ("n", described("n"), "EVOLVE: no\nLINK: 1\nNEIGHBOUR: 1\nCONTEXT: ignored", {}, "", {}, 0),
    (  # the first of several values counts; c has this context already
        "o", described("o"),
        "EVOLVE: yes\nNEIGHBOUR: 2\nCONTEXT: one\nNEIGHBOUR: 2\nCONTEXT: two\nNEIGHBOUR: 3\nCONTEXT: on c", {}, "",
        {"b": {"context": "one"}}, 0,
    ),
    ("p", "CONTEXT: only this", "EVOLVE: no", {"context": "only this", "keywords": "", "tags": ""}, "", {}, 0),
]  # fmt: skip


def notes(*replies: str, retriever=None, **options) -> tuple[CuratedMemory, Scripted]:
    model = Scripted(*replies)
    return CuratedMemory(AMem(retriever or ByName(), model, Sampling(), **options), ItemLimits(max_tokens=0)), model


def test_the_replies_give_the_notes_derived_by_hand():
    memory, model = notes(*(reply for row in REPLIES for reply in row[1:3] if reply is not None))
    expected: dict[str, dict[str, str]] = {}
    links: dict[str, str] = {}
    sources: dict[str, tuple[str, ...]] = {}
    for number, (name, _, _, differs, linked, edits, unreadable) in enumerate(REPLIES):
        (update,) = memory.learn(number, [loop(name, number % 2 == 0)])
        assert update.unreadable == unreadable, name
        assert [op.kind for op in update.operations] == ["edit"] * len(edits) + ["add"], name
        expected[name] = {"context": f"on {name}", "keywords": f"{name} word", "tags": f"{name} tag"} | differs
        links[name], sources[name] = linked, (name,)
        for other, fields in edits.items():
            expected[other] |= fields
            sources[other] += (name,)
        items = {item.sources[0]: item for item in memory.memory.items}
        ids = {item.item_id: source for source, item in items.items()}
        read = {source: Note.of(item)._asdict() for source, item in items.items()}
        assert {source: note.pop("content").splitlines()[1] for source, note in read.items()} == {
            source: f"about {source}" for source in expected
        }
        assert read == expected, name
        assert {source: "".join(ids[link] for link in item.links) for source, item in items.items()} == links
        assert {source: item.sources for source, item in items.items()} == sources
    assert len(model.prompts) == 31
    assert [grammar == ANALYSIS for grammar in model.grammars[:4]] == [True, True, False, True]
    assert model.grammars[2] == evolution(1)
    assert model.grammars[-1] == evolution(5)


def test_as_released_a_note_is_not_described_and_compared_by_its_content_alone():
    memory, model = notes("EVOLVE: yes\nLINK: 1\nTAGS: t", variant="released")
    list(memory.learn(0, [loop("a", True), loop("b", True)]))
    first, second = memory.memory.items
    assert Note.of(first) == Note(first.key)
    assert Note.of(second) == Note(second.key, tags="t")
    assert second.links == (first.item_id,)
    assert len(model.prompts) == 1


def test_success_plays_no_part():
    memory, model = notes(described("a"), "EVOLVE: no")
    judged = builders.attempt(
        number=2, judged={"feedback": "assert f(1) == 2 failed"}, reflection=builders.reflection()
    )
    list(memory.learn(0, [replace(loop("a", False), attempts=(judged,))]))
    for text in (model.prompts[0], memory.memory.items[0].text):
        assert f"Program:\n{builders.ADD.strip()}" in text
        assert not any(word in text for word in ("failed", "Attempt", "f(1) == 2", "cause 1"))


def test_a_prompt_shows_the_nearest_notes_and_those_that_they_link_to():
    memory, _ = notes(retriever=Jaccard(), k=2)
    texts = {"a": "sort a list", "b": "sort a tuple", "c": "read a file", "d": "x", "e": "y", "f": "z"}
    links = {"a": ("c", "b", "gone"), "b": ("d", "e", "f")}
    memory.begin(Item(item_id=name, text=text, links=links.get(name, ())) for name, text in texts.items())
    shown = memory.selection(Task(task_id="new", prompt="sort a list", entry_point="f")).items
    assert [item.item_id for item in shown] == ["a", "b", "c", "d"]


@given(st.from_regex(as_regex(evolution(3)), fullmatch=True))
def test_every_decision_that_the_grammar_allows_is_read(reply):
    decision = decided(reply, 3)
    assert decision is not None
    assert bool(decision.values) == reply.startswith("EVOLVE: yes")


@given(st.from_regex(as_regex(ANALYSIS), fullmatch=True))
def test_every_description_that_the_grammar_allows_is_read(reply):
    memory, _ = notes(reply)
    (update,) = memory.learn(0, [loop("a", True)])
    assert update.unreadable == 0
    assert all(Note.of(memory.memory.items[0]))
