from reflexion_lab.memory.insights import extract_patterns
from tests import builders


def reflected(name, *lessons, **fields):
    return builders.reflection(reflection_id=name, lessons=lessons, **fields)


def counted(reflections, **fields):
    return {pattern.text: pattern.count for pattern in extract_patterns(reflections, **fields)}


def test_a_lesson_of_two_reflections_is_a_pattern_with_their_ids():
    (pattern,) = extract_patterns([reflected("r1", "Check bounds"), reflected("r2", "Check bounds", "Sort first")])
    assert (pattern.text, pattern.count, pattern.reflection_ids) == ("Check bounds", 2, ("r1", "r2"))


def test_a_lesson_counts_once_in_a_reflection_however_often_it_says_it():
    twice = reflected("r1", "Check bounds", "check BOUNDS.", key_insight="Check bounds")
    assert counted([twice]) == {}
    assert counted([twice], min_frequency=1) == {"Check bounds": 1}
    assert counted([twice, reflected("r2", "check bounds")]) == {"Check bounds": 2}


def test_near_duplicates_are_one_pattern_in_the_words_of_the_first():
    told = ["Check  the bounds!", "check bounds", "CHECK A\nBOUNDS"]
    (pattern,) = extract_patterns([reflected(f"r{n}", text) for n, text in enumerate(told)], min_frequency=3)
    assert pattern.text == "Check  the bounds!"


def test_a_negated_lesson_is_another_lesson():
    assert counted([reflected("r1", "Use recursion"), reflected("r2", "Do not use recursion")]) == {}


def test_the_most_frequent_comes_first_and_equals_stay_in_their_order():
    said = ["y", "x", "z"], ["x", "y", "z"], ["z"]
    patterns = extract_patterns([reflected(f"r{n}", *lessons) for n, lessons in enumerate(said)])
    assert [pattern.text for pattern in patterns] == ["z", "y", "x"]


def test_insights_and_lessons_count_and_nothing_else():
    both = [reflected(f"r{n}", "lesson", key_insight="insight", action_items=("action",)) for n in range(2)]
    assert counted(both) == {"insight": 2, "lesson": 2}


def test_what_says_nothing_is_no_pattern():
    assert counted([reflected(f"r{n}", "", "N/A", "...", key_insight=" n/a") for n in range(3)]) == {}
    assert extract_patterns([]) == []
