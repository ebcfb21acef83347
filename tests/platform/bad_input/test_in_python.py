"""The same mistakes from Python, and from a process of its own: one line, and nothing of Hydra's."""

import subprocess
import sys

import pytest

import reflexion_lab as rl

MISTAKES = {
    "run": lambda: rl.run("recall.omga=1"), "run, null for a group": lambda: rl.run("recall=null"),
    "run, a mapping": lambda: rl.run({"workers": 0}), "compose": lambda: rl.compose("model=gpt5"),
    "sweep": lambda: rl.sweep({"colour": [1, 2]}), "estimate": lambda: rl.estimate("colour=red"),
    "load, absent": lambda: rl.load("absent"), "load, nothing": rl.load, "load, a number": lambda: rl.load(5),
    "compare": lambda: rl.compare("old/good", "old/other", baseline="nobody"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.slow
def test_mistake_in_python_is_a_value_error_of_one_line(work, snapshot_of, name):
    before = snapshot_of(work)
    with pytest.raises(ValueError) as raised:
        MISTAKES[name]()
    message = str(raised.value)
    assert message and "\n" not in message
    words = message.replace("hydra.searchpath", "").casefold()  # the only key of Hydra that a hint names
    assert "hydra" not in words and "omegaconf" not in words
    assert snapshot_of(work) == before


def test_process_says_one_line_and_its_hint_and_leaves_nothing(work, snapshot_of):
    before = without_bytecode(snapshot_of(work))
    command = [sys.executable, "-m", "reflexion_lab", "run", "seed=one"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    line, *hint = process.stderr.splitlines()
    assert line.startswith("error: seed")
    assert len(hint) <= 1 and all(indented.startswith("  ") for indented in hint)
    assert without_bytecode(snapshot_of(work)) == before


def without_bytecode(snapshot):
    """Python's own files of `own_parts.py`, which an earlier test may have imported: they come and go."""
    return {name: state for name, state in snapshot.items() if "__pycache__" not in name}
