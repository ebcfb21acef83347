"""Templates of `basics` about reading what a text holds."""

from __future__ import annotations

from random import Random

from reflexion_lab.benchmarks.basics_template import Template, numbers, quantities, text, words

PARSING = (
    Template(
        "easy",
        ("list_of_words", "split_words", "words_of"),
        "(text: str) -> list[str]",
        "Return the list of the words in the string, which are separated by {k!r}.",
        "return text.split({k!r})",
        lambda r, k: (k.join(words(r, 1, 4)),),
        (",", ";", "-", "/", ":"),
    ),
    Template(
        "easy",
        ("read_number", "text_to_number", "number_from_text"),
        "(text: str) -> int",
        "Return the number in the string as an integer, plus {k}.",
        "return int(text) + {k}",
        lambda r, k: (str(r.randint(0, 200)),),
        range(1, 10),
    ),
    Template(
        "easy",
        ("trim", "without_outer_spaces", "tidy_ends"),
        "(text: str) -> str",
        "Return the string without spaces at its beginning and its end.",
        "return text.strip()",
        lambda r, k: (" " * r.randint(0, 3) + text(r, 1, 2) + " " * r.randint(0, 3),),
    ),
    Template(
        "easy",
        ("count_words", "number_of_words", "word_total"),
        "(text: str) -> int",
        "Return the number of words in the string.",
        "return len(text.split())",
        lambda r, k: (text(r, 1, 6),),
    ),
    Template(
        "easy",
        ("only_digits", "is_a_number", "all_digits"),
        "(text: str) -> bool",
        "Return True if all characters of the string are digits, else False.",
        "return text.isdigit()",
        lambda r, k: (r.choice(("", "", r.choice("abxy"), "-")) + str(r.randint(0, 9999)),),
    ),
    Template(
        "easy",
        ("number_to_text", "label_number", "with_unit"),
        "(n: int) -> str",
        "Return the number n as a string, followed by {k!r}.",
        "return str(n) + {k!r}",
        lambda r, k: (r.randint(-9, 300),),
        (" km", " kg", " cm", "%", " min"),
    ),
    Template(
        "medium",
        ("add_numbers_in_text", "sum_of_list_text", "total_of_text"),
        "(text: str) -> int",
        "Return the sum of the numbers in the string, which are separated by {k!r}.",
        "return sum(int(part) for part in text.split({k!r}))",
        lambda r, k: (k.join(map(str, numbers(r, 1, 30, fewest=1, most=4))),),
        (",", ";", "+", "/", " "),
        slip="return sum(int(part) for part in text if part.isdigit())",
    ),
    Template(
        "medium",
        ("minutes_of_time", "time_in_minutes", "minutes_since_midnight"),
        "(time: str) -> int",
        "Return the number of minutes since midnight for a time such as '7:05', where 7 are the hours.",
        """
        hours, minutes = time.split(':')
        return int(hours) * 60 + int(minutes)
        """,
        lambda r, k: (f"{r.randint(0, 23)}:{r.randint(0, 59):02}",),
        slip="return int(time.replace(':', ''))",
    ),
    Template(
        "medium",
        ("digits_only", "keep_digits", "extract_digits"),
        "(text: str) -> str",
        "Return the digits of the string in their order, without its other characters.",
        "return ''.join(character for character in text if character.isdigit())",
        lambda r, k: ("".join(r.choice(("7", "b", "3", "x", " ", "0", "-", "9")) for _ in range(r.randint(4, 9))),),
        slip="return ''.join(character for character in text if not character.isalpha())",
    ),
    Template(
        "medium",
        ("turn_date", "date_in_order", "rewrite_date"),
        "(date: str) -> str",
        "Return a date such as '2031-05-17' as '17{k}05{k}2031'.",
        """
        year, month, day = date.split('-')
        return day + {k!r} + month + {k!r} + year
        """,
        lambda r, k: (f"{r.randint(1950, 2049)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}",),
        (".", "/", ":", "_", "+"),
        slip="return date.replace('-', {k!r})",
    ),
    Template(
        "medium",
        ("name_before", "left_part", "part_before"),
        "(text: str) -> str",
        "Return the part of the string before the first {k!r}, or the whole string if there is none.",
        "return text.split({k!r})[0]",
        lambda r, k: (k.join(words(r, 1, 3)),),
        ("@", "#", "=", ":", "/"),
        slip="return text.split({k!r})[-1]",
    ),
    Template(
        "medium",
        ("count_sentences", "number_of_ends", "sentence_total"),
        "(text: str) -> int",
        "Return how many characters of the string are one of {k!r}.",
        "return sum(character in {k!r} for character in text)",
        lambda r, k: (" ".join(word + r.choice((*k, *k, ",")) for word in words(r, 2, 5)),),
        (".!", ".?", "!?", ";."),
        slip="return text.count({k!r})",
    ),
    Template(
        "hard",
        ("read_settings", "parse_settings", "settings_from_text"),
        "(text: str) -> dict[str, int]",
        "Return a dictionary of the entries of a string such as 'a=1{k}b=20', with the values as integers.",
        """
        table = {{}}
        for entry in text.split({k!r}):
            key, value = entry.split('=')
            table[key] = int(value)
        return table
        """,
        lambda r, k: (k.join(f"{key}={value}" for key, value in quantities(r, 0, 30, fewest=1).items()),),
        (";", ",", "&", "|"),
        slip="return dict(entry.split('=') for entry in text.split({k!r}))",
    ),
    Template(
        "hard",
        ("expand_ranges", "read_pages", "pages_to_print"),
        "(text: str) -> list[int]",
        "Return the list of the pages in a string such as '2-4{k}9', which means 2, 3, 4 and 9.",
        """
        pages = []
        for part in text.split({k!r}):
            first, _, last = part.partition('-')
            pages.extend(range(int(first), int(last or first) + 1))
        return pages
        """,
        lambda r, k: (k.join(_range(r) for _ in range(r.randint(1, 3))),),
        (",", ";", "+", "/"),
        slip="return [int(n) for n in text.replace('-', {k!r}).split({k!r})]",
    ),
    Template(
        "hard",
        ("shift_letters", "move_letters", "rotate_alphabet"),
        "(word: str) -> str",
        "Return the word with every letter moved on by {k} places in the alphabet, where 'a' follows 'z'.",
        "return ''.join(chr((ord(letter) - 97 + {k}) % 26 + 97) for letter in word)",
        lambda r, k: ("".join(r.choice(("a", "m", "t", "w", "z", "e")) for _ in range(r.randint(3, 6))),),
        range(2, 8),
        slip="return ''.join(chr(ord(letter) + {k}) for letter in word)",
    ),
    Template(
        "hard",
        ("clock_text", "write_duration", "format_seconds"),
        "(seconds: int) -> str",
        "Return the seconds as minutes{k}seconds, where the seconds always have two digits, such as '3{k}07'.",
        "return str(seconds // 60) + {k!r} + str(seconds % 60).zfill(2)",
        lambda r, k: (r.choice((r.randint(0, 59), r.randint(60, 900), 60 * r.randint(0, 9) + r.randint(0, 9))),),
        (":", ".", "m", "-"),
        slip="return str(seconds // 60) + {k!r} + str(seconds % 60)",
    ),
    Template(
        "hard",
        ("squeeze_runs", "count_runs", "shorten_runs"),
        "(text: str) -> str",
        "Return the string with every run of a letter written as the letter and its length, such as 'a2b1' for 'aab'.",
        """
        runs = []
        for letter in text:
            if runs and runs[-1][0] == letter:
                runs[-1][1] += 1
            else:
                runs.append([letter, 1])
        return ''.join(letter + str(length) for letter, length in runs)
        """,
        lambda r, k: ("".join(r.choice("abc") * r.randint(1, 3) for _ in range(r.randint(1, 4))),),
        slip="return ''.join(letter + str(text.count(letter)) for letter in text)",
    ),
)


def _range(r: Random) -> str:
    """A page, or some pages that follow each other."""
    first = r.randint(1, 30)
    return r.choice((f"{first}", f"{first}-{first + r.randint(1, 3)}"))
