"""The words of the answer, for every outcome that the plan names."""

import pytest
from msgspec.structs import replace

from experiments.own_words_with_room.analysis import hypotheses, verdict
from reflexion_lab.analysis.comparison.lines import Difference

EVEN = Difference(
    value=0.0, low=-0.03, high=0.03, low_90=-0.02, high_90=0.02, n=414, tasks=138, clusters=138, seeds=(101, 102, 103),
    won=9, lost=9, p=1.0, p_tasks=1.0, p_holm=1.0, effective=414, minimum=0.05, method="", margin=0.05, room=0.11,
    arm="", metric="pass_at_1", budget="equal_attempts", baseline="",
)  # fmt: skip


def outcome(value, half=0.03, p=None):
    low, high = value - half, value + half
    p = (0.001 if low > 0 or high < 0 else 0.6) if p is None else p
    ends = {"low": low, "high": high, "low_90": value - half * 0.8, "high_90": value + half * 0.8}
    return replace(EVEN, value=value, p_tasks=p, p_holm=p, **ends)


LOSS = "own words solve fewer tasks than failing checks alone"
OPEN = "; whether by their length or their content is undecided"
ALIKE = ", as many as filler of their length to within 5 points: no sign that their content matters"
MORE = ", and fewer than filler of their length"
ALONE = ": it is not their length alone"


@pytest.mark.parametrize(
    ("own", "answer"),
    [
        (EVEN, "own words lose less than 5 points, if any"),
        (outcome(-0.04, 0.05), "undecided whether own words lose"),
        (outcome(-0.045, 0.04, p=0.11), "undecided whether own words lose"),
        (replace(outcome(-0.02), room=0.05), "too little room to tell"),
        (outcome(0.08), "own words solve more tasks than failing checks alone"),
    ],
)  # fmt: skip
def test_no_loss_is_claimed_that_was_not_detected(own, answer):
    assert verdict(own, EVEN, EVEN) == verdict(own, outcome(-0.1), outcome(-0.1)) == answer


@pytest.mark.parametrize(
    ("filler", "content", "ending"),
    [
        (EVEN, outcome(-0.1), MORE + ALONE), (outcome(-0.05), outcome(-0.05), f"{MORE}, which loses, too{ALONE}"),
        (outcome(-0.1), outcome(0.05), ", filler of their length fewer still"), (outcome(-0.06), EVEN, ALIKE),
        (outcome(-0.03, 0.04), outcome(-0.03, 0.04), OPEN), (outcome(-0.04), outcome(-0.02, 0.06), OPEN),
        (EVEN, outcome(-0.04, 0.03, p=0.2), OPEN),
    ],
)  # fmt: skip
def test_a_loss_is_laid_to_length_or_content_only_where_the_filler_says_so(filler, content, ending):
    assert verdict(outcome(-0.06), filler, content) == LOSS + ending


def test_content_is_confirmed_only_after_a_loss():
    loss, content = outcome(-0.1), outcome(-0.1)
    assert hypotheses(loss, content) == ("detected", "detected")
    assert hypotheses(loss, EVEN) == ("detected", "not detected")
    assert hypotheses(EVEN, content) == ("not detected", "uncorrected, so exploratory")
