"""A comparison's figures against ones that were worked out by hand, on runs of a few tasks."""

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Case
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.comparison.lines import PRICE
from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.intervals import adjusted, mcnemar, paired_difference, wilson
from reflexion_lab.cli.main import main
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Usage
from reflexion_lab.runner.folder.registration import Budget, Registration, section
from tests.analysis.conftest import BASE, RIGHT, WORDS, WRONG

SIMPLE = {name: history[:1] for name, history in BASE.items()}


@pytest.fixture
def pair(run):
    """The runs of these arms, from verdicts by name, at two seeds."""
    return lambda seeds=(1, 2), **tables: [run(arm, table, s) for arm, table in tables.items() for s in seeds]


@pytest.fixture
def two_seeds(pair):
    return pair((7, 8), feedback_only=BASE, words=WORDS)


def named(comparison, arm):
    return next(row for row in comparison.rows if row.arm == arm)


def test_the_figures_of_an_arm_are_those_by_hand(two_seeds):
    row = named(compare(arms(two_seeds)), "words")
    assert (row.first.value, row.final.value) == (0.5, 0.75)  # hidden verdicts on submissions
    assert (row.curve, row.of.seeds) == ((0.5, 0.75), (7, 8))
    assert [row.number(name) for name in ("pass_at_1_area", "tasks", "n_logged", "n_expected")] == [0.625, 4, 8, 8]
    shares = {
        "repair": (4, 4),
        "damage": (2, 4),
        "feedback_attempts_false_positive_rate": (2, 6),
        "feedback_attempts_false_negative_rate": (2, 8),
    }  # to the submission; over all attempts
    assert {key: (row.metrics[key].k, row.metrics[key].n) for key in shares} == shares
    assert (row.of.usage.calls, row.of.usage.tokens) == (2 * 10, 2 * 161)  # of attempts and reflections
    assert row.metrics["tokens_per_solved"].value == 2 * 161 / 6
    assert not row.metrics.keys() & {"cost", "cost_per_case", "cost_per_solved"}


def test_a_difference_pairs_cases_and_takes_tasks_for_the_unit(two_seeds):
    names = named(compare(arms(two_seeds)), "words").differences["as_run"]
    assert (names.n, names.won, names.lost, names.value) == (8, 2, 0, 0.25)
    assert names.p == mcnemar(0, 2) == 0.5
    assert names.p_tasks == 1.0  # one task alone differs, at both seeds alike
    assert not names.detected


def test_two_seeds_that_agree_in_all_are_worth_no_more_than_one(run):
    tasks = {f"t{i}": [RIGHT] if i < 10 else [WRONG] for i in range(20)}
    (both,) = arms([run("simple", tasks, seed) for seed in (1, 2)])
    final, expected = compare([both]).rows[0].final, interval(both.outcomes(both.verdicts()))
    low, high = wilson(10, 20)
    assert (final.value, final.low, final.high) == (expected.value, expected.low, expected.high)
    assert final.high - final.low == pytest.approx(high - low, abs=0.07)


def test_a_gain_from_one_seed_is_that_of_its_paired_table(run):
    names = named(compare(arms([run("feedback_only", BASE), run("words", WORDS)])), "words")
    assert names.differences["as_run"].seeds == (7,)
    assert (names.differences["as_run"].low, names.differences["as_run"].high) == paired_difference(2, 0, 1, 1)
    assert (names.final.low, names.final.high) == wilson(3, 4)


def test_at_equal_tokens_the_dearer_arm_is_cut(pair):
    runs = pair((7, 8), feedback_only=BASE, simple=SIMPLE)
    row = named(compare(arms(runs)), "simple")
    assert row.differences["as_run"].value == -0.25
    at_tokens = row.differences["equal_tokens"]
    assert at_tokens.value == 0.0
    assert at_tokens.words == "equal tokens"
    assert (at_tokens.cut, at_tokens.spend, at_tokens.baseline_spend) == ("feedback_only", 20, 20)
    by_calls = named(compare(arms(runs), unit="calls"), "simple").differences
    assert list(by_calls) == ["as_run", "equal_attempts", "equal_calls"]


