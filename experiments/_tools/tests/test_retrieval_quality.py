"""Measures of retrieval against hand-made cases and other people's implementations."""

import math
import random

import pytest

from experiments._tools.output import forest
from experiments._tools.retrieval_quality import Answer, answer, difference, quality
from reflexion_lab.analysis.figures.style import caption
from reflexion_lab.analysis.stats.intervals import Estimate


def ranking(relevant, of, seed):
    """A random ranking of `of` documents, `relevant` of them relevant."""
    hits = [True] * relevant + [False] * (of - relevant)
    random.Random(seed).shuffle(hits)
    return hits


def answered(hits, tasks=None):
    tasks = tasks or range(len(hits))
    return [
        Answer(task_id=str(task), hit=hit, reciprocal_rank=hit, ndcg=hit) for hit, task in zip(hits, tasks, strict=True)
    ]


@pytest.mark.parametrize("k", [1, 3, 5, 40])
def test_ndcg_is_the_discounted_gain_over_the_ideal_one(k):
    """Järvelin and Kekäläinen 2002, written out; six relevant documents were not retrieved."""
    for seed in range(8):
        hits = ranking(relevant=1 + seed, of=30, seed=seed)
        gain = sum(1 / math.log2(rank + 1) for rank, good in enumerate(hits[:k], 1) if good)
        ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, 7 + seed) + 1))
        assert answer("t", hits, 7 + seed, k).ndcg == pytest.approx(gain / ideal, abs=1e-12), seed


@pytest.mark.parametrize(
    ("hits", "relevant", "k", "measures"),
    [
        ([False, True, False, True], 3, 3, (1.0, 1 / 2, (1 / math.log2(3)) / (1 + 1 / math.log2(3) + 1 / 2))),
        ([False, False, True], 1, 2, (0.0, 1 / 3, 0.0)),  # beyond k only the reciprocal rank counts
        ([True, True], 2, 5, (1.0, 1.0, 1.0)),
        ([True], 2, 5, (1.0, 1.0, 1 / (1 + 1 / math.log2(3)))),
        ([], 1, 5, (0.0, 0.0, 0.0)),
    ],
)
def test_measures_of_a_ranking_by_hand(hits, relevant, k, measures):
    result = answer("t", hits, relevant, k)
    assert (result.hit, result.reciprocal_rank, result.ndcg) == pytest.approx(measures)


@pytest.mark.parametrize(("hits", "relevant", "k"), [([True], 1, 0), ([], 0, 5), ([True, True], 1, 5)])
def test_an_impossible_ranking_is_refused(hits, relevant, k):
    with pytest.raises(ValueError, match="expected 1 or more"):
        answer("t", hits, relevant, k)


@pytest.mark.parametrize(
    ("first", "second", "measure", "message"),
    [
        (answered([1.0]), answered([1.0], ["other"]), "ndcg", "in the same order"),
        (answered([1.0]), answered([1.0, 1.0]), "ndcg", "in the same order"),
        (answered([1.0]), answered([1.0]), "recall", "expected one of hit"),
        ([], [], "ndcg", "expected at least one"),
    ],
)
def test_invalid_pairs_are_refused(first, second, measure, message):
    with pytest.raises(ValueError, match=message):
        difference(first, second, measure)
    with pytest.raises(ValueError, match="expected at least one with a relevant document"):
        quality([], k=5)


def test_the_figure_shows_every_value_and_its_caption():
    from matplotlib.figure import Figure

    rows = {
        "jaccard": {
            "task": Estimate(value=0.5, low=0.4, high=0.6),
            "task_error": Estimate(value=0.7, low=0.6, high=0.8),
        },
        "random": {"task": Estimate(value=0.1, low=0.0, high=0.2)},
    }
    ax = Figure().add_subplot()
    assert caption(forest(rows, ax, "nDCG@5"), "n = 3 queries") is ax
    assert sorted(float(line.get_xdata()[0]) for line in ax.lines) == [0.1, 0.5, 0.7]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["jaccard", "random"]
    assert [text.get_text() for text in ax.texts if text.get_gid() == "caption"] == ["n = 3 queries"]
    task, error = (next(line for line in ax.lines if line.get_label() == name) for name in ("task", "task_error"))
    assert (task.get_color(), task.get_marker()) != (error.get_color(), error.get_marker())
    top, bottom = (float(line.get_ydata()[0]) for line in ax.lines if line.get_label() == "task")
    assert ax.transData.transform((0, top))[1] > ax.transData.transform((0, bottom))[1]
