import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Case
from reflexion_lab.analysis.comparison.lines import compared
from reflexion_lab.analysis.stats import power
from reflexion_lab.analysis.stats.bootstrap import difference
from reflexion_lab.analysis.stats.intervals import Rate, mcnemar
from reflexion_lab.analysis.stats.permutation import sign_flip
from reflexion_lab.analysis.stats.power import (
    Design,
    _studies,
    detectable,
    detected,
    effective_pairs,
    equivalent,
    fewest,
    minimum,
    minimum_detectable,
    power_of,
    tasks_within,
)


def needed(discordant, alpha=0.05):
    """The least significant split of so many discordant pairs, by the losses that `power_of` allows."""
    losses = int(power._most_losses(discordant, alpha)[discordant])
    return (discordant - losses, losses) if losses >= 0 else None


@pytest.mark.parametrize(
    ("discordant", "split"), [(16, (13, 3)), (33, (23, 10)), (6, (6, 0)), (5, None), (1, None), (0, None)]
)
def test_the_published_splits(discordant, split):
    """Of HumanEval's 164 tasks, 16 discordant pairs must split 13 : 3 (6.1 points), and 33 of them 23 : 10 (7.9)."""
    assert needed(discordant) == split


@settings(deadline=None)
@given(st.integers(0, 300), st.sampled_from([0.001, 0.01, 0.05, 0.2]))
def test_the_split_is_the_least_that_is_significant(discordant, alpha):
    split = needed(discordant, alpha)
    if split is None:
        assert mcnemar(discordant, 0) > alpha
        return
    wins, losses = split
    assert wins + losses == discordant
    assert mcnemar(wins, losses) <= alpha
    assert 2 * (losses + 1) > discordant or mcnemar(wins - 1, losses + 1) > alpha


@pytest.mark.parametrize(
    ("n", "discordant", "difference"), [(20, 0.5, 0.3), (164, 0.2, 0.08), (60, 1.0, 0.4), (9, 0.3, 0.0)]
)
def test_the_power_is_what_enumeration_says(n, discordant, difference):
    from scipy.stats import binom

    pairs, wins = np.mgrid[: n + 1, : n + 1]
    p_values = np.minimum(1, 2 * binom.sf(wins - 1, pairs, 0.5))
    significant = (wins <= pairs) & (2 * wins > pairs) & (p_values <= 0.05)
    chances = binom.pmf(pairs, n, discordant) * binom.pmf(wins, pairs, (1 + difference / discordant) / 2)
    expected = chances[significant].sum()
    assert power_of(n, discordant, difference) == pytest.approx(expected, rel=1e-9)


def test_five_pairs_have_no_minimum_and_few_discordant_ones_have_the_least_of_any():
    assert minimum_detectable(5, 1.0) is None
    least = minimum_detectable(164, 0.0)
    assert power_of(164, least, least) >= 0.8 > power_of(164, least - 1e-5, least - 1e-5)
    assert minimum_detectable(164, 0.02) == least > 0.02  # six wins and no loss four times in five


@pytest.mark.parametrize(
    ("tasks", "seeds", "discordance", "agreement"), [(60, 3, 0.2, 0.5), (60, 1, 0.2, 1.0), (100, 5, 0.1, 0.2)]
)
@pytest.mark.slow
def test_the_minimum_of_the_effective_pairs_is_within_two_points_of_the_simulated_verdict(
    tasks, seeds, discordance, agreement
):
    design = Design(tasks=tasks, seeds=seeds, discordance=discordance, agreement=agreement)
    pairs = round(tasks * seeds / (1 + (seeds - 1) * agreement))
    assert minimum_detectable(pairs, discordance) == pytest.approx(detectable(design, studies=300), abs=0.02)


def test_seeds_that_agree_make_one_pair_of_a_task_and_independent_ones_as_many_as_cases():
    rng = np.random.default_rng(0)
    cases = rng.choice([-1.0, 0.0, 1.0], (400, 3))
    assert effective_pairs(np.repeat(cases[:, :1], 3, axis=1)) == 400
    assert effective_pairs(cases) == pytest.approx(1200, rel=0.1)
    assert effective_pairs(cases[:, :1]) == 400


@pytest.mark.parametrize(
    ("work", "field"),
    [
        (lambda: minimum_detectable(10, 0.5, alpha=1.0), "alpha"),
        (lambda: minimum_detectable(0, 0.5), "n: got 0"), (lambda: minimum_detectable(10, -0.1), "discordant"),
        (lambda: minimum_detectable(10, 1.1), "discordant"), (lambda: minimum_detectable(10, 0.5, power=1.0), "power"),
        (lambda: power_of(10, 0.1, 0.2), "difference"),
    ],
)  # fmt: skip
def test_what_is_out_of_range_is_refused(work, field):
    with pytest.raises(ValueError, match=field):
        work()