def test_matched_p_is_at_least_the_verdicts_mcnemar_p(pair):
    """An arm that pays far more may be told from its baseline by its spending, which says nothing of what it solves."""
    base = {f"t{i:02}": [WRONG] if i < 20 else [WRONG, RIGHT] if i < 26 else [RIGHT] for i in range(40)}
    dear = {f"t{i:02}": [WRONG] * 5 if i < 26 else [RIGHT] for i in range(40)}
    names = named(compare(arms(pair(feedback_only=base, dear=dear))), "dear").differences["equal_tokens"]
    assert (names.won, names.lost) == (0, 12)
    assert names.p_tasks >= mcnemar(6, 0)  # six tasks, each the same at both seeds


def test_at_equal_attempts_both_arms_are_cut_at_the_last_of_the_shorter(pair):
    long = {"a": [WRONG] * 3 + [RIGHT], "b": [WRONG, RIGHT]}
    short = {"a": [WRONG] * 2, "b": [WRONG] * 2}
    comparison = compare(arms(pair(long=long, short=short)))
    row = named(comparison, "short")
    difference = row.differences["equal_attempts"]
    assert (row.differences["as_run"].value, difference.value) == (-1.0, -0.5)
    assert (difference.attempts, difference.cut) == (2, "long")
    assert (difference.spend, difference.baseline_spend) == (2.0, 2.0)
    assert list(comparison.shown(row)) == ["as_run", "equal_attempts", "equal_completion_tokens", "equal_tokens"]
    same = compare(arms(pair(words=short, control=short)))
    assert "as_run" not in same.shown(same.rows[1])


@pytest.mark.parametrize(
    ("allowed", "cut", "shorter", "estimate"),
    [
        ((8, 8), 8, "", -1.0),  # the short arm stopped early: it was allowed the attempts of the other
        ((8, 3), 3, "long", -0.5),
        ((None, None), 2, "long", -0.5),
    ],
)
def test_equal_attempts_are_those_allowed_and_not_those_made(run, allowed, cut, shorter, estimate):
    histories = {"long": {"a": [WRONG] * 3 + [RIGHT], "b": [WRONG, RIGHT]}, "short": {"a": [WRONG] * 2, "b": [WRONG]}}
    runs = [
        run(arm, verdicts, s, config={"arm": arm} | ({"loop": {"max_attempts": n, "extra_attempts": 0}} if n else {}))
        for (arm, verdicts), n in zip(histories.items(), allowed, strict=True)
        for s in (1, 2)
    ]
    comparison = compare(arms(runs))
    row = named(comparison, "short")
    difference = row.differences["equal_attempts"]
    assert (difference.attempts, difference.cut, difference.value) == (cut, shorter, estimate)
    assert ("as_run" in comparison.shown(row)) == bool(shorter)


def test_attempts_that_progress_earns_are_allowed_ones(run):
    loop = {"max_attempts": 2, "extra_attempts": 2}
    (arm,) = arms([run("words", BASE, s, config={"arm": "words", "loop": loop}) for s in (1, 2)])
    assert (arm.longest, arm.max_attempts) == (2, 4)


DRAW = Usage(calls=1, prompt_tokens=100, completion_tokens=19)
RETRY = Usage(calls=1, prompt_tokens=250, completion_tokens=27)
REFLECTION = Usage(calls=1, prompt_tokens=450, completion_tokens=63)


@pytest.fixture
def dear_words(run, respent):
    """Words that change nothing per attempt, at the prices of experiments/reflexion_against_retry: 513 tokens for a
    reflection and 277 for the retry, against 119 for a draw. Each attempt solves 1 in 16 of what is left.
    """
    tries = {f"t{i:02}": [WRONG, RIGHT] if i < 1 else [WRONG, WRONG] for i in range(16)}
    prices = {"retry": (DRAW, DRAW, Usage()), "words": (DRAW, RETRY, REFLECTION)}
    return [run(arm, attempts=respent(tries, *paid), seed=s) for arm, paid in prices.items() for s in (1, 2)]


