"""Templates of `basics` about text."""

from __future__ import annotations

from reflexion_lab.benchmarks.basics_template import Template, capitals, mirrored, text, words

STRINGS = (
    Template(
        "easy",
        ("repeat_text", "say_again", "copy_text"),
        "(text: str) -> str",
        "Return the string repeated {k} times.",
        "return text * {k}",
        lambda r, k: (text(r, 1, 1),),
        range(2, 7),
    ),
    Template(
        "easy",
        ("first_characters", "text_start", "take_prefix"),
        "(text: str) -> str",
        "Return the first {k} characters of the string.",
        "return text[:{k}]",
        lambda r, k: (text(r, 1, 2),),
        range(2, 7),
    ),
    Template(
        "easy",
        ("add_ending", "append_mark", "with_suffix"),
        "(text: str) -> str",
        "Return the string with {k!r} added at the end.",
        "return text + {k!r}",
        lambda r, k: (text(r, 1, 2),),
        ("!", "?", "...", "-end", "ing", ".txt"),
    ),
    Template(
        "easy",
        ("is_long", "exceeds_length", "too_long"),
        "(text: str) -> bool",
        "Return True if the string has more than {k} characters, else False.",
        "return len(text) > {k}",
        lambda r, k: (text(r, 1, 1),),
        range(4, 8),
    ),
    Template(
        "medium",
        ("count_vowels", "vowel_count", "number_of_vowels"),
        "(text: str) -> int",
        "Return the number of vowels in the string.",
        "return sum(letter in 'aeiou' for letter in text)",
        lambda r, k: (text(r, 1, 3),),
        slip="return len(set(text) & set('aeiou'))",
    ),
    Template(
        "medium",
        ("words_starting_with", "select_words", "filter_by_initial"),
        "(words: list[str]) -> list[str]",
        "Return the list of the words that start with the letter {k!r}.",
        "return [word for word in words if word.startswith({k!r})]",
        lambda r, k: (words(r, 3, 6),),
        ("s", "m", "b", "o"),
        slip="return [word for word in words if {k!r} in word]",
    ),
    Template(
        "medium",
        ("reverse_words", "words_backwards", "flip_word_order"),
        "(text: str) -> str",
        "Return the string with its words in reverse order.",
        "return ' '.join(reversed(text.split()))",
        lambda r, k: (text(r, 1, 4),),
        slip="return text[::-1]",
    ),
    Template(
        "medium",
        ("long_words", "words_longer_than", "keep_long_words"),
        "(words: list[str]) -> list[str]",
        "Return the list of the words that have more than {k} letters.",
        "return [word for word in words if len(word) > {k}]",
        lambda r, k: (words(r, 2, 5),),
        range(3, 7),
        slip="return [word for word in words if len(word) >= {k}]",
    ),
    Template(
        "hard",
        ("is_palindrome", "reads_both_ways", "same_backwards"),
        "(text: str) -> bool",
        "Return True if text reads the same backwards, ignoring spaces and upper or lower case, else False.",
        """
        letters = text.lower().replace(' ', '')
        return letters == letters[::-1]
        """,
        lambda r, k: (r.choice((mirrored(r), capitals(r))),),
        slip="return text == text[::-1]",
    ),
    Template(
        "hard",
        ("shorten", "abbreviate", "cut_text"),
        "(text: str) -> str",
        "Return text if it has at most {k} characters, else its first {k} characters followed by '...'.",
        "return text if len(text) <= {k} else text[:{k}] + '...'",
        lambda r, k: (text(r, 1, 2),),
        range(5, 11),
        slip="return text[:{k}] + '...'",
    ),
    Template(
        "hard",
        ("shout_some_words", "stress_words", "raise_words"),
        "(text: str) -> str",
        "Return text with each word at a multiple of {k} in upper case, counting the words from 1.",
        """
        words = enumerate(text.split(), start=1)
        return ' '.join(word.upper() if i % {k} == 0 else word for i, word in words)
        """,
        lambda r, k: (text(r, 2, 6),),
        range(2, 5),
        slip="return ' '.join(w.upper() if i % {k} == 0 else w for i, w in enumerate(text.split()))",
    ),
    Template(
        "hard",
        ("initials", "first_letters", "short_form"),
        "(text: str) -> str",
        "Return the first letter of each word of text in upper case, joined by {k!r}.",
        "return {k!r}.join(word[0].upper() for word in text.split())",
        lambda r, k: (text(r, 1, 4),),
        (".", "-", "/", "+", "_"),
        slip="return {k!r}.join(word[0] for word in text.split())",
    ),
    Template(
        "hard",
        ("mask_text", "hide_start", "cover_characters"),
        "(text: str) -> str",
        "Return text with every character replaced by '*', except for the last {k}.",
        "return '*' * (len(text) - {k}) + text[-{k}:]",
        lambda r, k: (text(r, 1, 1),),
        range(2, 5),
        slip="return '*' * {k} + text[{k}:]",
    ),
)
