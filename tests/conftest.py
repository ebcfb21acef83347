"""What several rooms' tests share: one sandbox, one small task, a model whose replies depend on what it reads."""

import os
from pathlib import Path

import pytest

from reflexion_lab.models.scripted import ScriptedModel
from reflexion_lab.records import Task
from reflexion_lab.sandbox.sandbox import Limits, Sandbox

DATA = Path(os.environ.get("REFLEXION_LAB_DATA", Path(__file__).parents[2] / "shared" / "data"))
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

RIGHT = "```python\ndef double(x):\n    return 2 * x\n```"
WRONG = "```python\ndef double(x):\n    return x\n```"
REFLECTION = (
    "ROOT_CAUSE: The line returns x itself\nWHAT_WENT_WRONG: double(2) gave 2\n"
    "WHAT_TO_CHANGE: multiply by two\nCONFIDENCE: 0.9\n"
)


def learner(messages):
    """Wrong at first; right once a reflection that says how has reached its prompt."""
    text = messages[-1].content
    if "ROOT_CAUSE" in text:
        return REFLECTION
    return RIGHT if "multiply by two" in text else WRONG


@pytest.fixture(scope="session")
def sandbox():
    with Sandbox(Limits(wall_seconds=2.0, cpu_seconds=2), servers=2) as shared:
        yield shared


@pytest.fixture
def task():
    return Task(
        task_id="own/double",
        prompt='def double(x):\n    """Twice x.\n    >>> double(2)\n    4\n    """\n',
        entry_point="double",
        visible_tests=("assert double(2) == 4",),
        hidden_tests=("assert candidate(-3) == -6", "assert candidate(5) == 10"),
        canonical_solution="    return 2 * x\n",
    )


@pytest.fixture
def model():
    return ScriptedModel(learner)


@pytest.fixture(scope="session")
def recorded_runs():
    """The folder of recorded runs of real models; its tests are skipped, and counted, where there is none."""
    if not DATA.is_dir():
        pytest.skip(f"no ../shared/data: not found at {DATA}")
    return DATA


def pytest_terminal_summary(terminalreporter):
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if "shared/data" in str(report.longrepr)]
    where = "all of them ran" if DATA.is_dir() else f"not found at {DATA}; set REFLEXION_LAB_DATA"
    terminalreporter.write_line(f"recorded runs (../shared/data): {len(skipped)} tests skipped without them ({where})")
