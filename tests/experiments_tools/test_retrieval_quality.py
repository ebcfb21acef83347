"""Measures of retrieval against hand-made cases and other people's implementations."""

import math
import random

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import bootstrap

from experiments._tools.output import forest, value_of
from experiments._tools.retrieval_quality import Answer, answer, difference, quality
from reflexion_lab.analysis.figures.style import caption
from reflexion_lab.analysis.stats.intervals import Estimate, effective, wilson

mpl.use("Agg")


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


def test_hit_interval_is_wilsons_where_every_task_has_one_query():
    result = quality(answered([1.0] * 7 + [0.0] * 3), k=5).hit
    assert result.share == 0.7
    assert (result.low, result.high) == wilson(7, 10)


def test_queries_that_share_tasks_widen_every_interval():
    rng = random.Random(3)
    each = [float(rng.random() < 0.6) for _ in range(30)]
    apart = quality(answered(each * 6), k=5)
    shared = quality(answered(each * 6, list(range(30)) * 6), k=5)
    assert (shared.queries, shared.tasks, apart.tasks) == (180, 30, 180)
    for wide, narrow in ((shared.hit, apart.hit), (shared.mrr, apart.mrr), (shared.ndcg, apart.ndcg)):
        assert value_of(wide) == value_of(narrow)
        assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_effective_size_is_the_number_of_equal_clusters():
    assert effective([1] * 40) == 40
    assert effective([5] * 40) == 40
    assert effective([97, 1, 1, 1]) == 1


def test_bootstrap_interval_is_scipys():
    values = np.random.default_rng(1).beta(2, 1, size=80)
    ours = quality(answered(list(map(float, values))), k=5).ndcg
    theirs = bootstrap((values,), np.mean, method="percentile", n_resamples=9999, rng=np.random.default_rng(2))
    assert ours.value == pytest.approx(values.mean())
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.01)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.01)


def test_bootstrap_of_clusters_covers_the_mean_that_it_should():
    rng, covered = np.random.default_rng(5), 0
    for _ in range(200):
        centres = rng.normal(0.5, 0.1, size=40)
        tasks = [task for task in range(40) for _ in range(1 + task % 5)]
        values = [float(centres[task] + rng.normal(0, 0.05)) for task in tasks]
        result = quality(answered(values, tasks), k=5).mrr
        covered += result.low <= 0.5 <= result.high
    assert 0.88 <= covered / 200 <= 0.99


def test_a_paired_difference_is_narrower_than_the_two_intervals():
    hard = [0.95 * random.Random(seed).random() for seed in range(60)]
    first, second = answered(hard), answered([value + 0.05 for value in hard])
    gain = difference(first, second, "ndcg")
    assert gain.value == pytest.approx(0.05)
    alone = quality(first, k=5).ndcg
    assert gain.low < 0.05 < gain.high
    assert gain.high - gain.low < 0.7 * (alone.high - alone.low)
    loss = difference(second, first, "ndcg")
    assert (loss.value, loss.low, loss.high) == pytest.approx((-gain.value, -gain.high, -gain.low))


def test_a_seed_gives_one_interval_and_another_seed_another():
    some = answered([random.Random(seed).random() for seed in range(40)])
    assert quality(some, k=5, seed=1) == quality(some, k=5, seed=1)
    assert quality(some, k=5, seed=1).ndcg != quality(some, k=5, seed=2).ndcg


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


def test_no_query_has_no_quality():
    with pytest.raises(ValueError, match="expected at least one with a relevant document"):
        quality([], k=5)


def test_the_figure_shows_every_value_and_its_caption():
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
