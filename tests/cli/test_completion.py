"""Completion in a shell, and the nearest choice in an error."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reflexion_lab.cli.completion import SCRIPTS, candidates
from reflexion_lab.cli.main import main


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("reflexion-lab co", ["compare", "completion"]),
        ("reflexion-lab run act", ["actor="]),
        ("reflexion-lab run model=smollm2 actor=si", ["actor=single_shot"]),
        ("reflexion-lab run model@roles.reflector=ope", ["model@roles.reflector=openai"]),
        ("reflexion-lab study re", ["register"]),
        ("reflexion-lab memory show --js", ["--json"]),
        ("reflexion-lab show 2026", ["20261125-1-reflexion-basics-s0"]),
        ("reflexion-lab doctor 2026", []),
        ("reflexion-lab nothing x", []),
    ],
)
def test_the_words_that_may_follow(line, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "20261125-1-reflexion-basics-s0").mkdir(parents=True)
    (tmp_path / "runs" / "20261125-1-reflexion-basics-s0" / "manifest.json").touch()
    assert candidates(line) == words


def test_every_command_and_group_is_there():
    assert {"run", "show", "compare"} <= set(candidates("reflexion-lab "))
    assert {"actor=", "benchmark=", "preset="} <= set(candidates("reflexion-lab run "))


def test_bash_completes_by_the_script_that_is_printed(tmp_path):
    wrapper = tmp_path / "reflexion-lab"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reflexion_lab "$@"\n')
    wrapper.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(Path(__file__).parents[2])}
    program = (
        "source <(reflexion-lab completion bash); complete -p reflexion-lab; "
        "COMP_LINE='reflexion-lab run actor=si and more' COMP_POINT=26; _reflexion_lab; echo ${COMPREPLY[@]}"
    )
    ran = subprocess.run(["bash", "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "single_shot"
    assert "-F _reflexion_lab reflexion-lab" in ran.stdout


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_the_script_for_zsh_can_be_read():
    assert subprocess.run(["zsh", "-n"], input=SCRIPTS["zsh"], text=True, check=False).returncode == 0


def test_a_misspelt_choice_is_answered_with_the_nearest(capsys):
    for words, near in ((["shwo"], "show"), (["completion", "bsh"], "bash")):
        with pytest.raises(SystemExit):
            main(words)
        assert f"did you mean {near!r}?" in capsys.readouterr().err