def test_a_price_ratio_and_break_even_are_those_by_hand(dear_words):
    price = named(compare(arms(dear_words), "retry"), "words").differences["equal_tokens"].price
    assert (price.spend, price.baseline_spend) == (790, 119)
    assert price.ratio == pytest.approx(6.64, abs=0.005)
    assert (price.solved.k, price.solved.n, price.baseline_solved.k, price.baseline_solved.n) == (2, 32, 2, 32)
    assert price.break_even == pytest.approx((1 - (15 / 16) ** (790 / 119)) * 16)  # by 1 in 16, 6.6 draws solve 35 %
    assert price.break_even / 16 == pytest.approx(0.348, abs=0.0005)
    by_words = named(compare(arms(dear_words), "retry"), "words").differences["equal_completion_tokens"].price
    assert (by_words.spend, by_words.baseline_spend) == (90, 19)


def test_words_that_only_cost_more_lose_by_their_price_and_do_no_harm(run, respent):
    """At each attempt both arms solve the same tasks; a draw of the words takes four times the tokens."""
    tries = {f"t{i:02}": [WRONG] * (i % 4) + [RIGHT] for i in range(40)}
    cheap, dear = (Usage(calls=1, prompt_tokens=10, completion_tokens=tokens) for tokens in (10, 70))
    runs = [run(arm, attempts=respent(tries, usage), seed=s)
            for arm, usage in (("retry", cheap), ("words", dear)) for s in (1, 2)]  # fmt: skip
    row = named(compare(arms(runs), "retry"), "words")
    at_tokens, at_attempts = (row.differences[f"equal_{unit}"] for unit in ("tokens", "attempts"))
    assert at_tokens.is_loss and at_attempts.value == 0
    assert (at_tokens.verdict, at_attempts.verdict) == (PRICE, at_attempts.conclusion)


