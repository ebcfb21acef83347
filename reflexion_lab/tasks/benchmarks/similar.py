"""Near-duplicate tasks by text: prompts and canonical solutions without the function's name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Task

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SIMILAR = 0.7
"""Minimum cosine of near duplicates. In HumanEval it links 7 with 29 (substring filters) and 40 with 43 (zero sums)."""


class Near(NamedTuple):
    """A task, and the earlier one that is most similar."""

    later: str
    earlier: str
    similarity: float
    """Cosine, in [0, 1]."""


def near_duplicates(tasks: Sequence[Task], similarity: float = SIMILAR) -> tuple[tuple[str, ...], ...]:
    """Groups of tasks with similar prompts and canonical solutions: results on them are not independent.

    Groups are connected components of similar pairs (DBSCAN with one neighbour) of `vectors`. `similarity`: minimum
    cosine of a similar pair, in (0, 1]. Returns ids of each group of at least two tasks, in the order of the tasks.
    """
    from sklearn.cluster import DBSCAN

    if not 0 < similarity <= 1:
        raise ConfigError("similarity", similarity, "a number in (0, 1]")
    if (rows := vectors(tasks)) is None:
        return ()
    labels = DBSCAN(eps=1 - similarity, min_samples=1, metric="cosine").fit_predict(rows)
    groups = defaultdict[int, list[str]](list)
    for task, label in zip(tasks, labels, strict=True):
        groups[label].append(task.task_id)
    return tuple(tuple(ids) for ids in groups.values() if len(ids) > 1)


def nearest(earlier: Sequence[Task], later: Sequence[Task]) -> list[Near]:
    """For each of `later` the most similar of `earlier`, the most similar pair first."""
    from sklearn.neighbors import NearestNeighbors

    rows = vectors([*earlier, *later]) if earlier and later else None
    if rows is None:
        return []
    index = NearestNeighbors(n_neighbors=1, metric="cosine", algorithm="brute").fit(rows[: len(earlier)])
    distances, places = index.kneighbors(rows[len(earlier) :])
    pairs = [
        Near(task.task_id, earlier[place].task_id, round(1 - float(distance), 3))
        for task, place, distance in zip(later, places[:, 0], distances[:, 0], strict=True)
    ]
    return sorted(pairs, key=lambda pair: -pair.similarity)


def repeated(tasks: Sequence[Task], similarity: float = SIMILAR) -> list[Near]:
    """Tasks with a near-duplicate of another cluster before them, each with the nearest one, in order."""
    from sklearn.neighbors import NearestNeighbors

    if (rows := vectors(tasks)) is None:
        return []
    index = NearestNeighbors(radius=1 - similarity, metric="cosine", algorithm="brute").fit(rows)
    pairs = []
    for place, (distances, others) in enumerate(zip(*index.radius_neighbors(rows), strict=True)):
        own = tasks[place].cluster_id
        known = ((d, other) for d, other in zip(distances, others, strict=True) if tasks[other].cluster_id != own)
        if earlier := [(distance, other) for distance, other in known if other < place]:
            distance, other = min(earlier)
            pairs.append(Near(tasks[place].task_id, tasks[other].task_id, round(1 - float(distance), 3)))
    return pairs


def vectors(tasks: Sequence[Task]) -> csr_matrix[Any] | None:
    """TF-IDF vectors of character 3- to 5-grams, a row per task; None if no task has a text."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    named = [(f"{task.prompt}\n{task.canonical_solution}", task.entry_point) for task in tasks]
    texts = [text.replace(name, "candidate") if name else text for text, name in named]
    if not any(text.strip() for text in texts):
        return None
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)
    rows: csr_matrix[Any] = vectorizer.fit_transform(texts)
    return rows
