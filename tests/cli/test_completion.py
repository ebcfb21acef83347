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
