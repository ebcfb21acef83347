"""Episodes, and the faults of a machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import reflexion_lab
from tests import builders

FULL_DISK = """
import resource, sys
from reflexion_lab.errors import StoreError
from reflexion_lab.records import Episode
from reflexion_lab.storage.place import opened
store = opened(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    for n in range(100_000):
        store.append([Episode(episode_id=f"e{n}{c}", agent_id="a", task_id="t", attempt_number=1, code="x" * 3000,
                              test_results="", reflection=None, passed=False) for c in "abc"])
except StoreError as error:
    print(n, error)
"""


@pytest.fixture
def episode():
    def build(name, **fields):
        defaults = {"task_id": "t", "timestamp": 100.0, "code": "c", "reflection": None}
        return builders.episode(episode_id=name, **defaults | fields)

    return build


@pytest.fixture
def fill():
    """Appends three at a time in a process whose files may grow to so many bytes; how many appends returned, and the
    error of the one that did not."""

    def run(place, size):
        environment = {**os.environ, "PYTHONPATH": str(Path(reflexion_lab.__file__).parents[1])}
        command = [sys.executable, "-c", FULL_DISK, str(place), str(size)]
        ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        returned, error = ended.stdout.split(" ", 1)
        return int(returned), error

    return run
