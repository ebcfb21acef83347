"""ExpeL: traces worked by hand from its rules."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.memory.curators.expel import EXAMPLES, ExpeL, grammar, parse
from reflexion_lab.memory.curators.items import ItemLimits, ItemMemory
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Batch, Sampling, Task
from tests.agent.reflectors.test_fields import as_regex
from tests.memory.curators.conftest import Scripted, loop

SUCCESSES = Batch(finished=(loop("t/1", True),), kind="successes")

RELEASED = yaml.safe_load((Path(__file__).parent / "expel_released.yaml").read_text())
PAPER = [
    # Section 4.2: a new insight counts 2, UPVOTE and EDIT add 1, DOWNVOTE takes 1, at 0 it is removed.
    ("ADD: Sort first.\nADD: Test empty input.", {"Sort first.": 2, "Test empty input.": 2}),
    ("UPVOTE 2: Test empty input.", {"Test empty input.": 3}),
    # Test empty input. is number 1 now
    ("EDIT 1: Test empty inputs.\nDOWNVOTE 2: that one.",
     {"Test empty input.": 0, "Test empty inputs.": 4, "Sort first.": 1}),
    ("DOWNVOTE 2: again.\nUPVOTE 2: I changed my mind.", {"Sort first.": 0}),  # one operation per rule: the first
    ("ADD 2: Test empty inputs. Always.", {"Test empty inputs. Always.": 2}),
    ("UPVOTE 5: no such rule.\nUPVOTE 0: nor this.", {}),
    ("\n".join(f"ADD 9: Rule {letter}." for letter in "abcd"), {f"Rule {letter}.": 2 for letter in "abcd"}),
    ("\n".join(f"ADD 9: Rule {letter}." for letter in "efgh"), {f"Rule {letter}.": 2 for letter in "efgh"}),
    ("DOWNVOTE 1: ten rules.", {"Test empty inputs.": 3}),  # of a full list, too
]  # fmt: skip


@pytest.mark.parametrize(("variant", "trace"), [("released", RELEASED), ("paper", PAPER)])
def test_a_trace_of_replies_gives_the_rules_that_the_method_says(variant, trace):
    model = Scripted(*(reply for reply, _ in trace))
    curator = ExpeL(model, Sampling(), variant=variant, max_rules=2)
    memory, scores = ItemMemory(), {}
    for reply, changes in trace:
        curation = curator.curate(memory.items, SUCCESSES)
        memory.apply(curation.operations, reply)
        scores = {text: score for text, score in (scores | (changes or {})).items() if score}
        assert {item.text: item.counts["score"] for item in memory.items} == scores, reply
        assert curation.unreadable == (changes is None), reply
        shown = [item.text for item in curator.select(memory.items, SUCCESSES.finished[0].task).items]
        assert [scores[text] for text in shown] == sorted(scores.values(), reverse=True)


def test_pairs_come_first_then_equal_chunks_of_at_most_eight_successes():
    loops = [loop("p", False, False, True), loop("f", False, False), loop("n", None)]
    loops += [loop(f"s/{number}", True) for number in range(9)]
    batches = ExpeL(Scripted(), Sampling()).due(loops)
    shapes = [(batch.kind, [len(each.attempts) for each in batch.finished]) for batch in batches]
    assert shapes == [("pair", [2]), ("pair", [2]), ("successes", [1] * 5), ("successes", [1] * 5)]
    assert [[attempt.number for attempt in batch.finished[0].attempts] for batch in batches[:2]] == [[3, 1], [3, 2]]


def test_the_prompt_shows_pair_and_numbered_rules_and_asks_a_full_list_for_removals():
    model = Scripted("ADD 1: Sort first.", "ADD 2: Test empty input.", "AGREE 1: Sort first.")
    curator, memory = ExpeL(model, Sampling(), max_rules=2), ItemMemory()
    (pair, _) = curator.due([loop("t/1", False, True)])
    for _ in range(3):
        memory.apply(curator.curate(memory.items, pair).operations)
    assert "Attempt 1, which failed:\nprogram_1" in model.prompts[0]
    assert "Attempt 2, which passed:\nprogram_2" in model.prompts[0]
    assert "1. Sort first.\n2. Test empty input.\n" in model.prompts[2]
    assert ["focus on REMOVE" in prompt for prompt in model.prompts] == [False, False, True]
    assert '"1: Sort first."' in model.grammars[1] and "vote ::=" not in model.grammars[0]
    assert [item.sources for item in memory.items] == [("t/1",), ("t/1",)]


def test_similar_successes_are_shown_behind_the_rules():
    curator = ExpeL(Scripted("ADD 1: Sort first.", "Nothing."), Sampling(), None, Jaccard(), examples=1)
    memory = ItemMemory((), ItemLimits(duplicates="keep"))
    for name, words in (("t/1", "sum the numbers"), ("t/2", "reverse a word")):
        (batch,) = curator.due([loop(name, True, prompt=words)])
        memory.apply(curator.curate(memory.items, batch).operations, name)
    task = Task(task_id="t/3", prompt="reverse the word", entry_point="f")
    rule, example = curator.select(memory.items, task).items
    assert (rule.text, example.section, example.sources) == ("Sort first.", EXAMPLES, ("t/2",))
    without = replace(rule, counts={"score": 0})
    assert [item.section for item in curator.select([without, example], task).items] == ["", EXAMPLES]


@given(st.from_regex(as_regex(grammar(["Sort first.", "Name the units."])), fullmatch=True))
def test_every_operation_that_the_grammar_allows_is_read(reply):
    assert len(parse(reply)) == len(reply.splitlines())


def test_the_grammar_has_words_with_capitals_but_none_of_an_operation():
    language = as_regex(grammar([]))
    words = ("ValueError", "None", "I", "max_n", "ADD", "EDITs", "reAGREE")
    assert [bool(re.fullmatch(language, f"ADD 1: Avoid it if {w}.\n")) for w in words] == [True] * 4 + [False] * 3
