"""The same mistakes from Python, and from a process of its own: one line, and nothing of Hydra's."""

from __future__ import annotations

import subprocess
import sys

import pytest

import reflexion_lab as rl

MISTAKES = {
    "run, a wrong type": lambda: rl.run("seed=one"), "run, no such key": lambda: rl.run("recall.omga=1"),
    "run, no such choice": lambda: rl.run("model=gpt5"), "run, null for a group": lambda: rl.run("recall=null"),
    "run, no grammar": lambda: rl.run("recall.omega=[1"),
    "run, in a circle": lambda: rl.run("arm=${arm}"), "run, not a number": lambda: rl.run("temperature=nan"),
    "run, an unknown part": lambda: rl.run("actor._target_=no.such"),
    "run, a mapping": lambda: rl.run({"workers": 0}),
    "compose": lambda: rl.compose("colour=red"), "sweep": lambda: rl.sweep({"colour": [1, 2]}),
    "estimate": lambda: rl.estimate("colour=red"),
    "load, absent": lambda: rl.load("absent"), "load, nothing": rl.load,
    "load, a number": lambda: rl.load(5), "load, no pattern": lambda: rl.load("absent/*"),
    "compare, absent": lambda: rl.compare("absent"),
    "compare, nobody": lambda: rl.compare("old/good", "old/other", baseline="nobody"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.slow
def test_a_mistake_in_python_is_a_value_error_of_one_line(work, snapshot_of, name):
    before = snapshot_of(work)
    with pytest.raises(ValueError) as raised:
        MISTAKES[name]()
    message = str(raised.value)
    assert message and "\n" not in message
    words = message.replace("hydra.searchpath", "").casefold()  # the only key of Hydra that a hint names
    assert "hydra" not in words and "omegaconf" not in words
    assert snapshot_of(work) == before


@pytest.mark.parametrize(
    "words", [("show", "absent"), ("run", "seed=one"), ("memory", "show", "--store", "tasks.jsonl")], ids=str
)
def test_a_process_says_one_line_and_its_hint_and_leaves_nothing(work, snapshot_of, words):
    before = without_bytecode(snapshot_of(work))
    process = subprocess.run(
        [sys.executable, "-m", "reflexion_lab", *words], capture_output=True, text=True, check=False
    )
    assert process.returncode == 2
    line, *hint = process.stderr.splitlines()
    assert line.startswith("error: ")
    assert len(hint) <= 1 and all(indented.startswith("  ") for indented in hint)
    assert without_bytecode(snapshot_of(work)) == before


def without_bytecode(snapshot):
    """Python's own files of `own_parts.py`, which an earlier test may have imported: they come and go."""
    return {name: state for name, state in snapshot.items() if "__pycache__" not in name}