@pytest.mark.parametrize(
    ("margin", "harmed", "verdict"),
    [
        (None, 2, "worse at this budget; at equal attempts undecided"),
        (0.03, 2, "worse at this budget; at equal attempts undecided"), (0.25, 2, "budget only"),
        (0.25, 16, "detected"),
    ],
)  # fmt: skip
def test_a_loss_that_is_not_detected_at_equal_attempts_is_no_price_unless_equivalence_is_shown(
    run, respent, capsys, monkeypatch, margin, harmed, verdict
):
    """Dear words also lose `harmed` of 40 tasks by what they say."""
    monkeypatch.setenv("COLUMNS", "80")
    tries = {f"t{i:02}": [WRONG] * (i % 4) + [RIGHT] for i in range(40)}
    worse = {task: [WRONG] * 4 if i < harmed else each for i, (task, each) in enumerate(tries.items())}
    cheap, dear = (Usage(calls=1, prompt_tokens=10, completion_tokens=tokens) for tokens in (10, 150))
    arms_of = (("retry", tries, cheap), ("words", worse, dear))
    runs = [run(arm, attempts=respent(each, usage), seed=s) for arm, each, usage in arms_of for s in (1, 2)]
    options = ["--margin", f"{100 * margin:g}"] if margin else []
    assert main(["compare", *(str(each.path) for each in runs), "--baseline", "retry", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    text = " ".join(" ".join(lines).split())
    (row,) = (each for each in compare(arms(runs), "retry", margin=margin).rows if each.arm == "words")
    assert row.differences["equal_tokens"].is_loss and row.differences["equal_attempts"].is_loss == (harmed > 2)
    assert verdict in text and ("budget only" in text) == (verdict == "budget only")
    assert (row.differences["equal_tokens"].verdict == PRICE) == (verdict == "budget only")
    assert ("undecided" in text.partition("tokens")[2]) == ("undecided" in verdict)


def test_with_prices_the_line_at_equal_cost_replaces_that_at_equal_tokens(run, pair, respent):
    prices = {"actor": "1/2 USD per million, as of today"}
    both = [run(arm, attempts=respent(BASE, PAID), seed=s, prices=prices) for arm in ("retry", "words") for s in (7, 8)]
    comparison = compare(arms(both))
    names = ["equal_attempts", "equal_completion_tokens", "equal_cost"]
    assert (list(comparison.shown(comparison.rows[1])), comparison.unpriced) == (names, "")
    assert "equal_tokens" in comparison.rows[1].differences  # for tables and MLflow, under its old name
    free = compare(arms(pair(retry=BASE, words=BASE)))
    assert list(free.shown(free.rows[1])) == [*names[:2], "equal_tokens"]
    assert free.unpriced == "retry has no prices"


@pytest.fixture
def unrecorded(run, respent):
    """An arm of two seeds whose calls are on record, and not what they took."""
    return [run("silent", attempts=respent(WORDS, Usage(calls=1)), seed=seed) for seed in (7, 8)]


def test_tokens_that_nobody_recorded_are_not_taken_for_free(two_seeds, unrecorded):
    comparison = compare(arms([*two_seeds, *unrecorded]))
    row = named(comparison, "silent")
    assert comparison.document["arms"][-1]["unknown"] == ["completion_tokens", "tokens", "cost"]
    assert not [name for name in row.metrics if "tokens" in name]
    assert list(row.differences) == ["as_run", "equal_attempts"]
    assert row.unmatched["equal_tokens"] == "tokens of silent unknown"
    by_calls = named(compare(arms([*two_seeds, *unrecorded]), unit="calls"), "silent")
    assert by_calls.unmatched == {}
    assert by_calls.differences["equal_calls"].spend > 0


def test_one_role_without_tokens_makes_them_unknown(run, records):
    attempts, _ = records(WORDS)
    partly = {
        task_id: [
            replace(record, reflection=record.reflection and replace(record.reflection, usage=Usage(calls=1)))
            for record in history
        ]
        for task_id, history in attempts.items()
    }
    (facts,) = compare(arms([run("partly", attempts=partly)])).document["arms"]
    assert facts["unknown"] == ["completion_tokens", "tokens", "cost"]


PAID = Usage(calls=1, prompt_tokens=9, cost=0.5)


def test_with_prices_the_cost_of_a_solved_case_is_all_that_was_paid(run, respent):
    row = compare(arms([run("feedback_only", attempts=respent(BASE, PAID))]), unit="cost").rows[0]
    assert row.of.usage.cost == row.metrics["cost"] == 3.5
    assert row.metrics["cost_per_solved"].value == 1.75


@pytest.mark.parametrize("prices", [{}, {"actor": "1/2 USD per million", "reflector": "unknown"}])
def test_cost_is_no_budget_without_a_price_for_every_role(run, respent, prices):
    folder = run("feedback_only", attempts=respent(SIMPLE, PAID if prices else Usage(calls=1)), prices=prices)
    with pytest.raises(ValueError, match="unit: got cost, but feedback_only has no prices, expected prices in one"):
        compare(arms([folder]), unit="cost")


def test_money_of_two_currencies_is_not_compared(run, respent):
    kinds = (("feedback_only", "USD"), ("words", "EUR"))
    prices = {arm: {"actor": f"1/2 {currency} per million, as of today"} for arm, currency in kinds}
    both = [run(arm, attempts=respent(SIMPLE, PAID), seed=s, prices=prices[arm]) for arm in prices for s in (7, 8)]
    with pytest.raises(ValueError, match="got cost, but prices are in EUR, USD, expected prices in one currency"):
        compare(arms(both), unit="cost")
    assert [arm["currencies"] for arm in compare(arms(both)).document["arms"]] == [("USD",), ("EUR",)]


def test_baseline_is_feedback_only_else_the_first_non_oracle(run, pair):
    bound = [run("oracle", BASE, s, feedback_source="oracle") for s in (7, 8)]
    words, base = pair((7, 8), words=WORDS), pair((7, 8), feedback_only=BASE)
    assert compare(arms([*bound, *words])).baseline == "words"
    assert compare(arms([*bound, *words, *base])).baseline == "feedback_only"
    assert compare(arms([*words, *base]), "words").baseline == "words"


def test_upper_bounds_alone_differ_as_upper_bounds(run):
    bounds = [
        run(arm, many(won), s, feedback_source="oracle")
        for arm, won in (("reflexion", 24), ("retry", 10))
        for s in (1, 2)
    ]
    comparison = compare(arms(bounds))
    assert (comparison.baseline, comparison.reason) == ("retry", "repeated draws without feedback")
    difference = named(comparison, "reflexion").differences["as_run"]
    assert difference.value == pytest.approx(0.35)
    assert 0 < difference.low < 0.35 < difference.high
    assert (difference.metric, difference.verdict, difference.detected) == ("upper_bound", "detected", True)
    assert compare(arms(bounds), "reflexion").baseline == "reflexion"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baseline": "oracle"}, "baseline: got 'oracle', an upper bound"),
        ({"baseline": "none"}, "baseline: got 'none', expected one of the arms: feedback_only, words"),
        ({"unit": "hours"}, "unit: got 'hours', expected one of"),
    ],
)
def test_an_impossible_comparison_is_an_error(run, two_seeds, options, message):
    with pytest.raises(ValueError, match=message):
        compare(arms([*two_seeds, *(run("oracle", BASE, s, feedback_source="oracle") for s in (7, 8))]), **options)


