from itertools import islice
from random import Random

import msgspec
import pytest

from reflexion_lab.tasks.benchmarks.basics import FILE, VOCABULARY, Template, calls, templates


def asking_for(inputs: str) -> Template:
    return msgspec.structs.replace(templates()[0], inputs=inputs)


def first(inputs: str, k: object = None) -> tuple[object, ...]:
    return next(calls(asking_for(inputs), k, Random(0)))


def test_arguments_are_drawn_in_the_order_they_are_written_in() -> None:
    r = Random(0)
    expected = [
        ([r.randint(1, 9) for _ in range(r.randint(2, 4))], r.choice("abc") * r.randint(1, 3)) for _ in range(9)
    ]
    template = asking_for("numbers(1, 9, fewest=2, most=4), pick('abc') * number(1, 3)")
    assert list(islice(calls(template, None, Random(0)), 9)) == expected


def test_names_outside_the_vocabulary_are_unknown() -> None:
    for inputs in ("open('x')", "__import__('os')", "print"):
        with pytest.raises(NameError):
            first(inputs)


def test_every_word_of_the_vocabulary_is_used() -> None:
    inputs = " ".join(template.inputs for template in templates())
    assert [word for word in VOCABULARY if f"{word}(" not in inputs] == []


def test_a_field_that_no_template_has_is_refused() -> None:
    rows = msgspec.json.decode(FILE.read_bytes())["numbers"]["easy"]
    with pytest.raises(msgspec.ValidationError, match="slips"):
        msgspec.convert({**rows[0], "theme": "numbers", "level": "easy", "slips": []}, Template)
