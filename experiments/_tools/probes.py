"""Probe sets for retrieval, made of recorded loops: who asks, what lies in memory, and what of it is relevant.

A document is a failed attempt of a real model with the reflection that the model wrote on it, kept as the lab's memory
keeps it. A query is such an attempt, too: the moment after a failure, at which a loop would look for what others have
learnt. Nothing is asked of the model again; whether a found reflection helps is another question.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.texts import MATCHES, document
from reflexion_lab.records import Episode, Record

ENTRY_POINT = "entry_point"
"""Key of an episode's metadata."""
MASK = "f"
_DOCSTRING = re.compile(r"(\"\"\"|''').*?\1", re.DOTALL)


class Question(Record, frozen=True, kw_only=True):
    """One query of a probe, as numbers of episodes."""

    number: int
    """The episode that asks."""
    excluded: frozenset[int]
    """Episodes that are not in the pool for it; itself among them."""
    relevant: frozenset[int]
    """Episodes of the pool that it should find; at least one."""


class Probe(Record, frozen=True, kw_only=True):
    """Queries of one kind."""

    name: str
    asks: str
    """What is looked for, in words."""
    questions: tuple[Question, ...]
    alone: int
    """Queries left out, since nothing in their pool is relevant."""
    chance: float
    """Mean share of relevant documents in the pools: the precision of a random order."""


def probes(episodes: Sequence[Episode]) -> list[Probe]:
    """The three probes on `episodes`, all of which failed and carry a reflection.

    - `same task`: the reflections of other models on the same task. All episodes of the asking model are out of the
      pool, those of its other runs too.
    - `same class`: the reflections on the same class of failure in other tasks. All episodes of the task are out.
    - `rare class`: the same for the queries whose class is not the commonest, of which a random order finds plenty.
    """
    models, tasks = (
        _alike([episode.agent_id for episode in episodes]),
        _alike([episode.task_id for episode in episodes]),
    )
    kinds = [episode.category for episode in episodes]
    commonest = max(dict.fromkeys(kinds), key=kinds.count, default="")
    rare = [number for number, kind in enumerate(kinds) if kind != commonest]
    every, same = range(len(episodes)), _alike(kinds)
    return [
        _probe("same task", "other models' reflections on the same task", every, models, tasks),
        _probe("same class", "reflections on the same class of failure in other tasks", every, tasks, same),
        _probe("rare class", f"the same, where the class is not `{commonest}`", rare, tasks, same),
    ]


def _probe(
    name: str, asks: str, asking: Sequence[int], out: Sequence[frozenset[int]], alike: Sequence[frozenset[int]]
) -> Probe:
    """`out` and `alike` hold, for each episode, those that are not in its pool and those that are relevant to it."""
    every = [Question(number=n, excluded=out[n], relevant=alike[n] - out[n]) for n in asking]
    items = tuple(question for question in every if question.relevant)
    shares = [len(question.relevant) / (len(out) - len(question.excluded)) for question in items]
    chance = sum(shares) / len(shares) if shares else 0.0
    return Probe(name=name, asks=asks, questions=items, alone=len(every) - len(items), chance=chance)


def _alike(keys: Sequence[str]) -> list[frozenset[int]]:
    """For each place, all places of the same key, itself among them."""
    places: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    groups = {key: frozenset(members) for key, members in places.items()}
    return [groups[key] for key in keys]


VIEWS = (*MATCHES, "program", "words")
"""Pairs of texts that are compared: the lab's own choices, and two harder ones.

The prompts of one task are nearly the same in all runs, so that the lab's own choices nearly give the task away:

- `program`: error signature and program on both sides, without docstrings, which repeat the prompt, and without the
  name of the entry point: what would be left were a task put into other words.
- `words`: the task's prompt against nothing but the reflection's words, without the name of the entry point.
"""


def known(views: Sequence[str]) -> Sequence[str]:
    """`views` again; raises ValueError where one is none of `VIEWS`."""
    for view in views:
        if view not in VIEWS:
            raise ConfigError("match", repr(view), f"one of {', '.join(VIEWS)}")
    return views


def documents(episodes: Sequence[Episode], view: str) -> list[str]:
    """The text under which each episode is found; raises ValueError for a view that is none of `VIEWS`."""
    if view == "words":
        return [_masked(episode.reflection.text if episode.reflection else "", episode) for episode in episodes]
    return queries(episodes, view)


def queries(episodes: Sequence[Episode], view: str) -> list[str]:
    """The text that each episode asks with: in the lab's own choices what `texts.query` gives for its task."""
    known([view])
    if view == "words":
        return [_masked(episode.task_description, episode) for episode in episodes]
    if view == "program":
        return [
            f"{episode.failure_analysis}\n{_masked(_DOCSTRING.sub('', episode.code), episode)}" for episode in episodes
        ]
    return [document(episode, view) for episode in episodes]


def _masked(text: str, episode: Episode) -> str:
    name = episode.metadata.get(ENTRY_POINT, "")
    return re.sub(rf"\b{re.escape(name)}\b", MASK, text) if name else text


def classes(episodes: Sequence[Episode]) -> list[tuple[str, int]]:
    """How many episodes each class of failure has, the commonest first."""
    return Counter(episode.category for episode in episodes).most_common()
