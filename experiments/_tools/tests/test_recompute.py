"""Every experiment with an `analysis.py`: its table and README are those of its evidence, to the last digit."""

import functools
import importlib
import random
import re
import shutil
from pathlib import Path

import pytest

from experiments._tools import index, prompts
from experiments._tools.evidence import CASES
from experiments._tools.recompute import README, differences, main
from reflexion_lab.analysis.comparison.cases import load_cases
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.studies.replay import bundle

FOLDER = Path(__file__).parents[3] / "experiments"
STUDIES = sorted(path.parent.name for path in FOLDER.glob("*/analysis.py"))
LONG = ("recorded_runs_compared", "failures_classified", "retrieval_compared")
"""Studies whose tables take seconds."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in STUDIES])
def test_table_and_readme_are_those_of_the_evidence(name, tmp_path, capsys):
    copy = Path(shutil.copytree(FOLDER / name, tmp_path / name))
    texts = importlib.import_module(f"experiments.{name}.analysis").compute(FOLDER / name)

    def run(*words):
        code = main(str(copy / "analysis.py"), lambda _: texts, words)
        return code, capsys.readouterr().out

    code, printed = run("--check")
    assert code == 0 and "agree with the evidence" in printed, printed

    path = copy / README
    text = path.read_text(encoding="utf-8")
    digit = random.Random(name).choice(list(re.finditer(r"\d", text)))
    altered = str((int(digit[0]) + 1) % 10)
    path.write_text(text[: digit.start()] + altered + text[digit.end() :], encoding="utf-8")
    line = text.count("\n", 0, digit.start()) + 1
    code, printed = run("--check")
    assert code == 1 and f"{name}/{README}, line {line}: got " in printed, printed

    for written in texts:
        (copy / written).write_text("another text", encoding="utf-8")
    assert run()[0] == run("--check")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*/*.bundle.zip")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
@pytest.mark.soak
def test_a_bundle_beside_an_experiment_has_its_verdicts_on_the_prompts_of_today(path, tmp_path):
    """Loops run again on their recorded replies: hidden verdicts as recorded, which are those of the cases."""
    differing = prompts.differing(path)
    row = f"| {path.parent.name} | {path.name.removesuffix('.bundle.zip')} | {len(differing)} | {sum(differing)} |"
    assert row in (FOLDER / README).read_text(encoding="utf-8").splitlines()
    bundle.unpack(bundle.read(path)[1], tmp_path / "run")
    (recorded,) = arms([tmp_path / "run"])
    evidence = [path.parent / CASES, *path.parent.glob("omega.csv.gz")]
    published = next(arm for file in evidence for arm in load_cases(file) if arm.label == recorded.label)
    for attempts in (None, 1):
        assert recorded.verdicts(attempts).items() <= published.verdicts(attempts).items()
    assert {case.task_id for case in recorded.verdicts()} == {*published.tasks}


def test_answers_of_the_overview_are_those_of_the_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "answer_of", functools.cache(index.answer_of))
    assert index.main(["--check"]) == 0
    lines = (FOLDER / README).read_text(encoding="utf-8").split("\n")
    named = {number: match for number, line in enumerate(lines, 1) if (match := index.LINE.fullmatch(line))}
    computed = {number: index.answer_of(match["name"]) for number, match in named.items()}
    assert {named[number]["name"] for number, row in computed.items() if row} >= {"failures_classified", "uptake"}
    for number, row in computed.items():
        if row:
            digit = re.search(r"\d", row.answer)[0]
            altered = row.answer.replace(digit, str((int(digit) + 1) % 10), 1)
            lines[number - 1] = lines[number - 1].replace(row.answer, altered)
    (tmp_path / README).write_text("\n".join(lines), encoding="utf-8")
    expected = index.compute(tmp_path)[README]
    problems = list(differences(tmp_path / README, expected))
    assert [int(re.search(r"line (\d+)", line)[1]) for line in problems] == [n for n, row in computed.items() if row]


@pytest.mark.parametrize(
    ("published", "computed", "expected"),
    [
        ("rate 38.3 %", "rate 38.4 %", ["line 1: got 38.3, expected 38.4"]),
        ("a\nb\nc", "a\nc", ["line 2: got 'b', expected 'no such line'"]),
        ("a\nc", "a\nb\nc", ["line 2: got 'no such line', expected 'b'"]),
        ("−1.7 [−6.7, +3.9]", "−1.7 [−6.8, −3.9]", ["line 1: got −6.7,, expected −6.8,; got +3.9, expected −3.9"]),
        ("same", "same", []),
    ],
)
def test_a_difference_names_line_and_figure(tmp_path, published, computed, expected):
    path = tmp_path / "table.csv"
    path.write_text(published, encoding="utf-8")
    assert [line.partition(", ")[2] for line in differences(path, computed)] == expected
