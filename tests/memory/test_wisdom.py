"""The book of wisdom: what is found, what sinks, what is retired, and that nothing of it is lost."""

from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.memory.lessons.wisdom import WisdomBook, trust, wisdom_document
from reflexion_lab.memory.retrieval.bm25 import BM25
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Wisdom
from tests import builders


def wisdom(pattern, number=0, **fields) -> Wisdom:
    known = {"wisdom_id": f"wis-{number or pattern}", "pattern": pattern, "frequency": 2, "impact": 0.0}
    return Wisdom(**known | {"domain": "code"} | fields)


def patterns(entries) -> list[str]:
    return [entry.pattern for entry in entries]


@pytest.fixture
def book() -> WisdomBook:
    book = WisdomBook(Jaccard())
    for pattern in ("nil pointer dereference check", "database timeout issue", "loop ends one too early"):
        book.upsert(wisdom(pattern))
    return book


@pytest.mark.parametrize(("query", "first"), [
    ("nil pointer check in code", "nil pointer dereference check"), ("Database timeout", "database timeout issue"),
    ("why does this loop end early?", "loop ends one too early"),
])  # fmt: skip
@pytest.mark.parametrize("retriever", [Jaccard, BM25])
def test_the_nearest_comes_first_whatever_the_retriever(book, retriever, query, first):
    other = WisdomBook(retriever())
    for entry in book:
        other.upsert(entry)
    assert patterns(other.relevant(query, 2))[0] == first
    assert patterns(other.relevant(query, 1)) == [first]


@pytest.mark.parametrize(("query", "k"), [("", 3), ("  ", 3), ("nil", 0), ("nil", -1), ("kubernetes deployment", 3)])
def test_an_empty_query_or_book_finds_nothing(book, query, k):
    assert book.relevant(query, k) == []
    assert WisdomBook(Jaccard()).relevant("nil pointer", 3) == []


def test_excluded_entries_make_room_for_others():
    book = WisdomBook(Jaccard())
    for number in range(1, 9):
        book.upsert(wisdom(f"pointer p{number}", number, tasks=("a",) if number > 2 else ("b",)))

    def view(entry):
        return replace(entry, pattern=entry.pattern.upper()) if entry.tasks == ("b",) else None

    assert patterns(book.relevant("pointer", 2, view=view)) == ["POINTER P2", "POINTER P1"]


def test_stored_usage_is_adopted_only_if_it_is_higher():
    used = wisdom("pointer one", 1, use_count=4, success_rate=0.25, last_used_at=9.0)
    for n_uses, expected in ((3, (4, 0.25, 9.0)), (5, (5, 1.0, 9.0))):
        book = WisdomBook(Jaccard())
        book.begin([used], [[builders.episode(metadata={"wisdom": "wis-1"}, passed=True)] * n_uses])
        assert [(entry.use_count, entry.success_rate, entry.last_used_at) for entry in book] == [expected]


def test_pattern_tags_and_domain_are_searched_and_a_word_counts_once():
    book = WisdomBook(Jaccard())
    book.upsert(wisdom("one", tags=("mutex",), domain="concurrency"))
    assert patterns(book.relevant("one", 1)) == patterns(book.relevant("mutex", 1)) == ["one"]
    assert patterns(book.relevant("concurrency", 1)) == ["one"]
    assert wisdom_document(wisdom("nil nil pointer", tags=("nil", "pointer"), domain="code")) == "nil pointer code"


def test_the_least_score_is_inclusive_and_ties_are_broken_by_impact_then_the_newer():
    book = WisdomBook(Jaccard())
    book.upsert(wisdom("nil pointer", domain="code"))
    assert len(book.relevant("nil pointer", 1, 2 / 3 - 1e-6)) == 1
    assert len(book.relevant("nil pointer code", 1, 1.0)) == 1
    assert book.relevant("nil pointer", 1, 0.7) == []
    book = WisdomBook(Jaccard())
    for number, (name, impact) in enumerate([("pa", 0.1), ("pb", 0.9), ("pc", 0.1)], 1):
        book.upsert(wisdom(f"pointer {name}", number, impact=impact))
    assert patterns(book.relevant("pointer", 3)) == ["pointer pb", "pointer pc", "pointer pa"]


def test_one_that_keeps_failing_sinks_below_an_unused_one_and_makes_room_for_all_others():
    book = WisdomBook(Jaccard(), retire_after=100)
    book.upsert(wisdom("pointer pa", 1, impact=0.9))
    book.upsert(wisdom("pointer pb", 2))
    assert patterns(book.relevant("pointer", 2)) == ["pointer pa", "pointer pb"]
    for at in range(5):
        book.record_usage("wis-1", success=False, at=at)
    assert patterns(book.relevant("pointer", 2)) == ["pointer pb", "pointer pa"]
    book = WisdomBook(Jaccard(), retire_after=100)
    for number in range(1, 41):
        book.upsert(wisdom(f"pointer p{number}", number))
    for number in range(1, 40):
        book.record_usage(f"wis-{number}", success=False, at=1.0)
    assert patterns(book.relevant("pointer", 1)) == ["pointer p40"]