def test_a_baseline_is_asked_for_and_refused_by_the_names_on_the_screen(run):
    sizes = [run(f"words recall.omega={omega}", WORDS, s) for omega in (1, 3) for s in (7, 8)]
    bound = [run("oracle recall.omega=1", BASE, s, feedback_source="oracle") for s in (7, 8)]
    with pytest.raises(ConfigError, match=r"one of the arms: words Ω1, words Ω3$"):
        compare(arms([*sizes, *bound]), "words Ω2")
    with pytest.raises(ConfigError, match=r"got 'oracle Ω1', an upper bound"):
        compare(arms([*sizes, *bound]), "oracle Ω1")
    assert compare(arms(sizes), "Ω3").baseline == "words recall.omega=3"


def many(won, n=40):
    """Tasks of which the first `won` are right."""
    return {f"t{i:02}": [RIGHT] if i < won else [WRONG] for i in range(n)}


def test_a_large_difference_is_detected_and_a_small_one_is_not(pair):
    comparison = compare(arms(pair(feedback_only=many(10), much=many(24), little=many(12))))
    much, little = (named(comparison, arm).differences["as_run"] for arm in ("much", "little"))
    assert much.detected
    assert much.p_tasks < 0.001
    assert not replace(much, p_holm=0.06).detected
    assert (much.won, much.lost) == (28, 0)
    assert not little.detected


def test_p_values_are_corrected_for_all_arms_but_the_bounds(run, pair):
    runs = pair(feedback_only=many(10), more=many(16), most=many(20))
    runs += [run("oracle", many(30), s, feedback_source="oracle") for s in (1, 2)]
    comparison = compare(arms(runs))
    more, most, oracle = (named(comparison, arm).differences["as_run"] for arm in ("more", "most", "oracle"))
    assert most.p_holm == pytest.approx(2 * most.p_tasks)
    assert more.p_holm == pytest.approx(max(more.p_tasks, most.p_holm))
    assert (oracle.p_holm, oracle.detected) == (None, None)


def test_unpaired_cases_are_named_and_left_out_of_differences(pair):
    runs = pair((1, 2, 3), feedback_only=BASE) + pair(words=WORDS)
    row = named(compare(arms(runs)), "words")
    assert row.absent == tuple(Case(3, name) for name in "abcd")
    assert row.alone == ()
    assert row.differences["as_run"].n == 8
    assert named(compare(arms(runs), "words"), "feedback_only").alone == row.absent


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"benchmark_digest": "aaa"}, {"benchmark_digest": "bbb"}, r"toy aaa in feedback_only, .* toy bbb in words"),
        ({"benchmark": "x"}, {"benchmark": "y", "seed": 8}, r"x .* in feedback_only, .* and y .* in words"),
    ],
    ids=["tasks", "benchmarks"],
)
def test_arms_of_other_data_are_an_error_that_names_both(run, first, second, message):
    with pytest.raises(ValueError, match=message):
        compare(arms([run("feedback_only", BASE, **first), run("words", WORDS, **second)]))