@pytest.mark.parametrize(("n", "discordant"), [(164, 0.1), (164, 0.2), (60, 0.3), (500, 0.05)])
@pytest.mark.parametrize("power", [0.5, 0.8])
def test_the_least_difference_has_just_the_power(n, discordant, power):
    least = minimum_detectable(n, discordant, power)
    assert 0 < least <= discordant
    assert power_of(n, discordant, least) >= power > power_of(n, discordant, least - 1e-5)


@pytest.mark.parametrize(
    ("tasks", "seeds", "discordance", "agreement", "gain"),
    [(60, 3, 0.2, 0.5, 0.1), (40, 1, 0.3, 0.5, 0.2), (100, 3, 0.2, 1.0, 0.1), (164, 5, 0.1, 0.0, 0.02)],
)
@pytest.mark.slow
@pytest.mark.soak
def test_the_power_of_a_design_is_that_of_arms_drawn_case_by_case(tasks, seeds, discordance, agreement, gain):
    """Two arms whose tasks are alike in all seeds or in none, judged as `compare` judges them."""
    rng, runs = np.random.default_rng(16), 2000
    chances = [(discordance + gain) / 2, (discordance - gain) / 2, (1 - discordance) / 2, (1 - discordance) / 2]
    kinds = rng.choice(4, (runs, tasks, seeds), p=chances)
    kinds = np.where(rng.random((runs, tasks, 1)) < agreement, kinds[:, :, :1], kinds)
    first, second = np.isin(kinds, [1, 2]).astype(float), np.isin(kinds, [0, 2]).astype(float)
    share = np.mean([_is_detected(*sides) for sides in zip(first, second, strict=True)])
    design = Design(tasks=tasks, seeds=seeds, discordance=discordance, agreement=agreement, difference=gain)
    assert detected(design, 2000).share == pytest.approx(share, abs=0.04)
    assert 0.1 < share < 0.95


