from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.agent.models.requests import Pace


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@given(st.floats(0.1, 1000), st.lists(st.floats(0, 5), min_size=2, max_size=40))
def test_calls_are_never_closer_than_the_limit_allows(per_minute, pauses):
    clock = Clock()
    pace = Pace(per_minute, clock, clock.sleep)
    turns = []
    for pause in pauses:
        clock.sleep(pause)
        pace.wait()
        turns.append(clock.now)
    gaps = [later - earlier for earlier, later in pairwise(turns)]
    assert min(gaps) == pytest.approx(60 / per_minute, rel=1e-6) or min(gaps) > 60 / per_minute


def test_concurrent_callers_get_successive_turns():
    slept = []
    pace = Pace(30, lambda: 5.0, slept.append)
    for _ in range(4):
        pace.wait()
    assert slept == [2.0, 4.0, 6.0]
