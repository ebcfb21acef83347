"""A folder of a day's runs: broken and unfinished ones beside whole ones."""

import shutil
import warnings
from pathlib import Path

import pytest

import reflexion_lab as rl
from reflexion_lab.cli.main import main
from reflexion_lab.errors import FolderError
from reflexion_lab.records import Provenance
from reflexion_lab.runner.config.build import plain
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from tests.analysis.conftest import BASE, WORDS, run_writer


@pytest.fixture
def day(write_run, tmp_path, monkeypatch):
    """Two arms over two seeds in `runs`, and a writer of further runs there."""
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    write = run_writer(write_run, tmp_path / "runs")
    for arm, verdicts in (("feedback_only", BASE), ("words", WORDS)):
        for seed in (7, 8):
            write(arm, verdicts, seed)
    return write


BREAKAGES = {
    "manifest.json": ("{", "Not read: runs/broken manifest.json/manifest.json: Input data was truncated"),
    "results.jsonl": ('{"task_id": 3}\n', "Not read: runs/broken results.jsonl/results.jsonl, line 1: Expected `str`"),
    "attempts.jsonl": ("\0\n", "Not read: runs/broken attempts.jsonl/results.jsonl: got no attempt at a, which has"),
    "grades.jsonl": (
        "",
        "Left out: unfinished run ungraded: got attempts without a hidden verdict, expected all of them",
    ),
}
DOORS = {
    "compare": lambda: main(["compare", "runs"]),
    "compare a pattern": lambda: main(["compare", "runs/*"]),
    "report": lambda: main(["report", "runs", "--out", "out"]),
    "pages": lambda: main(["report", "runs", "--html", "--out", "out"]),
    "track": lambda: main(["track", "runs", "--arms"]),
    "rl.load": lambda: rl.load("runs"),
    "rl.compare": lambda: rl.compare("runs"),
    "rl.plot": lambda: rl.plot.curves("runs"),
}


@pytest.mark.parametrize("door", DOORS)
def test_broken_runs_are_named_and_left_out(day, capsys, door):
    for name, (text, _) in BREAKAGES.items():
        folder = day("words", WORDS, 9, run_id="ungraded").path.rename(f"runs/broken {name}")
        (folder / name).write_text(text)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert DOORS[door]() != 2
    messages = "\n".join([capsys.readouterr().err, *(str(warning.message) for warning in warned)])
    kept = [] if door not in ("rl.load", "pages") else ["grades.jsonl"]  # they show unfinished runs, too
    for name, (_, message) in BREAKAGES.items():
        assert (message in messages.replace(f"{Path.cwd()}/", "")) == (name not in kept)
    if door == "report":
        assert any(
            "LEFT OUT: unfinished or not readable: broken" in path.read_text() for path in Path("out").rglob("*.html")
        )


@pytest.mark.parametrize("kind", ["empty", "no manifest", "torn", "cut off"])
def test_what_is_left_of_a_run_is_named(day, capsys, kind):
    name = "20260101-000000-000000-words-toy-s9"
    whole = day("words", WORDS, 9, run_id=name).path.rename(f"runs/{name}")
    results = (whole / "results.jsonl").read_bytes()
    if kind == "empty":
        shutil.rmtree(whole)
        whole.mkdir()
    elif kind == "no manifest":
        (whole / "manifest.json").unlink()
    else:
        (whole / "results.jsonl").write_bytes(results[:-40] if kind == "torn" else results[: results.index(b"\n") + 1])
    expected = {"torn": "got 3 of 4 tasks, and 1 torn line, expected", "cut off": "got 1 of 4 tasks, expected"}.get(
        kind, "got no manifest.json"
    )
    assert main(["compare", "runs"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("warning:") == 1 and name in printed.err and expected in printed.err
    if "tasks" in expected:
        assert f"warning: Left out: unfinished run {name}" in printed.err
        assert f"finish it with the same command and resume=runs/{name}" in printed.err
    assert "words" in printed.out
    assert main(["compare", f"runs/{name}"]) == 2
    assert expected in capsys.readouterr().err


def test_the_newest_run_is_the_newest_that_can_be_read(day, capsys):
    for number, text in enumerate(("", "{", "[]")):
        folder = day("words", WORDS, number).path.rename(f"runs/2026010{number}-000000-000000-words-toy-s9")
        (folder / "manifest.json").write_text(text or (folder / "manifest.json").read_text())
    assert main(["show", "--last"]) == 0
    printed = capsys.readouterr()
    assert "seed 0" in printed.out and printed.err.count("Not read") == 2


def test_a_folder_of_broken_runs_is_an_error_and_verify_reads_around_none(day, capsys):
    for path in map(RunFolder, sorted(rl.runs().runs[0].path.parent.iterdir())[1:]):
        (path.path / "manifest.json").write_text("{")
    assert main(["verify", "runs/*"]) == 2
    (rl.runs().runs[0].path / "manifest.json").write_text("{")
    with pytest.raises(FolderError, match="Input data was truncated"):
        rl.compare("runs")
    assert "no runs in runs/" in rl.runs().sheet.title and rl.runs().sheet.caption.count("Not read: ") == 4


@pytest.mark.parametrize("is_typed", [True, False], ids=["typed", "by an earlier version"])
@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["retriever=jaccard", "retriever=embedding", "retriever=hybrid"], ["jaccard", "embedding", "hybrid"]),
        (["curator=none", "curator=expel", "curator=shuffled"], ["none", "expel", "shuffled"]),
        (["reflector=llm", "reflector=llm_json"], ["llm", "llm_json"]),
        (["prompts=terse", "prompts=paper_style", "prompts=default"], ["terse", "paper_style", "default"]),
        (["model=vllm model.model=a", "model=ollama model.model=b"], ["vllm", "ollama"]),
        (["curator=none recall.omega=0", "curator=ace recall.omega=0", "curator=ace recall.omega=2"],
         ["none Ω0", "ace Ω0", "ace Ω2"]),
        (["reflector=none critic=lint", "reflector=rules critic=lint", "reflector=rules critic=llm"],
         ["lint none", "lint rules", "llm rules"]),
        (["curator=none reflector=none", "curator=ace reflector=none", "curator=ace reflector=llm"],
         ["c=none r=none", "c=ace r=none", "c=ace r=llm"]),
        (["curator=shuffled", "curator=shuffled curator@curator.first=memento"],
         ["first=raw_trajectories", "first=memento"]),
        (["retriever=bm25", "retriever=bm25 retriever.k1=2"], ["k1=1.5", "k1=2"]),
        (["retriever=bm25", "retriever=bm25 retriever._target_=own.Mine"], ["bm25", "Mine"]),
    ],
    ids=lambda value: value[-1] if "=" in value[-1] else "",
)  # fmt: skip
def test_arms_have_the_names_that_were_typed(day, cells, names, is_typed):
    runs = []
    for words in map(str.split, cells):
        overrides = tuple(words) if is_typed and "own" not in words[-1] else ()
        config, origin = plain(compose(*words)), Provenance(overrides=overrides)
        runs.append(day("reflexion", BASE, config=config, provenance=origin))
    assert [row.arm for row in rl.compare(runs, one_seed=True).comparison.short.rows] == names
