"""Hostile texts cost every reader bounded work."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("hostile_texts.py")


def read(size: int, seconds: int) -> int:
    """How many readings of texts of that size there were, within so much CPU time."""
    program = f"import resource, runpy, sys\nresource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))\n"
    program += "sys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    argv = [sys.executable, "-c", program, str(PROGRAM), str(size)]
    process = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-2000:]
    return int(process.stdout)


@pytest.mark.slow
@pytest.mark.soak
def test_no_reader_is_slow_or_falls_over_a_hostile_text() -> None:
    assert read(6_000, seconds=60) > 2_500


@pytest.mark.soak
def test_no_reader_is_slow_on_a_long_hostile_text() -> None:
    assert read(200_000, seconds=1800) > 2_500