def test_a_trusted_entry_outweighs_nearer_ones_beyond_the_first_hits():
    book = WisdomBook(Jaccard(), retire_after=100)
    for number, name in enumerate(("pa", "pb", "pc with more words"), 1):
        book.upsert(wisdom(f"pointer {name}", number))
    for number in (1, 2):
        for at in range(9):
            book.record_usage(f"wis-{number}", success=False, at=at)
    assert patterns(book.relevant("pointer", 1)) == ["pointer pc with more words"]


def test_trust_falls_with_failures_from_that_of_an_unused_entry():
    assert trust(wisdom("a")) == trust(wisdom("a", use_count=9, success_rate=1.0)) == 1.0
    assert trust(wisdom("a", use_count=4, success_rate=0.25)) == pytest.approx(2 / 5)
    failing = [trust(wisdom("a", use_count=uses)) for uses in range(5)]
    assert failing == sorted(failing, reverse=True)
    assert min(failing) > 0


def test_one_that_failed_long_enough_is_retired_and_still_listed():
    book = WisdomBook(Jaccard(), retire_after=5, retire_below=0.2)
    book.upsert(wisdom("pointer", 1))
    for at in range(4):
        book.record_usage("wis-1", success=False, at=at)
    assert patterns(book.relevant("pointer", 1)) == ["pointer"]
    used = book.record_usage("wis-1", success=False, at=5)
    assert book.is_retired(used)
    assert book.relevant("pointer", 1) == []
    assert patterns(book) == ["pointer"]
    book.upsert(wisdom("pointer", 1, frequency=9, domain="testing"))
    assert book.relevant("pointer", 1) == []
    book.upsert(wisdom("pointer at the bound", 2, use_count=5, success_rate=0.2))
    assert patterns(book.relevant("pointer", 1)) == ["pointer at the bound"]


def test_usage_is_a_running_count_and_rate():
    book = WisdomBook(Jaccard())
    book.upsert(wisdom("a", 1))
    updates = [book.record_usage("wis-1", success, at) for at, success in ((10.0, True), (20.0, False), (15.0, True))]
    assert [(entry.use_count, round(entry.success_rate, 3)) for entry in updates] == [(1, 1.0), (2, 0.5), (3, 0.667)]
    assert [entry.last_used_at for entry in updates] == [10.0, 20.0, 20.0]
    assert book["wis-1"] == updates[-1]


@given(st.lists(st.booleans(), max_size=200))
def test_the_rate_stays_exact_however_often_it_is_updated(outcomes):
    book = WisdomBook(Jaccard())
    book.upsert(wisdom("a", 1))
    for success in outcomes:
        book.record_usage("wis-1", success, 1.0)
    assert book["wis-1"].success_rate == (sum(outcomes) / len(outcomes) if outcomes else 0.0)


def test_an_unknown_id_is_an_error_that_says_what_to_do(book):
    with pytest.raises(ValueError, match=r"wisdom: got 'wis-x', expected one of 3 ids; `reflexion-lab wisdom list`"):
        book.record_usage("wis-x", success=True, at=1.0)
    with pytest.raises(ValueError, match="wisdom: got 'wis-x', expected one of 3 ids"):
        book["wis-x"]
    assert "wis-x" not in book
    assert "wis-database timeout issue" in book


def test_an_upsert_changes_what_was_learnt_keeps_what_was_counted_and_replaces_searched_text():
    book = WisdomBook(Jaccard())
    book.upsert(wisdom("a", 1, created_at=5.0))
    used = book.record_usage("wis-1", success=True, at=9.0)
    kept = book.upsert(wisdom("a", 1, frequency=7, impact=0.5, created_at=100.0))
    assert kept == book["wis-1"] == replace(used, frequency=7, impact=0.5)
    assert len(book) == 1
    book = WisdomBook(Jaccard())
    book.upsert(wisdom("nil pointer", 1, domain="code"))
    book.upsert(wisdom("nil pointer", 1, domain="testing"))
    assert patterns(book.relevant("nil testing", 5)) == ["nil pointer"]
    assert book.relevant("code", 5) == []
    assert len(book) == 1
    watched = Mock(wraps=Jaccard())
    book = WisdomBook(watched)
    for frequency in (2, 3, 4):
        book.upsert(wisdom("nil pointer", 1, frequency=frequency))
    assert [list(call.args[0]) for call in watched.add.call_args_list] == [["nil pointer code"]]
