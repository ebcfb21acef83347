import pytest
from msgspec.structs import replace

from reflexion_lab.agent.critique.convergence import Convergence, best, improvement_score
from reflexion_lab.records import Critique, Step


def critique(severity=0.8, score=None, issues=(), confidence=1.0):
    return Critique(severity=severity, score=score, issues=issues, confidence=confidence, source="test")


def drafts(*said):
    """One draft a critique, each a text that shares nothing with the one before."""
    return [Step(program=chr(97 + number) * 40, critique=one) for number, one in enumerate(said)]


def test_a_change_is_minimal_below_the_threshold_of_edits_over_the_longer_draft():
    """Kitten and sitting: 3 edits over 7 characters."""
    steps = [Step(program=text, critique=critique()) for text in ("kitten", "sitting")]
    assert Convergence(3 / 7 + 0.001).reached(steps) == "minimal_change"
    assert Convergence(3 / 7).reached(steps) is None


def test_severity_below_the_threshold_ends_it_and_at_the_threshold_does_not():
    rule = Convergence(severity_threshold=0.3)
    assert rule.reached(drafts(critique(0.2))) == "low_severity"
    assert rule.reached(drafts(critique(0.8), critique(0.2))) == "low_severity"
    assert rule.reached(drafts(critique(0.3))) is None
    assert rule.reached(drafts(critique(0.8), critique(0.3))) is None


def test_unrelated_texts_of_one_length_have_not_converged():
    steps = [
        Step(program="def f(x): return x", critique=critique()),
        Step(program="lambda q: sum(q)*2", critique=critique()),
    ]
    assert len(steps[0].program) == len(steps[1].program)
    assert Convergence().reached(steps) is None


def test_a_small_edit_is_a_minimal_change():
    text = "def f(x):\n    return sorted(x)[0] + 1\n"
    steps = [Step(program=text, critique=critique()), Step(program=text.replace("+ 1", "- 1"), critique=critique())]
    assert Convergence(0.1).reached(steps) == "minimal_change"
    assert Convergence(0.01).reached(steps) is None


def test_what_the_task_gave_is_no_part_of_a_change():
    head = 'def f(x):\n    """' + "What f does. " * 30 + '"""'
    steps = [Step(program=f"{head}\n    return x[0]\n", critique=critique()) for _ in range(2)]
    steps[1] = Step(program=f"{head}\n    for y in x:\n        yield y\n", critique=critique())
    assert Convergence().reached(steps) == "minimal_change"
    assert Convergence().reached(steps, prompt=head) is None


def test_close_scores_are_a_plateau_and_no_scores_are_not():
    rule = Convergence(convergence_threshold=0.1)
    assert rule.reached(drafts(critique(0.8, 0.85), critique(0.8, 0.88))) == "score_plateau"
    assert rule.reached(drafts(critique(0.7), critique(0.7))) is None
    assert rule.reached(drafts(critique(0.7, 0.85), critique(0.7))) is None
    assert rule.reached(drafts(critique(0.7, 0.2), critique(0.7, 0.3))) is None  # 0.1 exactly, whatever binary says


def test_a_small_fall_is_a_regression_and_the_earlier_draft_stays_best():
    steps = drafts(critique(0.8, 0.88), critique(0.8, 0.85))
    assert Convergence().reached(steps) == "regression"
    assert best(steps) == 0
    assert Convergence().reached(drafts(critique(0.8, 0.9), critique(0.8, 0.2))) is None


def test_the_same_issues_no_milder_are_a_severity_plateau():
    rule = Convergence()
    once = critique(0.8, issues=("Off by one.",))
    assert rule.reached(drafts(once, critique(0.8, issues=("off  by one.",)))) == "severity_plateau"
    assert rule.reached(drafts(once, critique(0.9, issues=("Off by one.",)))) == "severity_plateau"
    assert rule.reached(drafts(once, critique(0.7, issues=("Off by one.",)))) is None
    assert rule.reached(drafts(once, critique(0.8, issues=("Off by one.", "Slow.")))) is None
    assert rule.reached(drafts(critique(0.8), critique(0.8))) is None


def test_a_threshold_of_zero_never_converges():
    rule = Convergence(convergence_threshold=0, severity_threshold=0)
    assert rule.reached([Step(program="same", critique=critique(0.0, 1.0))] * 2) is None


def test_best_has_the_highest_score_and_ties_go_to_the_earlier():
    assert best(drafts(*(critique(score=score) for score in (0.2, 0.3, 0.55, 0.4)))) == 2
    assert best(drafts(*(critique(score=score) for score in (0.2, 0.5, 0.5)))) == 1


def test_a_score_counts_as_far_as_the_critic_is_to_be_trusted():
    assert best(drafts(critique(score=0.9, confidence=0.5), critique(score=0.6, confidence=1.0))) == 1


@pytest.mark.parametrize("passing", range(1, 10))
def test_a_severity_of_exactly_the_threshold_is_not_below_it(passing):
    assert Convergence(0.0, (10 - passing) / 10).reached(drafts(critique(1 - passing / 10))) is None


def test_scores_count_only_where_every_critique_has_one():
    assert best(drafts(critique(0.0), critique(0.9, score=0.0))) == 0
    steps = drafts(critique(0.9, score=0.1), critique(0.0))
    assert (Convergence().reached(steps), best(steps)) == ("low_severity", 1)


def test_passed_tests_count_before_scores():
    passing, failing = replace(critique(score=0.7), rank=(True, 1.0, 0.7)), critique(score=0.85)
    assert best(drafts(passing, replace(failing, rank=(False, 0.7, 0.85)))) == 0
    assert best(drafts(passing, failing)) == 1


def test_without_scores_the_lowest_severity_is_best():
    assert best(drafts(critique(0.8), critique(0.4), critique(0.4))) == 1


def test_a_draft_that_nobody_judged_is_the_last_choice():
    assert best([*drafts(critique(1.0)), Step(program="new")]) == 0
    assert best([Step(program="only")]) == 0


def test_improvement_is_the_difference_of_scores_else_of_severities():
    assert improvement_score(critique(0.5, 0.2), critique(0.9, 0.6)) == pytest.approx(0.4)
    assert improvement_score(critique(0.8, 0.2), critique(0.3)) == pytest.approx(0.5)
    assert improvement_score(critique(0.3), critique(0.8)) == pytest.approx(-0.5)
