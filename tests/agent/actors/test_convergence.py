import pytest
from msgspec.structs import replace

from reflexion_lab.agent.critique.convergence import Convergence, best, improvement_score
from reflexion_lab.records import Critique, Step


def critique(severity=0.8, score=None, issues=(), confidence=1.0):
    return Critique(severity=severity, score=score, issues=issues, confidence=confidence, source="test")


def drafts(*critiques):
    """One draft a critique, each a text that shares nothing with the one before."""
    return [Step(program=chr(97 + number) * 40, critique=critique) for number, critique in enumerate(critiques)]


RETURN = "def f(x):\n    return sorted(x)[0] {} 1\n"


@pytest.mark.parametrize(
    ("texts", "above", "below"),
    [
        (("kitten", "sitting"), 3 / 7 + 0.001, 3 / 7),  # 3 edits over 7 characters
        ((RETURN.format("+"), RETURN.format("-")), 0.1, 0.01),
    ],
)
def test_minimal_changes_are_edits_over_the_longer_draft(texts, above, below):
    steps = [Step(program=text, critique=critique()) for text in texts]
    assert Convergence(above).reached(steps) == "minimal_change"
    assert Convergence(below).reached(steps) is None


def test_what_the_task_gave_is_no_part_of_a_change():
    head = 'def f(x):\n    """' + "What f does. " * 30 + '"""'
    steps = [Step(program=f"{head}\n    return x[0]\n", critique=critique()) for _ in range(2)]
    steps[1] = Step(program=f"{head}\n    for y in x:\n        yield y\n", critique=critique())
    assert Convergence().reached(steps) == "minimal_change"
    assert Convergence().reached(steps, prompt=head) is None


def test_a_threshold_is_met_by_nothing_that_equals_it():
    rule = Convergence(convergence_threshold=0, severity_threshold=0)
    assert rule.reached([Step(program="same", critique=critique(0.0, 1.0))] * 2) is None
    for passing in range(1, 10):
        assert Convergence(0.0, (10 - passing) / 10).reached(drafts(critique(1 - passing / 10))) is None


def test_improvement_is_in_score_else_in_severity():
    assert improvement_score(critique(0.5, 0.2), critique(0.9, 0.6)) == pytest.approx(0.4)
    assert improvement_score(critique(0.8, 0.2), critique(0.3)) == pytest.approx(0.5)
    assert improvement_score(critique(0.3), critique(0.8)) == pytest.approx(-0.5)


def off_by_one(severity=0.8, *more):
    return critique(severity, issues=("Off by one.", *more))


@pytest.mark.parametrize(
    ("critiques", "rule"),
    [
        ([critique(0.2)], "low_severity"), ([critique(0.8), critique(0.2)], "low_severity"), ([critique(0.3)], None),
        ([critique(0.8), critique(0.3)], None), ([critique(0.9, score=0.1), critique(0.0)], "low_severity"),
        ([critique(0.8, 0.85), critique(0.8, 0.88)], "score_plateau"), ([critique(0.7), critique(0.7)], None),
        ([critique(0.7, 0.85), critique(0.7)], None),
        ([critique(0.7, 0.2), critique(0.7, 0.3)], None),  # a change of 0.1 exactly, despite binary fractions
        ([critique(0.8, 0.88), critique(0.8, 0.85)], "regression"), ([critique(0.8, 0.9), critique(0.8, 0.2)], None),
        ([off_by_one(), critique(0.8, issues=("off  by one.",))], "severity_plateau"),
        ([off_by_one(), off_by_one(0.9)], "severity_plateau"), ([off_by_one(), off_by_one(0.7)], None),
        ([off_by_one(), off_by_one(0.8, "Slow.")], None),
    ],
)  # fmt: skip
def test_the_rule_that_the_newest_critique_meets(critiques, rule):
    assert Convergence().reached(drafts(*critiques)) == rule


TESTED = replace(critique(score=0.7), rank=(True, 1.0, 0.7))
FAILING = critique(score=0.85)


@pytest.mark.parametrize(
    ("critiques", "index"),
    [
        ([critique(score=score) for score in (0.2, 0.3, 0.55, 0.4)], 2),
        ([critique(score=score) for score in (0.2, 0.5, 0.5)], 1), ([critique(0.8, 0.88), critique(0.8, 0.85)], 0),
        ([critique(score=0.9, confidence=0.5), critique(score=0.6, confidence=1.0)], 1),
        ([critique(0.0), critique(0.9, score=0.0)], 0), ([critique(0.9, score=0.1), critique(0.0)], 1),
        ([TESTED, replace(FAILING, rank=(False, 0.7, 0.85))], 0), ([TESTED, FAILING], 1),
        ([critique(0.8), critique(0.4), critique(0.4)], 1), ([critique(1.0), None], 0), ([None], 0),
    ],
)  # fmt: skip
def test_the_best_draft_by_tests_then_scores_then_severity(critiques, index):
    assert best(drafts(*critiques)) == index