def test_tasks_that_draw_alike_are_no_more_than_their_clusters_and_more_comparisons_leave_less_power():
    few = Design(tasks=60, seeds=1, discordance=0.2, difference=0.1)
    many = replace(few, tasks=180, clusters=60)
    shares = {r: detected(replace(many, cluster_agreement=r), 600).share for r in (0.0, 0.5, 1.0)}
    assert shares[1.0] == pytest.approx(detected(few, 600).share, abs=0.07)
    assert shares[0.0] > shares[0.5] > shares[1.0]
    assert shares[0.0] == pytest.approx(detected(replace(few, tasks=180), 600).share, abs=0.1)
    design = Design(tasks=60, seeds=3, discordance=0.2, difference=0.1)
    shares = [detected(replace(design, comparisons=m), 300).share for m in (1, 3, 10)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[2] + 0.1


@pytest.mark.parametrize(("tasks", "clusters", "seeds"), [(90, 40, 1), (60, 20, 2)])
@pytest.mark.slow
def test_the_power_of_clusters_is_that_of_arms_drawn_case_by_case(tasks, clusters, seeds):
    """Arms whose clusters are alike in all tasks or in none, the others' tasks in all seeds or in none."""
    rng, runs = np.random.default_rng(17), 1500
    kinds = rng.choice(4, (runs, tasks, seeds), p=(0.175, 0.025, 0.4, 0.4))
    of = np.arange(tasks) % clusters
    by_task = np.where(rng.random((runs, tasks, 1)) < 0.25, kinds[:, :, :1], kinds)  # 0.4 + 0.6 * 0.25 = 0.55 in all
    alike = rng.random((runs, clusters, 1)) < 0.4
    kinds = np.where(alike[:, of], kinds[:, :clusters, :1][:, of], by_task)
    rows = [np.flatnonzero(of == cluster) for cluster in range(clusters)]
    width = max(map(len, rows)) * seeds
    first, second = (
        np.array([[_padded(study[row].ravel(), width) for row in rows] for study in np.isin(kinds, solved)])
        for solved in ([1, 2], [0, 2])
    )
    share = np.mean([_is_detected(*sides) for sides in zip(first, second, strict=True)])
    design = Design(
        tasks=tasks, seeds=seeds, discordance=0.2, agreement=0.55, difference=0.15, clusters=clusters,
        cluster_agreement=0.4,
    )  # fmt: skip
    assert detected(design, 1500).share == pytest.approx(share, abs=0.045)
    assert 0.1 < share < 0.98


def _padded(values, width):
    return np.concatenate([values.astype(float), np.full(width - len(values), np.nan)])


def _is_detected(first, second):
    return difference(first, second).low > 0 and sign_flip(first, second) < 0.05


@pytest.mark.parametrize(
    ("clusters", "cases", "discordance", "alike"), [(7, 20, 0.6, 0.2), (10, 3, 0.5, 0.5), (11, 1, 0.7, 1.0)]
)
def test_the_minimum_of_few_clusters_is_what_their_comparisons_detect(clusters, cases, discordance, alike):
    """By arms drawn case by case: clusters are alike in all of their cases or in none."""
    effective = round(clusters * cases / (1 + (cases - 1) * alike))
    runs = 800
    for share_of_pairs in (discordance, 0.05):  # of which the second is below what can be detected
        least = minimum(clusters * cases, clusters, effective, share_of_pairs)
        differ = max(share_of_pairs, least)
        chances = [(differ + least) / 2, (differ - least) / 2, 1 - differ]
        kinds = np.random.default_rng(18).choice([1, -1, 0], (runs, clusters, cases), p=chances)
        kinds = np.where(np.random.default_rng(19).random((runs, clusters, 1)) < alike, kinds[:, :, :1], kinds)
        share = np.mean([_is_detected((each < 0).astype(float), (each > 0).astype(float)) for each in kinds])
        assert share == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("comparisons", [1, 2, 3, 7, 20])
def test_the_fewest_clusters_are_those_whose_agreement_is_significant(comparisons):
    least = fewest(comparisons)
    p_values = [sign_flip(np.zeros((n, 2)), np.ones((n, 2))) * comparisons for n in (least - 1, least)]
    assert p_values[1] <= 0.05 < p_values[0]
    assert minimum(2 * least - 2, least - 1, 2 * least, 1.0, comparisons) is None


def test_detectable_difference_reaches_the_requested_power_and_five_tasks_have_none():
    design = Design(tasks=60, seeds=3, discordance=0.2)
    least = detectable(design, 0.8, 300)
    assert detected(replace(design, difference=least), 300).share >= 0.8
    assert detected(replace(design, difference=least - 0.01), 300).share < 0.8
    assert least < detectable(replace(design, tasks=30), 0.8, 300)
    assert detectable(Design(tasks=5, seeds=1, discordance=0.3), studies=100) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tasks": 0}, "tasks: got 0, expected 1 or more"),
        ({"seeds": 0}, "seeds: got 0, expected 1 or more"),
        ({"comparisons": 0}, "comparisons: got 0, expected 1 or more"),
        ({"discordance": 0.0}, "discordance: got 0.0, expected a share, above 0 to 1"),
        ({"clusters": 61}, "clusters: got 61, expected 0 to 60, the tasks"),
        ({"cluster_agreement": -0.1}, "cluster_agreement: got -0.1, expected a share, 0 to 1"),
        ({"agreement": 1.1}, "agreement: got 1.1, expected a share, 0 to 1"),
        ({"difference": 0.3}, r"difference: got 0.3, expected one in \[0, 0.2\], the discordance"),
    ],
)
def test_an_impossible_design_is_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        Design(**{"tasks": 60, "seeds": 3, "discordance": 0.2} | wrong)


@pytest.mark.parametrize(("tasks", "seeds", "margin"), [(60, 1, 0.12), (40, 3, 0.08)])
def test_equivalence_is_simulated_by_the_verdict_of_a_comparison(tasks, seeds, margin):
    design = Design(tasks=tasks, seeds=seeds, discordance=0.1, agreement=0.3)
    (cases,) = _studies(design, 60, 0)
    verdicts = []
    for study in cases:
        of_case = {Case(k, f"t{t}"): study[t, k] for t in range(tasks) for k in range(seeds)}
        own, base = ({case: bool(sign * value > 0) for case, value in of_case.items()} for sign in (1, -1))
        verdicts.append(compared(own, base, margin=margin).is_equivalent)
    assert equivalent(design, margin, 60) == Rate.over(verdicts)
    assert 0 < sum(verdicts) < 60


def test_tasks_within_a_margin_are_the_fewest_to_two_per_cent():
    n = tasks_within(0.05, 0.12)
    fewer, enough = (equivalent(Design(tasks=k, seeds=1, discordance=0.12), 0.05).share for k in (round(0.9 * n), n))
    assert fewer < 0.8 <= enough
    assert tasks_within(0.05, 0.03) < n < tasks_within(0.05, 0.2)
