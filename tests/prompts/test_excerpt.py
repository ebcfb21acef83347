import pytest

from reflexion_lab.prompts.excerpt import CLOSE, excerpt, longest

TEXT = "".join(f"line {n}\n" for n in range(100)) + "the end"


def test_what_is_short_enough_stays_as_it_is():
    assert excerpt(TEXT, len(TEXT)) == TEXT
    assert excerpt("", 0) == ""


@pytest.mark.parametrize("chars", [20, 100, 500])
def test_both_ends_stay_in_whole_lines_and_the_gap_is_counted(chars):
    lines = excerpt(TEXT, chars).split("\n")
    gap = next(number for number, line in enumerate(lines) if line.startswith("# ("))
    missing = int(lines[gap][3:].split()[0])
    assert lines[:gap] + TEXT.split("\n")[gap : gap + missing] + lines[gap + 1 :] == TEXT.split("\n")
    assert len("\n".join(lines[:gap] + lines[gap + 1 :])) <= chars
    assert lines[0] == "line 0"


def test_without_room_only_the_gap_is_left():
    assert excerpt(TEXT, 0) == "# (101 lines are left out here)"


def test_the_longest_that_fits_is_found():
    kept = longest(TEXT, lambda text: len(text) <= 400)
    assert 400 - 2 * CLOSE - len("line 99\n") < len(kept) <= 400
    assert longest(TEXT, lambda text: True) == TEXT
    assert longest(TEXT, lambda text: False) == ""
