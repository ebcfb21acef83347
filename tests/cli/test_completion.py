"""Completion in a shell, and the nearest choice in an error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reflexion_lab.cli.main import main


def test_bash_completes_by_the_script_that_is_printed(tmp_path):
    wrapper = tmp_path / "reflexion-lab"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reflexion_lab "$@"\n')
    wrapper.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(Path(__file__).parents[2])}
    program = """
source <(reflexion-lab completion bash)
function_=$(complete -p reflexion-lab | sed 's/.*-F \\([^ ]*\\).*/\\1/')
completed() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); $function_; echo "${COMPREPLY[@]}"; }
completed reflexion-lab comp
completed reflexion-lab study re
completed reflexion-lab memory show --js
"""
    ran = subprocess.run(["bash", "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["compare completion", "register", "--json"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script_too(shell, capsys):
    assert main(["completion", shell]) == 0
    assert "lint-dataset" in capsys.readouterr().out


def test_a_misspelt_choice_is_answered_with_the_nearest(capsys):
    for words, near in ((["shwo"], "show"), (["completion", "bsh"], "bash")):
        with pytest.raises(SystemExit):
            main(words)
        assert f"did you mean {near!r}?" in capsys.readouterr().err


@pytest.mark.parametrize(("word", "hint"), [
    ("modle=simulated", "did you mean 'model'?"), ("experimnt=retry", "did you mean 'experiment'?"),
    ("presett=helix", "did you mean 'preset'?"), ("max_attempts=3", "did you mean 'loop.max_attempts'?"),
    ("actor.sampling.temprature=1", "did you mean 'actor.sampling.temperature'?"), ("embedder.wings=3", ""),
    ("foo=1", ""), ("model=gpt-4o-mini", "did you mean model=openai/gpt-4o-mini?"),
    ("model=Qwen/Qwen2.5-7B", "did you mean model=vllm/Qwen/Qwen2.5-7B?"), ("reflector=a/b", "files of your own"),
])  # fmt: skip
def test_an_unknown_key_or_choice_is_answered_with_what_is_near_alone(word, hint, capsys):
    assert main(["run", word]) == 2
    error = capsys.readouterr().err
    assert hint in error and (hint or "did you mean" not in error)
