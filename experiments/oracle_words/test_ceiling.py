"""Effects of words as a share of the effect of true words, and the ratio behind it."""

import numpy as np
import pytest
from msgspec.structs import replace

from experiments.oracle_words import ceiling, fieller, fieller_coverage
from experiments.oracle_words.ceiling import Ceiling, ceilings
from reflexion_lab.analysis.comparison.cases import load_cases, save_cases
from reflexion_lab.analysis.stats import bootstrap
from reflexion_lab.analysis.stats.intervals import PSEUDO_PAIRS, Estimate

RIGHT, WRONG = (1, True), (0, False)
TASKS = 40


def verdicts(repaired):
    """Loops of two attempts, of which the first `repaired` succeed."""
    return {f"t{i:02}": [WRONG, RIGHT if i < repaired else WRONG] for i in range(TASKS)}


@pytest.fixture
def arm(make_arm):
    """An arm whose reflections have a source; "" for an arm without words."""

    def make(label, repaired, source):
        def change(attempt):
            words = attempt.reflection and replace(attempt.reflection, source=source)
            return replace(attempt, reflection=words if source else None)

        return make_arm(verdicts(repaired), label=label, change=change)

    return make


def test_each_effect_stands_beside_each_ceiling(arm):
    base = arm("feedback_only", 4, "")
    every = [base, arm("reflexion", 10, "llm"), arm("oracle_words", 16, "control:oracle"), arm("retry", 6, "")]
    rows = ceilings(every, base)
    assert [(row.arm, row.ceiling, row.attempts, row.n, row.tasks) for row in rows] == [
        ("reflexion", "oracle_words", 2, TASKS, TASKS)
    ]
    assert rows[0].effect.value == pytest.approx(6 / TASKS)
    assert rows[0].limit.value == pytest.approx(12 / TASKS)
    assert rows[0].share.value == pytest.approx(0.5)
    assert 0 < rows[0].share.low < 0.5 < rows[0].share.high


def test_two_ceilings_stand_beside_each_other(arm):
    base = arm("feedback_only", 4, "")
    rows = ceilings([base, arm("quoted", 20, "control:quoted"), arm("oracle_words", 12, "control:oracle")], base)
    assert {(row.arm, row.ceiling) for row in rows} == {("oracle_words", "quoted"), ("quoted", "oracle_words")}


def test_a_share_of_no_ceiling_is_undefined(arm):
    base = arm("feedback_only", 4, "")
    (row,) = ceilings([base, arm("reflexion", 8, "llm"), arm("quoted", 5, "control:quoted")], base)
    assert row.limit.low < 0
    assert row.share is None


def test_corrupted_words_are_no_ceiling(arm):
    base = arm("feedback_only", 4, "")
    assert ceilings([base, arm("corrupted", 12, "control:corrupted"), arm("reflexion", 8, "llm")], base) == ()


def test_effects_stand_beside_their_ceiling_in_cases_too(arm, tmp_path):
    own = [arm("feedback_only", 4, ""), arm("reflexion", 10, "llm"), arm("quoted", 20, "control:quoted")]
    loaded = load_cases(save_cases(tmp_path / "cases.csv", own))
    (row,) = ceilings(loaded, loaded[0])
    assert (row.arm, row.ceiling, row.share.value) == ("reflexion", "quoted", pytest.approx(6 / 16))
    assert ceilings(own, own[0]) == (row,)


def test_an_undefined_share_is_named_in_the_table():
    half = Estimate(value=0.5, low=0.2, high=0.8)
    row = {"arm": "reflexion", "ceiling": "quoted", "attempts": 2, "n": 40, "tasks": 40, "effect": half, "limit": half}
    sheet = ceiling.sheet((Ceiling(**row, share=half), Ceiling(**row, share=None)), "feedback_only")
    assert [line[-1] for line in sheet.rows] == ["50 [20, 80]", "undefined"]


def draws(rng, tasks, seeds, chances):
    return [(rng.random((tasks, seeds)) < chance).astype(float) for chance in chances]


def test_the_ratio_agrees_with_the_differences():
    """Bounded exactly if the denominator's interval excludes 0; holds 0 exactly if the numerator's does."""
    rng, kinds = np.random.default_rng(0), set()
    for _ in range(200):
        base, arm, limit = draws(rng, 30, 2, (0.3, 0.42, 0.55))
        share = fieller.ratio(arm - base, limit - base)
        above, below = bootstrap.difference(base, arm), bootstrap.difference(base, limit)
        kinds.add((above.low > 0, below.low > 0))
        if below.low > 0:
            assert share is not None
            assert (share.low > 0) == (above.low > 0)
            assert share.value == pytest.approx(above.value / below.value)
        elif below.high > 0:
            assert share is None
    assert len(kinds) == 4


def test_the_set_solves_its_own_equation():
    """At its ends, the mean of numerator - r x denominator is as far from 0 as the quantile allows."""
    from scipy.stats import t

    base, arm, limit = draws(np.random.default_rng(1), 60, 1, (0.3, 0.5, 0.7))
    share = fieller.ratio(arm - base, limit - base)
    first, second = (arm - base)[:, 0], (limit - base)[:, 0]
    n = 60 + PSEUDO_PAIRS
    for r in (share.low, share.high):
        m, m1, m2 = (first - r * second).sum() / n, first.sum() / n, second.sum() / n
        added = PSEUDO_PAIRS * (1 + m1**2 + r**2 * (1 + m2**2) - 2 * r * m1 * m2)
        variance = ((((first - m1) - r * (second - m2)) ** 2).sum() + added) / (n - 1) / n
        assert abs(m) / variance**0.5 == pytest.approx(t.ppf(0.975, 59), rel=1e-6)


def test_the_ratio_covers_the_truth():
    rng, covered, defined = np.random.default_rng(2), 0, 0
    for _ in range(300):
        solved = rng.random((100, 1)) < 0.4
        base, arm, limit = (np.maximum(solved, each) for each in draws(rng, 100, 1, (0.1, 0.2, 0.5)))
        if share := fieller.ratio(arm - base, limit - base):
            defined += 1
            covered += share.low <= 0.25 <= share.high
    assert defined > 290
    assert covered / defined > 0.93


@pytest.mark.slow
@pytest.mark.soak
def test_simulated_coverage_of_the_ratio():
    _, _, *rows = fieller_coverage.table(40)
    assert len(rows) == 8
    for row in rows:
        low, high = map(float, row.split("|")[3].split(" to "))
        assert 75 < low <= high <= 100
