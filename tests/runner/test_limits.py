"""Limits of parameters: one check for configs and for Python."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np
import pytest
from msgspec import Meta

from reflexion_lab import limits
from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from somewhere import Model


class Part:
    @limits.validated
    def __init__(
        self,
        model: Model | None = None,
        n: limits.Positive = 3,
        share: limits.Share | None = None,
        weight: limits.PositiveShare = 1.0,
        steps: Sequence[limits.NotNegative] = (),
        pair: Annotated[Sequence[object], Meta(min_length=2)] = (1, 2),
        rule: Literal["first", "best"] = "first",
        size: limits.Count | Literal["all"] = 1,
        path: str | Path = "",
        seconds: limits.Above0 = 1.0,
        plain: float = 1.0,
        is_on: bool = True,
    ) -> None:
        self.n = n


BEYOND = [
    ("n", 0, "1 or more"), ("n", "3", "an int of 1 or more"), ("n", True, "an int of 1 or more"),
    ("n", np.int64(0), "1 or more"), ("share", 1.5, "0 to 1, or null"),
    ("share", float("nan"), "a number of 0 to 1, or null"), ("weight", 0, "above 0, at most 1"),
    ("steps", [1, -1], "a list, each a number of 0 or more"), ("steps", "12", "a list, each a number of 0 or more"),
    ("pair", [1], "2 or more"), ("rule", "worst", "one of first, best"),
    ("size", -1, "an int of 0 or more, or one of all"), ("path", 3, "a text"),
    ("seconds", float("inf"), "a finite number"), ("plain", float("-inf"), "a finite number"),
    ("is_on", "yes", "true or false"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "expected"), BEYOND)
def test_a_value_beyond_its_limits_is_named(name, value, expected):
    for call, key in (
        (lambda: Part(**{name: value}), "Part"),
        (lambda: limits.check(Part, {name: value}, "actor"), "actor"),
    ):
        with pytest.raises(ConfigError) as caught:
            call()
        assert caught.value.args[:3] == (f"{key}.{name}", str(value) if "finite" in expected else repr(value), expected)


def test_values_within_their_limits_pass():
    part = Part(object(), 2, None, 0.5, np.array([0.0, 1.0]), [object(), object()], path=Path("x"), size="all", plain=1)
    assert part.n == 2
    limits.check(Part, {"model": "unchecked", "unknown": 1}, "")


def test_fields_of_a_record_are_checked():
    class Caps(msgspec.Struct):
        calls: limits.Count | None = None

        def __post_init__(self):
            limits.check_fields(self)

    assert Caps(calls=0).calls == 0
    with pytest.raises(ConfigError, match=r"Caps\.calls: got -1, expected 0 or more, or null"):
        Caps(calls=-1)


def test_a_checked_method_does_not_keep_its_object():
    class Tasks:
        def select(self, limit: limits.Positive | None = None) -> None: ...

    tasks = Tasks()
    kept = weakref.ref(tasks)
    with pytest.raises(ConfigError, match=r"benchmark\.limit: got 0, expected 1 or more, or null"):
        limits.check(tasks.select, {"limit": 0}, "benchmark")
    del tasks
    gc.collect()
    assert kept() is None