def test_an_arm_of_other_seeds_or_alone_has_no_difference(run):
    row = named(compare(arms([run("feedback_only", BASE, 1), run("words", WORDS, 2)])), "words")
    assert (row.differences, row.refused) == ({}, "no task and seed in common")
    (row,) = compare(arms([run("simple", BASE)])).rows
    assert row.differences == {}
    assert row.refused == ""
    assert row.final.value == 0.5


def test_seeds_may_draw_tasks_of_their_own(run):
    runs = [run(arm, BASE, s, benchmark_digest=str(s)) for arm in ("feedback_only", "words") for s in (1, 2)]
    assert named(compare(arms(runs)), "words").differences["as_run"].n == 8


def test_what_broke_is_counted_and_never_dropped(run, attempt):
    attempts = {
        "a": [attempt("a", 1, 0.0, solution=" ")],
        "b": [replace(record := attempt("b", 1, 0.0), evaluation=replace(record.evaluation, outcome="timeout"))],
        "c": [replace(record := attempt("c", 1, 0.0), evaluation=replace(record.evaluation, outcome="harness_error"))],
        "d": [attempt("d", 1, -1)],
    }
    row = compare(arms([run("simple", attempts=attempts)])).rows[0]
    for rate in (row.metrics[f"{name}_rate"] for name in ("extraction_failures", "timeouts", "harness_errors")):
        assert (rate.k, rate.n, row.number("n_logged"), row.number("no_feedback")) == (1, 4, 4, 1)


@pytest.fixture
def study():
    return Registration(
        name="words help", hypotheses=("words solve more than feedback alone",), primary_metric="pass_at_1",
        arms={"feedback_only": "", "words": ""}, baseline="feedback_only", benchmark="toy", n_tasks=40, seeds=(1, 2),
        budget=Budget(calls=1000), minimum_detectable_effect=0.1, exclusions=(), stopping="after all runs",
    )  # fmt: skip


def registered(study, run, **arms):
    """The study with the configs of these arms, registered from runs that write their manifests."""
    manifests = {arm: [run(arm, many(won), seed).manifest for seed in study.seeds] for arm, won in arms.items()}
    return replace(study, registered=section(manifests, at="2026-01-01T00:00:00Z", power=0.8))


def test_only_the_registered_comparison_is_not_exploratory(run, study):
    study = registered(study, run, feedback_only=10, words=24)
    known = {"study": study.name, "study_digest": study.digest}
    sizes = {"feedback_only": 10, "words": 24, "other": 12}
    both = arms([run(arm, many(won), s, **known) for arm, won in sizes.items() for s in (1, 2)])
    comparison = compare(both, study=study)
    assert named(comparison, "words").differences["as_run"].reasons == ""
    assert named(comparison, "words").differences["equal_tokens"].exploratory
    assert named(comparison, "words").differences["equal_attempts"].reasons == ""  # both loops have one attempt
    assert named(comparison, "other").differences["as_run"].exploratory
    assert named(compare(both, "other", study=study), "words").differences["as_run"].exploratory
    assert named(compare(both), "words").differences["as_run"].exploratory


def test_equal_attempts_have_a_registered_metric_of_their_own(run, study):
    study = replace(study, primary_metric="pass_at_1_equal_attempts")
    histories = {"feedback_only": [WRONG, WRONG, WRONG], "words": [WRONG, RIGHT]}
    by_arm = {arm: {f"t{i:02}": history for i in range(40)} for arm, history in histories.items()}
    manifests = {arm: [run(arm, tasks, s).manifest for s in (1, 2)] for arm, tasks in by_arm.items()}
    study = replace(study, registered=section(manifests, at="2026-01-01T00:00:00Z", power=0.8))
    known = {"study": study.name, "study_digest": study.digest}
    runs = [run(arm, tasks, s, **known) for arm, tasks in by_arm.items() for s in (1, 2)]
    row = named(compare(arms(runs), study=study), "words")
    assert row.differences["equal_attempts"].reasons == ""
    assert row.differences["as_run"].exploratory
    assert row.differences["equal_tokens"].exploratory


