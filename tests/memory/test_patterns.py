import pytest

from reflexion_lab.memory.lessons.insights import extract_patterns
from tests import builders


def reflected(name, *lessons, **fields):
    return builders.reflection(reflection_id=name, lessons=lessons, **fields)


def counted(reflections, **fields):
    return {pattern.text: pattern.count for pattern in extract_patterns(reflections, **fields)}


def test_a_lesson_of_two_reflections_is_a_pattern_and_counts_once_per_reflection():
    (pattern,) = extract_patterns([reflected("r1", "Check bounds"), reflected("r2", "Check bounds", "Sort first")])
    assert (pattern.text, pattern.count, pattern.reflection_ids) == ("Check bounds", 2, ("r1", "r2"))
    twice = reflected("r1", "Check bounds", "check BOUNDS.", key_insight="Check bounds")
    assert counted([twice]) == {}
    assert counted([twice], min_frequency=1) == {"Check bounds": 1}
    assert counted([twice, reflected("r2", "check bounds")]) == {"Check bounds": 2}
    lessons = ["Check  the bounds!", "check bounds", "CHECK A\nBOUNDS"]
    (pattern,) = extract_patterns([reflected(f"r{n}", text) for n, text in enumerate(lessons)], min_frequency=3)
    assert pattern.text == "Check  the bounds!"


@pytest.mark.parametrize(
    ("lessons", "expected"),
    [
        ([["Use recursion"], ["Do not use recursion"]], []),
        ([["y", "x", "z"], ["x", "y", "z"], ["z"]], ["z", "y", "x"]),  # most frequent first, ties in input order
        ([["", "N/A", "..."]] * 3, []),
        ([], []),
    ],
)
def test_patterns_are_repeated_lessons_by_frequency(lessons, expected):
    assert list(counted([reflected(f"r{n}", *texts) for n, texts in enumerate(lessons)])) == expected


def test_insights_and_lessons_count_and_nothing_else():
    both = [reflected(f"r{n}", "lesson", key_insight="insight", action_items=("action",)) for n in range(2)]
    assert counted(both) == {"insight": 2, "lesson": 2}
    assert counted([reflected(f"r{n}", key_insight=" n/a") for n in range(2)]) == {}
