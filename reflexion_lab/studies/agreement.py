"""Replies to equal prompts, held against each other: a prompt is a cluster, and intervals are for other prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations, product, zip_longest
from statistics import fmean
from typing import NamedTuple

from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record


class Said(NamedTuple):
    """One reply."""

    text: str
    program: str | None
    """What the actor makes of it; None where it would ask on."""
    system_fingerprint: str = ""


Pair = tuple[Said, Said]


class Agreement(Record, frozen=True, kw_only=True):
    """The replies of one condition, or those of two held against each other. A prompt is a cluster."""

    name: str
    replies: int
    differing: Rate
    """Prompts of which any two replies differ."""
    pairs: Estimate
    """Share of the pairs of replies to one prompt that differ, in the mean over prompts."""
    same_program: Estimate | None
    """Share of the pairs in which the same program is found; None where the actor needs more than one reply."""
    first_differences: tuple[int, ...]
    """For each prompt whose replies differ, the first character, from 0, at which any two of them do."""
    system_fingerprints: dict[str, int]
    """How many replies came of which configuration of the server; {} where it names none."""


def within(name: str, by_prompt: Sequence[Sequence[Said]]) -> Agreement:
    """The repeats of one condition, each with each other. Two replies a prompt at least."""
    return _agreement(name, [list(combinations(said, 2)) for said in by_prompt], by_prompt)


def across(name: str, one: Sequence[Sequence[Said]], other: Sequence[Sequence[Said]]) -> Agreement:
    """Each reply of one condition with each of the other, prompt by prompt."""
    pairs = [list(product(*both)) for both in zip(one, other, strict=True)]
    return _agreement(name, pairs, [*one, *other])


def first_difference(one: str, other: str) -> int:
    """The first character, from 0, at which two texts differ; where one begins the other, the length of the shorter.

    Raises:
        ConfigError: they are equal.
    """
    if one == other:
        raise ConfigError("the texts are equal", expected="two that differ")
    return next(place for place, both in enumerate(zip_longest(one, other)) if both[0] != both[1])


def _agreement(name: str, by_prompt: Sequence[Sequence[Pair]], replies: Iterable[Sequence[Said]]) -> Agreement:
    every = [one for said in replies for one in said]
    differing = [[(a.text, b.text) for a, b in pairs if a.text != b.text] for pairs in by_prompt]
    names = Counter(one.system_fingerprint for one in every if one.system_fingerprint)
    return Agreement(
        name=name,
        replies=len(every),
        differing=Rate.of(sum(map(bool, differing)), len(by_prompt)),
        pairs=interval([[len(found) / len(pairs)] for found, pairs in zip(differing, by_prompt, strict=True)]),
        same_program=_same_program(by_prompt),
        first_differences=tuple(min(first_difference(*both) for both in found) for found in differing if found),
        system_fingerprints=dict(names),
    )


def _same_program(by_prompt: Sequence[Sequence[Pair]]) -> Estimate | None:
    if any(one.program is None for pairs in by_prompt for pair in pairs for one in pair):
        return None
    return interval([[fmean(a.program == b.program for a, b in pairs)] for pairs in by_prompt])
