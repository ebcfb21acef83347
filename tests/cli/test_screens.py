"""Commands answer first, in one screen: at most 15 lines of at most 80 columns, and of 60 in a narrow terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import reflexion_lab as rl
from reflexion_lab.analysis.comparison.grouping import shared_words, short_names
from reflexion_lab.cli.main import main
from reflexion_lab.runner.config.choices import options
from reflexion_lab.runner.folder.folder import folders

SMALL = ("model=simulated", "model.first=0.45", "actor=single_shot", "temperature=0.8", "tracker=none")
SMALL += ("benchmark.limit=8",)
SWEEP = ("run", "-m", "recall.omega=0,1,2", "loop.max_attempts=2,4", "seed=0,1", "run_root=swept", *SMALL)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with runs of `reflexion` and `retry` in `runs/`, and a sweep of six arms over two seeds in `swept/`."""
    path, here = tmp_path_factory.mktemp("screens"), Path.cwd()
    os.chdir(path)
    try:
        for experiment in ("reflexion", "retry"):
            rl.run(f"experiment={experiment}", *SMALL, quiet=True)
        rl.sweep([*SWEEP[2:]], quiet=True)
    finally:
        os.chdir(here)
    return path


@pytest.fixture
def answer(work, monkeypatch, capsys):
    """What a command prints in a terminal of so many columns."""
    monkeypatch.chdir(work)

    def run(*words, columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main([*words]) == 0
        return capsys.readouterr().out.splitlines()

    return run


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize(
    ("words", "answer_line", "expected"),
    [
        (("show", "reflexion"), 2, "pass@1  87.5 % [52.9, 97.8], 7 of 8 tasks"),
        (("show", "--last"), 2, "pass@1  50.0 %"), (("compare", "runs"), 3, "87.5 [52.9, 97.8]"),
        (("compare", "--last", "2"), 3, "87.5 [52.9, 97.8]"),
        (("compare", "swept"), 5, "31.2 [14.2, 55.6]"), (SWEEP, 5, "31.2 [14.2, 55.6]"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else None,
)  # fmt: skip
def test_the_answer_stands_in_one_screen(answer, words, answer_line, expected, columns):
    lines = answer(*words, columns=columns)
    place = next(number for number, line in enumerate(lines) if expected in line)
    assert place <= answer_line + 2 * (columns == 60), "headings of two lines in a narrow terminal"
    assert len(lines) <= 15 + (3 + (columns == 60)) * (words is SWEEP), "a sweep adds its calls and its folder"
    longest = max((line for line in lines if "older: " not in line), key=len)
    assert len(longest) <= columns, longest


def test_a_run_ends_with_its_screen(answer):
    lines = answer("run", "experiment=reflexion", *SMALL, "run_root=other")
    assert lines[1].startswith("pass@1  87.5 % [52.9, 97.8], 7 of 8 tasks")
    assert any(line.startswith("model calls: ") for line in lines)
    assert len(lines) <= 15


def test_a_task_is_shown_with_its_differences_checks_and_words(answer, work):
    text = "\n".join(answer("show", "reflexion-basics", "count_from"))
    for part in ("3 attempts", "hidden tests: passed", "failing check: assert count_from(", "reflection (llm): ",
                 "to change: ", "read: episode", "program: diff to attempt 1: ", "+ # wrong draft"):  # fmt: skip
        assert part in text, part
    (run,) = folders(*work.glob("runs/*-reflexion-*"))
    assert str(rl.view(run, task="count_from")) == text, "a notebook without HTML shows the same"
    whole = "\n".join(answer("show", "reflexion-basics", "count_from", "--full"))
    assert "more lines: --full" not in whole and "…" not in whole
    for attempt in next(own for name, own in run.attempts.items() if "count_from" in name):
        for words in (*(message.content for message in attempt.trajectory.messages), attempt.trajectory.reply):
            assert "\n".join(f"    {line}".rstrip() for line in words.split("\n")) in whole


def test_the_choices_of_a_group_are_listed(answer, capsys):
    assert any(line.startswith("retriever: bm25, embedding, ") for line in answer("run", "--choices"))
    lines = answer("run", "--choices", "retriever", "stop", "model")
    names = [f"{group}={name}: " for group in ("retriever", "stop", "model") for name in options(group)]
    assert [line[: line.index(": ") + 2] for line in lines if line[0] != " "] == names and max(map(len, lines)) <= 80
    assert main(["run", "--choices", "recall.omega"]) == 2
    assert "--choices: got 'recall.omega', expected a group: actor, " in capsys.readouterr().err


def test_a_baseline_is_a_control_and_the_reason_is_printed(answer):
    title = "difference to retry (repeated draws without feedback); exploratory; room to lose"
    assert title in answer("compare", "runs")
    assert any(line.startswith("difference to reflexion (as asked)")
               for line in answer("compare", "runs", "--baseline", "reflexion"))  # fmt: skip


def test_with_many_arms_each_line_names_the_budget_of_its_difference(answer):
    wide, narrow = answer("compare", "swept", columns=140), answer("compare", "swept", columns=60)
    assert len(max(wide, key=len)) <= 80
    (row,) = (line for line in wide if line.startswith("a4 Ω1"))
    assert "75.0 [50.5, 89.8] attempts: 2 +18.8 [" in " ".join(row.split())
    assert any(line.startswith("difference to a2 Ω0 (the first arm); exploratory") for line in wide)
    assert any(line.startswith("a4 Ω1") and "attempts: 2" in line for line in narrow)


def test_cells_without_a_run_are_counted(work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    (sweep,) = work.glob("swept/sweeps/*-*")
    lost = next(work.glob("swept/2*-reflexion-basics-s1"))
    lost.rename("elsewhere")
    try:
        assert main(["compare", str(sweep)]) == 0
    finally:
        Path("elsewhere").rename(lost)
    assert "1 of 12 cells have no run" in capsys.readouterr().err


def test_names_of_arms_leave_out_what_all_share():
    labels = [f"reflexion loop.max_attempts={a} recall.omega={o}" for a in (2, 4) for o in (0, 1)]
    assert list(short_names(labels).values()) == ["a2 Ω0", "a2 Ω1", "a4 Ω0", "a4 Ω1"]
    assert short_names(["reflexion", "retry"]) == {"reflexion": "reflexion", "retry": "retry"}
    assert short_names(["reflexion"]) == {"reflexion": "reflexion"}
    assert list(short_names(["a x.k=1", "a y.k=1"]).values()) == ["x.k=1", "y.k=1"], "k alone would be two keys"
    assert shared_words(labels) == "All arms: reflexion; a: loop.max_attempts, Ω: recall.omega."
    assert shared_words(["retry recall.k=1", "reflexion recall.k=2"]) == "k: recall.k."
    assert shared_words(["reflexion", "retry"]) == shared_words(["reflexion"]) == ""


def test_a_closed_pipe_is_silence(work):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    line = ["bash", "-c", f"set -o pipefail; {sys.executable} -m reflexion_lab compare runs --full | head -c 1"]
    ended = subprocess.run(line, cwd=work, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1, 141) and ended.stderr == "", "1: of rich; 141: of the lab"


def test_a_run_and_a_sweep_print_json(answer):
    (line,) = answer("run", "--json", "experiment=reflexion", *SMALL)
    result = json.loads(line)
    assert (result["pass_at_1"]["k"], result["pass_at_1"]["n"]) == (7, 8)
    (shown,) = answer("show", result["run_id"], "--json")
    assert json.loads(shown) == result
    answer("bundle", result["run_id"])
    (replayed,) = answer("replay", f"runs/bundles/{result['run_id']}.bundle.zip", "--json")
    assert json.loads(replayed)["agrees"] is True

    (line,) = answer(*SWEEP, "--json")
    swept = json.loads(line)
    assert [cell["status"] for cell in swept["cells"]] == ["kept"] * 12
    assert swept["cells"][1]["overrides"][:3] == ["recall.omega=0", "loop.max_attempts=2", "seed=1"]
    (comparison,) = answer("compare", swept["folder"], "--json")
    assert len(json.loads(comparison)["arms"]) == 6


def test_short_names_take_names_and_values_whole():
    ladders = [f"warming actor.temperatures=[0.0, {second}, 0.4]" for second in (0.2, 0.6)]
    assert list(short_names(ladders).values()) == ["temperatures=[0.0, 0.2, 0.4]", "temperatures=[0.0, 0.6, 0.4]"]
    names = ["no reflection", "reflection"]
    assert list(short_names(names).values()) == names
    assert shared_words(names) == ""
