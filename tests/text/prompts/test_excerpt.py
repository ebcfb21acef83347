import pytest

from reflexion_lab.text.prompts.render import TOLERANCE, excerpt, longest, without_docstrings

TEXT = "".join(f"line {n}\n" for n in range(100)) + "the end"


def test_what_is_short_enough_stays_as_it_is_and_without_room_only_the_gap_is_left():
    assert excerpt(TEXT, len(TEXT)) == TEXT
    assert excerpt("", 0) == ""
    assert excerpt(TEXT, 0) == "# (101 lines are left out here)"


@pytest.mark.parametrize("chars", [20, 100, 500])
def test_both_ends_stay_in_whole_lines_and_the_gap_is_counted(chars):
    lines = excerpt(TEXT, chars).split("\n")
    gap = next(number for number, line in enumerate(lines) if line.startswith("# ("))
    missing = int(lines[gap][3:].split()[0])
    assert lines[:gap] + TEXT.split("\n")[gap : gap + missing] + lines[gap + 1 :] == TEXT.split("\n")
    assert len("\n".join(lines[:gap] + lines[gap + 1 :])) <= chars
    assert lines[0] == "line 0"


def test_the_longest_that_fits_is_found():
    kept = longest(TEXT, lambda text: len(text) <= 400)
    assert 400 - 2 * TOLERANCE - len("line 99\n") < len(kept) <= 400
    assert longest(TEXT, lambda text: True) == TEXT
    assert longest(TEXT, lambda text: False) == ""


def test_a_docstring_is_found_beside_other_strings_which_stay():
    fix = 'FIX = """\nAdd more test cases.\n"""\n\n\n'
    task = fix + 'def vowels(s):\n    """Count the vowels.\n    >>> vowels("a")\n    1\n    """\n'
    body = '    note = """\n    Count the vowels.\n    """\n    return len(s)\n'
    assert without_docstrings(task + body, task) == task.partition("    ")[0] + body
    unfinished = "    return (\n"
    assert without_docstrings(task + unfinished, task) == task.partition("    ")[0] + unfinished
    task = 'def f(s):\n    """a b."""\n'
    program = task + '    if s:\n        "a"\n    else:\n        "b"\n    "a b."\n    return s\n'
    assert without_docstrings(program, task) == program.replace('    """a b."""\n', "", 1)
    assert without_docstrings('"""a b."""\nx = 1\n', task) == "x = 1\n"
