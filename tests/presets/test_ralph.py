"""`preset=ralph`, as a user runs it: files that outlive a kill, and commands that read them."""

import json
import os
import signal
import subprocess
import sys

import pytest

from reflexion_lab.runner.folder.folder import RunFolder
from tests.builders import TABLES


@pytest.fixture
def lab(tmp_path):
    """Run a command in a folder of its own; `kill`: the call of the model at which the process is killed."""
    (tmp_path / "mortal.py").write_text(TABLES["mortal_model"])
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TABLES["mortal_task"]))

    def run(*words, kill=0):
        (tmp_path / "calls.txt").unlink(missing_ok=True)
        command = [sys.executable, "-m", "reflexion_lab.cli.main", *map(str, words)]
        environment = os.environ | {"KILL": str(kill), "PYTHONPATH": str(tmp_path)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


RUN = (
    "run", "preset=ralph", "~model", "+model._target_=mortal.Model", "actor=single_shot", "benchmark=tasks.jsonl",
    "evaluator=unit_tests", "recall.omega=3", "tracker=none", "quiet=true", "cache.mode=off", "loop.max_attempts=4",
)  # fmt: skip


@pytest.mark.parametrize("edit", [False, True])
def test_a_killed_loop_continues_from_its_files_without_a_call_cache(lab, tmp_path, edit):
    killed = lab(*RUN, kill=5)  # the third program
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (folder,) = (tmp_path / "runs").glob("2*")
    files = sorted(tmp_path.glob("runs/reflections/*/*.json"))
    assert [file.name for file in files] == ["001.json", "002.json"]
    if edit:
        content = json.loads(files[1].read_text())
        content["self_reflection"]["actionable_insights"] = ["In my function I will return sum(x)"]
        files[1].write_text(json.dumps(content))
    before = [file.read_bytes() for file in files]
    first = RunFolder(folder).attempts["sum"]
    assert lab(*RUN, f"resume={folder}").returncode == 0
    assert len((tmp_path / "calls.txt").read_text()) == 2 + 2
    attempts = RunFolder(folder).attempts["sum"]
    assert [attempt.number for attempt in attempts] == [1, 2, 3, 4]
    assert [a.trajectory.solution for a in attempts[:2]] == [a.trajectory.solution for a in first]
    prompt = attempts[2].trajectory.messages[-1].content
    assert first[0].reflection.what_to_change in prompt
    assert (first[1].reflection.what_to_change in prompt) == (not edit)
    assert ("return sum(x)" in prompt) == edit
    assert [a.reflection.source for a in attempts] == ["llm", "edited" if edit else "llm", "llm", "llm"]
    kept = [files[0], files[1].parent / "earlier-1" / "002.json" if edit else files[1]]
    assert [file.read_bytes() for file in kept] == before
    assert lab("verify", folder).returncode == 0
