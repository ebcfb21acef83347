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


@pytest.mark.parametrize(
    ("inputs", "arguments"),
    [
        ("-3, 2 ** 3 // 3 - 1 + 2", (-3, 3)), ("k, k[1], (k, 1)", ((4, 5), 5, ((4, 5), 1))), ("*k, 6", (4, 5, 6)),
        ("(a := 7), a, (a := 8), a", (7, 7, 8, 8)), ("[n * 2 for n in range(1, 4)]", ([2, 4, 6],)),
        ("[(a := n) + a for n in k]", ([8, 10],)), ("columns(((1, 2), (3, 4)))", ([[1, 3], [2, 4]],)),
        ("join('-', (2031, two_digits(5)))", ("2031-05",)),
    ],
)  # fmt: skip
def test_an_expression_means_what_it_means_in_python(inputs: str, arguments: tuple[object, ...]) -> None:
    assert first(inputs, (4, 5)) == arguments


@pytest.mark.parametrize(
    "inputs",
    [
        "open('x')", "k.real", "__import__('os')", "number.__self__", "[n for n in k if n]", "(lambda: 1)()",
        "1 if k else 2",
    ],
)  # fmt: skip
def test_what_is_not_in_the_vocabulary_is_refused_and_not_run(inputs: str) -> None:
    with pytest.raises(ValueError, match=r"basics\.json: .* is not allowed in inputs"):
        first(inputs)


def test_a_name_that_was_never_given_is_an_error() -> None:
    with pytest.raises(KeyError, match="print"):
        first("print")


def test_every_word_of_the_vocabulary_is_used() -> None:
    inputs = " ".join(template.inputs for template in templates())
    assert [word for word in VOCABULARY if f"{word}(" not in inputs] == []


def test_a_field_that_no_template_has_is_refused() -> None:
    rows = msgspec.json.decode(FILE.read_bytes())["numbers"]["easy"]
    with pytest.raises(msgspec.ValidationError, match="slips"):
        msgspec.convert({**rows[0], "theme": "numbers", "level": "easy", "slips": []}, Template)