def test_the_registered_effect_is_a_size_to_plan_for_and_no_bar(run, study):
    study = replace(study, minimum_detectable_effect=0.5)
    known = {"study": study.name, "study_digest": study.digest}
    runs = [run(arm, many(won), s, **known) for arm, won in (("feedback_only", 10), ("words", 24)) for s in (1, 2)]
    difference = named(compare(arms(runs), study=study), "words").differences["as_run"]
    assert difference.value < 0.5
    assert difference.detected


@pytest.mark.parametrize(
    ("sizes", "margin", "verdict"),
    [
        ((20, 20), 0.1, "no worse than -4.7, no better than 4.7 (90 %), inside ±10 points"),
        ((20, 20), 0.01, "undecided"),
        ((20, 22), None, "not detected, size below "), ((10, 24), 0.1, "detected"),
        ((10, 24), 0.9, "detected, inside ±90 points"),
    ],
)  # fmt: skip
def test_the_verdict_is_a_claim_at_the_margin(pair, sizes, margin, verdict):
    runs = pair(feedback_only=many(sizes[0]), words=many(sizes[1]))
    result = named(compare(arms(runs), margin=margin), "words").differences["as_run"]
    assert result.verdict.startswith(verdict)
    assert result.minimum is not None
    assert result.margin == margin


def test_the_room_is_what_the_baseline_adds_to_attempt_1(pair):
    comparison = compare(arms(pair((7, 8), feedback_only=BASE, simple=SIMPLE, words=WORDS)))
    base = named(comparison, "feedback_only")
    simple, words = (named(comparison, name).differences for name in ("simple", "words"))
    assert simple["as_run"].room == words["equal_attempts"].room == base.final.value - base.first.value > 0
    assert simple["equal_attempts"].room == 0  # at one attempt there is no retry


def test_equivalence_is_two_one_sided_t_tests(pair):
    from scipy.stats import t

    runs = pair((1,), feedback_only=many(20), words=many(21))
    result = named(compare(arms(runs)), "words").differences["as_run"]
    centre, error = adjusted([1.0] + [0.0] * 39)
    verdicts = []
    for margin in (0.05, 0.07, 0.09, 0.12, 0.15):
        restricted = max(error, (margin * (1 - margin) / 40) ** 0.5)  # so many pairs differ at least, if it is true
        p = max(t.sf((margin - centre) / restricted, 39), t.sf((centre + margin) / restricted, 39))
        assert replace(result, margin=margin).is_equivalent == (p < 0.05)
        verdicts.append(p < 0.05)
    assert verdicts[0] is not verdicts[-1]


def test_the_margin_is_that_of_the_study_and_another_is_exploratory(run, study):
    study = registered(replace(study, equivalence_margin=0.1), run, feedback_only=20, words=20)
    known = {"study": study.name, "study_digest": study.digest}
    runs = [run(arm, many(20), s, **known) for arm in ("feedback_only", "words") for s in (1, 2)]
    own, other = (named(compare(arms(runs), study=study, margin=m), "words").differences["as_run"] for m in (None, 0.2))
    assert (own.margin, own.reasons) == (0.1, "")
    assert other.reasons == "margin 0.2, registered was 0.1"


def test_a_design_that_detected_has_a_minimum_detectable_effect(run):
    """14 : 0 of 180 cases, three seeds: the exact test over 60 tasks knew none."""
    base = [run("feedback_only", many(20, 60), s) for s in (1, 2, 3)]
    words = [run("words", many(20 + gain, 60), s) for s, gain in ((1, 8), (2, 5), (3, 1))]
    result = named(compare(arms([*base, *words])), "words").differences["as_run"]
    assert (result.won, result.lost, result.detected) == (14, 0, True)
    assert 60 < result.effective <= 180
    assert 0 < result.minimum < 0.15


def test_no_arm_is_no_comparison():
    with pytest.raises(ValueError, match="arms: got none"):
        compare([])
