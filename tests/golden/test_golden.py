"""The golden runs agree with what is stored; see golden.py."""

import functools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import golden

EXPECTED = functools.cache(golden.stored)
"""Read at its first use: at import, every process that collects would read it."""


def test_every_golden_run_is_stored():
    assert set(EXPECTED()) == {*golden.RUNS, *golden.SPECIAL}


@pytest.mark.parametrize("name", [*golden.RUNS, *golden.SPECIAL])
@pytest.mark.slow
def test_a_golden_run_agrees(name):
    ((_, now),) = golden.carry_out([name])
    assert list(golden.differences(EXPECTED()[name], now))[:5] == []
