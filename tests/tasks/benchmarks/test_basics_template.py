from random import Random

import msgspec
import pytest

from reflexion_lab.tasks.benchmarks.basics import VOCABULARY, Template, calls, templates


def asking_for(inputs: str) -> Template:
    return msgspec.structs.replace(templates()[0], inputs=inputs)


def first(inputs: str, k: object = None) -> tuple[object, ...]:
    return next(calls(asking_for(inputs), k, Random(0)))


def test_names_outside_the_vocabulary_are_unknown_and_every_word_of_it_is_used() -> None:
    for inputs in ("open('x')", "__import__('os')", "print"):
        with pytest.raises(NameError):
            first(inputs)
    inputs = " ".join(template.inputs for template in templates())
    assert [word for word in VOCABULARY if f"{word}(" not in inputs] == []
