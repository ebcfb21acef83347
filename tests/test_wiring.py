"""What a config hands a constructor: of its types, by its names, and by the key that a mistake stands under."""

from __future__ import annotations

import functools

import pytest

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.config.build import wire


class Part:
    def __init__(self, model: object, n: int = 1, share: float | None = None, inner: object = None) -> None:
        self.model, self.n, self.share, self.inner = model, n, share, inner


class Maker:
    def __init__(self, make_part: object) -> None:
        self.made = make_part(model="other")


def part(**values):
    return functools.partial(Part, **values)


@pytest.mark.parametrize("value", ["two", 1.5, None, True, [1]])
def test_a_value_of_another_type_is_named_by_its_key(value):
    with pytest.raises(ConfigError, match=r"^actor\.inner\.n: got .*, expected an int$"):
        wire(part(inner=part(n=value)), {"model": "m"}, "actor")


def test_a_value_that_nobody_asked_for_is_named():
    with pytest.raises(
        ConfigError, match=r"^actor\.wings: unknown key; expected actor\.\w+, the nearest of model, n, share"
    ):
        wire(part(wings=2), {"model": "m"}, "actor")


@pytest.mark.parametrize("share", [1, 0.5, None])
def test_whole_numbers_are_numbers_and_null_is_one_where_it_may_be(share):
    assert wire(part(share=share), {"model": "m"}).share == share


def test_a_part_that_is_still_to_be_made_gets_the_parts_of_who_asks():
    made = wire(functools.partial(Maker, make_part=part()), {"model": "m", "inner": part(inner=None)})
    assert (made.made.model, made.made.inner.model) == ("other", "other")
