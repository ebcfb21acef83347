"""The scripts as somebody runs them: in a process of their own, from the project's folder."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = re.findall(
    r"`python -m (experiments\._tools\.\S+)`", (ROOT / "experiments" / "_tools" / "README.md").read_text()
)


def test_every_script_is_in_the_list():
    modules = (ROOT / "experiments" / "_tools").glob("*.py")
    assert {path.stem for path in modules if "\nif __name__ ==" in path.read_text()} == {
        name.rpartition(".")[2] for name in SCRIPTS
    }


@pytest.mark.parametrize("script", [name for name in SCRIPTS if not name.endswith(".index")])  # which takes no file
def test_a_script_has_help_and_reports_errors_in_one_line(script):
    def output(*arguments):
        line = [sys.executable, "-m", script, *arguments]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)

    assert f"usage: python -m {script}" in output("--help").stdout
    wrong = output("absent.jsonl")
    assert wrong.returncode == 2
    assert wrong.stderr.replace("'", "").startswith("error: absent.jsonl: ") and wrong.stderr.count("\n") == 1


def commands():
    """Commands of the lab in the scripts of experiments, but `run`, whose overrides Hydra parses."""
    for path in sorted((ROOT / "experiments").glob("*/run.sh")):
        for command in re.findall(r"reflexion-lab (?!run\b)(.*)", path.read_text().replace("\\\n", " ")):
            yield pytest.param(re.split(r" *(?:&&|;|\||>)", command)[0], id=f"{path.parent.name}: {command[:40]}")


@pytest.mark.parametrize("command", [*commands()])
def test_the_commands_of_an_experiment_are_those_of_today(command):
    from reflexion_lab.cli.main import parser

    words = shlex.split(re.sub(r"\$\w+", "1", command), comments=True)  # any value, also where a number is due
    assert parser().parse_args(words).command
