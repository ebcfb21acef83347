"""Prompts are reviewed text: Jinja templates beside this file, each with a digest.

The first line of a template names the variables that it needs: `{# Uses: prompt, task_id #}`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Count, validated
from reflexion_lab.records import Episode, Recollection, Record
from reflexion_lab.text.prompts.excerpt import shortened
from reflexion_lab.text.prompts.filters import FILTERS
from reflexion_lab.text.prompts.length import estimated

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent
SUFFIX = ".md.jinja"
Variant = Literal["default", "terse", "paper_style"]
VARIANTS = get_args(Variant)


class Example(Record, frozen=True, kw_only=True):
    """A task of our own, got wrong, understood and mended: what few-shot prompts show."""

    prompt: str
    wrong: str
    """A program that fails."""
    evidence: str
    """The failing check, as the lab words it."""
    thought: str
    """How to solve it, in a sentence."""
    root_cause: str
    what_went_wrong: str
    what_to_change: str
    confidence: float
    right: str
    """The program that passes."""


class Fitted(NamedTuple):
    """A prompt, and the ids of what it had no room for."""

    text: str
    left_out: tuple[str, ...]


class Prompts:
    """The templates of one variant, with so many few-shot examples.

    `variant`: what it has no file `NAME.VARIANT.md.jinja` for is as in `default`, included
    templates too.
    `examples`: how many of our own examples stand before the task, the first ones; where a template shows any.
    """

    @validated
    def __init__(self, variant: Variant = "default", examples: Count = 0) -> None:
        if examples > len(known_examples()):
            raise ConfigError("prompts.examples", examples, f"0 to {len(known_examples())}")
        self.variant = variant
        self.examples = known_examples()[:examples]

    def render(self, name: str, **variables: object) -> str:
        """The prompt `name` with its variables filled in.

        Raises:
            jinja2.UndefinedError: a variable that it declares is missing; never is one left blank.
        """
        template = _environment(self.variant).get_template(name + SUFFIX)
        given = {"examples": self.examples} | variables
        if missing := declared(name, self.variant) - given.keys():
            from jinja2 import UndefinedError

            raise UndefinedError(f"the prompt {name} ({self.variant}) lacks {', '.join(sorted(missing))}")
        return template.render(given).strip("\n")

    def fit(self, name: str, room: int | None, memory: Recollection, **variables: object) -> Fitted:
        """The prompt `name` with as much of `memory` and of the examples as `room` tokens hold; None: all of it.

        The most needed comes first and what does not fit is skipped: the newest own episode, which is shortened
        where it is too long, older ones, those of others from the nearest on, wisdom, mistakes, insights, the session,
        the examples. A prompt that is too long without all of them is left as it is, for the model to refuse.
        """
        render = partial(self.render, name, **variables)
        whole = render(memory=memory)
        if room is None or estimated(whole) <= room:
            return Fitted(whole, ())
        kept, shown = _bare(memory), self.examples[:0]

        def fits(newest: Episode) -> bool:
            return estimated(render(memory=replace(kept, episodes=(newest,)), examples=shown)) <= room

        is_own = memory.episodes and memory.episodes[-1].task_id == variables.get("task_id")
        # Where the bare task does not fit, no episode will, however short.
        if is_own and estimated(render(memory=kept, examples=shown)) <= room:
            newest = shortened(memory.episodes[-1], fits)
            memory = replace(memory, episodes=(*memory.episodes[:-1], newest)) if newest else memory
        for add in _parts(memory, self.examples):
            more, examples = add(kept, shown)
            if estimated(render(memory=more, examples=examples)) <= room:
                kept, shown = more, examples
        return Fitted(render(memory=kept, examples=shown), tuple(sorted(memory.ids - kept.ids)))


Shown = tuple[Recollection, tuple[Example, ...]]


def _parts(memory: Recollection, examples: Sequence[Example]) -> Iterator[Callable[..., Shown]]:
    """What a prompt may hold beside its task, the most needed first: each adds itself, where it belongs."""
    for episode in reversed(memory.episodes):
        yield lambda kept, shown, one=episode: (replace(kept, episodes=(one, *kept.episodes)), shown)
    for wisdom in memory.wisdom:
        yield lambda kept, shown, one=wisdom: (replace(kept, wisdom=(*kept.wisdom, one)), shown)
    for mistake in memory.mistakes:
        yield lambda kept, shown, one=mistake: (replace(kept, mistakes=(*kept.mistakes, one)), shown)
    for insight in reversed(memory.insights):
        yield lambda kept, shown, one=insight: (replace(kept, insights=(one, *kept.insights)), shown)
    yield lambda kept, shown: (replace(kept, session=memory.session), shown)
    for example in examples:
        yield lambda kept, shown, one=example: (kept, (*shown, one))


def _bare(memory: Recollection) -> Recollection:
    return replace(memory, episodes=(), wisdom=(), mistakes=(), insights=(), session="")


def render(name: str, **variables: object) -> str:
    """The prompt `name` of the default variant, without examples."""
    return Prompts().render(name, **variables)


def digests() -> dict[str, str]:
    """SHA-256 of every prompt template and of the examples, by name, shortened to 16 hex digits."""
    files = [*sorted(FOLDER.glob(f"*{SUFFIX}")), FOLDER / "examples.json"]
    return {file.name.removesuffix(SUFFIX): hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files}


@cache
def known_examples() -> tuple[Example, ...]:
    """Our own few-shot examples; none is a task of a benchmark."""
    return msgspec.json.decode((FOLDER / "examples.json").read_bytes(), type=tuple[Example, ...])


@cache
def declared(name: str, variant: str = "default") -> frozenset[str]:
    """The variables that a template needs, by its first line, those of the templates that it includes among them."""
    found = re.match(r"\{# Uses: (?P<names>[\w, ]*) #\}\n", _source(name + SUFFIX, variant) or "")
    return frozenset(found["names"].split(", ")) if found else frozenset()


@cache
def _environment(variant: str) -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    loader = FunctionLoader(partial(_source, variant=variant))
    # Prompts are plain text for a model, not HTML: escaping would change what it reads.
    environment = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= FILTERS
    return environment


def _source(file: str, variant: str) -> str | None:
    """The template `file` in `variant`, or as in `default`; None where there is neither."""
    own = FOLDER / f"{file.removesuffix(SUFFIX)}.{variant}{SUFFIX}"
    path = own if own.is_file() else FOLDER / file
    return path.read_text(encoding="utf-8") if path.is_file() else None
