"""Probes of retrieval on recorded loops: queries, documents, and relevance.

A document is a failed attempt of a real model with the model's reflection, stored as in the lab's memory. A query is
such an attempt, too: the moment after a failure, when a loop would search the memory. No model is called again, so
whether a retrieved reflection helps remains open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.retrieval.texts import MATCHES, document
from reflexion_lab.records import Episode, Record

ENTRY_POINT = "entry_point"
"""Key of an episode's metadata."""
MASK = "f"
_DOCSTRING = re.compile(r"(\"\"\"|''').*?\1", re.DOTALL)


class Question(Record, frozen=True, kw_only=True):
    """One query of a probe, as numbers of episodes."""

    number: int
    """The querying episode."""
    excluded: frozenset[int]
    """Episodes outside its pool, including itself."""
    relevant: frozenset[int]
    """Relevant episodes of the pool, at least one."""


class Probe(Record, frozen=True, kw_only=True):
    """Queries of one kind."""

    name: str
    asks: str
    """Description of the relevant documents."""
    questions: tuple[Question, ...]
    alone: int
    """Number of queries left out, without a relevant document in their pool."""
    chance: float
    """Mean share of relevant documents in the pools: the precision of a random ranking."""


def probes(episodes: Sequence[Episode]) -> list[Probe]:
    """The three probes on `episodes`, which are failed attempts with a reflection.

    - `same task`: reflections of other models on the same task. All episodes of the querying model are excluded.
    - `same class`: reflections on the same failure class in other tasks. All episodes of the task are excluded.
    - `rare class`: the same without the most common class, which a random ranking finds often.
    """
    models = _alike([episode.agent_id for episode in episodes])
    tasks = _alike([episode.task_id for episode in episodes])
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
    """For each episode, `out` holds those outside its pool, and `alike` those relevant to it."""
    every = [Question(number=n, excluded=out[n], relevant=alike[n] - out[n]) for n in asking]
    items = tuple(question for question in every if question.relevant)
    shares = [len(question.relevant) / (len(out) - len(question.excluded)) for question in items]
    chance = sum(shares) / len(shares) if shares else 0.0
    return Probe(name=name, asks=asks, questions=items, alone=len(every) - len(items), chance=chance)


def _alike(keys: Sequence[str]) -> list[frozenset[int]]:
    """For each place, all places with the same key, including itself."""
    places: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    groups = {key: frozenset(members) for key, members in places.items()}
    return [groups[key] for key in keys]


TASK_FIRST = "task_first"
VIEWS = (*MATCHES, TASK_FIRST, "program", "words")
"""Pairs of compared texts: the lab's own choices, one of their other orders, and two harder ones.

- `task_first`: `task_error` with the task before the error signature, whichever is longer.

The prompts of one task are nearly equal in all runs, so the lab's own choices nearly reveal the task:

- `program`: error signature and program on both sides, without docstrings, which repeat the prompt, and without the
  name of the entry point, as if the task were paraphrased.
- `words`: the task's prompt against the reflection's words, without the name of the entry point.
"""


def known(views: Sequence[str]) -> Sequence[str]:
    """Returns `views`. Raises ConfigError: one is not in `VIEWS`."""
    for view in views:
        if view not in VIEWS:
            raise ConfigError("match", repr(view), f"one of {', '.join(VIEWS)}")
    return views


def documents(episodes: Sequence[Episode], view: str) -> list[str]:
    """The indexed text of each episode. Raises ConfigError: the view is not in `VIEWS`."""
    if view == "words":
        return [_masked(episode.reflection.text if episode.reflection else "", episode) for episode in episodes]
    return queries(episodes, view)


def queries(episodes: Sequence[Episode], view: str) -> list[str]:
    """The query of each episode; in the lab's own views equal to `texts.query` for its task."""
    known([view])
    if view == "words":
        return [_masked(episode.task_description, episode) for episode in episodes]
    if view == TASK_FIRST:
        return [f"{episode.task_description}\n{episode.failure_analysis}" for episode in episodes]
    if view == "program":
        return [
            f"{episode.failure_analysis}\n{_masked(_DOCSTRING.sub('', episode.code), episode)}" for episode in episodes
        ]
    return [document(episode, view) for episode in episodes]


def _masked(text: str, episode: Episode) -> str:
    name = episode.metadata.get(ENTRY_POINT, "")
    return re.sub(rf"\b{re.escape(name)}\b", MASK, text) if name else text
