"""A folder of a day's runs: broken and unfinished ones beside whole ones."""

import fcntl
import json
import re
import shutil
import threading
import warnings
from pathlib import Path

import msgspec
import pytest

import reflexion_lab as rl
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.run_list import model_names
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import summary
from reflexion_lab.cli.main import main
from reflexion_lab.errors import FolderError
from reflexion_lab.records import Provenance
from reflexion_lab.runner.config.build import plain
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import LOCK, RunFolder
from tests.analysis.conftest import BASE, WORDS, run_writer
from tests.builders import TABLES, manifest


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
        warning = "LEFT OUT: unfinished, not readable, or equal to another run: broken"
        assert any(warning in path.read_text() for path in Path("out").rglob("*.html"))


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


@pytest.mark.parametrize("words", [["show"], ["show", "--full"], ["compare"], ["report", "--html"], ["track"]], ids=str)
def test_a_name_that_no_run_has_is_answered_with_the_newest(day, capsys, words):
    assert main([words[0], "nothere", *words[1:]]) == 2
    newest = max(path.name for path in Path("runs").iterdir())
    message = f"nothere: no run in runs/ has that in its name\n  the newest is {newest}; `reflexion-lab runs` lists"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("name", "content"), [("a.csv", None), ("b.csv.gz", b"arm"), ("c.csv", b"\x86")], ids=str)
def test_cases_that_cannot_be_read_are_an_error_in_one_line(tmp_path, capsys, name, content):
    path = tmp_path / name
    if content:
        path.write_bytes(content)
    assert main(["compare", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {path}: got ") and line.endswith(", expected a cases.csv")


def test_a_folder_of_broken_runs_is_an_error_and_verify_reads_around_none(day, capsys):
    for path in map(RunFolder, sorted(rl.runs().runs[0].path.parent.iterdir())[1:]):
        (path.path / "manifest.json").write_text("{")
    assert main(["verify", "runs/*"]) == 2
    (rl.runs().runs[0].path / "manifest.json").write_text("{")
    with pytest.raises(FolderError, match="Input data was truncated"):
        rl.compare("runs")
    assert "no runs in runs/" in rl.runs().sheet.title and rl.runs().sheet.caption.count("Not read: ") == 4


@pytest.mark.parametrize("is_typed", TABLES["typed names of arms"], ids=["typed", "by an earlier version"])
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
    assert [row.arm for row in rl.compare(runs).comparison.short.rows] == names


MODEL = {"config": {"arm": "words", "model": {"model": "x"}}}
OTHER, *ODD = (
    {"benchmark": name, "benchmark_digest": "b", "config": {"arm": "words", "benchmark": {"name": name}}}
    for name in ("other", "jsonl", "a,b")
)


@pytest.mark.parametrize(
    ("fields", "arms", "message"),
    [
        ({}, {"words": "62.5"}, "seed) is newer, or the first of its study: words-s7"),
        ({"n_expected": 9}, {"words": "75.0"}, "Left out: unfinished run again"),
        *((of, {"toy · 4 tasks x 2 seeds": "", f"{of['benchmark']} · 4 tasks": ""}, "") for of in (OTHER, *ODD)),
        (MODEL, {"words model=None": "75", "words model=x": "50"}, ""),
    ],
)
def test_trials_of_a_day_are_compared(day, capsys, fields, arms, message):
    day("words", BASE, 7, **{"run_id": "again", "created_at": "2026-01-02T00:00:00Z"} | fields)
    assert main(["compare", "runs"]) == 0
    out, err = capsys.readouterr()
    assert message in err and err.count("warning:") == bool(message)
    for start, rate in arms.items():
        assert any(line.startswith(start) and rate in line for line in out.splitlines()), out
    if fields is OTHER:
        assert main(["compare", "runs", "--csv", "cases.csv"]) == 2
        assert "--where benchmark=NAME, or " in capsys.readouterr().err


def test_of_repeated_runs_the_first_of_a_study_counts(day):
    times = [{"run_id": f"r{n}", "created_at": f"2026-01-0{n}T00:00:00Z"} for n in range(1, 5)]
    runs = [day("words", BASE, 9, **of, study_digest=study) for of, study in zip(times, ("", *"ss", ""), strict=True)]
    with pytest.warns(UserWarning, match="Left out: .* r1, r3, r4"):
        (arm,) = arms(runs)
    assert [log.manifest.run_id for log in arm.whole] == ["r2"]


@pytest.mark.parametrize("fields", [{"model_fingerprint": "w"}, {"prompt_digests": {"actor": "p"}}])
def test_runs_of_other_models_or_prompts_are_no_repetition(day, fields, capsys):
    day("words", BASE, 7, run_id="again", created_at="2026-01-02T00:00:00Z", **fields)
    assert main(["compare", "runs"]) == 2
    assert "two runs of seed 7, " in capsys.readouterr().err


def test_a_benchmark_that_cannot_be_compared_hides_no_other(day, capsys):
    for seed in (7, 8):
        day("words", BASE, seed, run_id=f"other{seed}", **OTHER)
    assert main(["compare", "runs", "--baseline", "feedback_only"]) == 2
    out, err = capsys.readouterr()
    assert "toy · 4 tasks" in out and "other: not compared, for the error below" in out
    assert "baseline" in err and "baseline" not in out


@pytest.fixture
def trials(day):
    """Eight runs in `runs` in place of those of `day`: finished ones of two models and benchmarks, and three others."""
    shutil.rmtree("runs")
    Path("runs").mkdir()
    model = {"openai": {"model": {"model": "gpt-4o-mini"}}, "simulated": {}}
    rows = [
        ("reflexion", "openai", "basics", {}, 7),
        ("reflexion", "openai", "basics", {}, 8),
        ("reflexion", "openai", "basics", {"recall": {"omega": 3}}, 7),
        ("retry", "simulated", "humaneval", {"temperature": 0.8, "critic": {"_target_": "own.Critic", "n": 1}}, 7),
        ("oracle", "simulated", "humaneval", {"critic": {"_target_": "own.Critic", "n": 2}}, 7),
        ("reflexion", "openai", "humaneval", {}, 1),
        ("reflexion", "openai", "humaneval", {}, 2),
    ]
    folders = []
    for n, (arm, name, benchmark, config, seed) in enumerate(rows):
        whole = {"arm": arm, "recall": {"omega": 1}} | model[name] | config
        feedback = "oracle" if arm == "oracle" else "visible"
        fields = {"config": whole, "benchmark": benchmark, "model_fingerprint": f"{name}:1"}
        fields["provenance"] = Provenance(overrides=(f"critic={arm}",))
        n_expected = 4 + 2 * (seed < 7)
        folders.append(day(arm, BASE, seed, n_expected=n_expected, feedback_source=feedback, **fields))
        folders[-1].path = folders[-1].path.rename(f"runs/2026010{n // 2}-12000{n}-00000{n}-{arm}-s{seed}")
        if seed >= 7:
            folders[-1].write_json("summary.json", msgspec.to_builtins(summary(Log.read(folders[-1]))))
    Path("runs/20260109-120000-000000-retry").mkdir()
    return folders


def test_a_run_starts_while_another_process_lists_runs(trials):
    with (trials[-1].path / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # as `runs` does, there for an instant
        threading.Timer(0.2, file.close).start()
        with trials[-1].held():
            assert file.closed


def test_runs_are_listed_newest_first_with_settings_and_state(trials, capsys, monkeypatch):
    with trials[-1].held():
        assert main(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [" | ".join(re.split("  +", line)) for line in lines[:9]] == [
        "run | arm | model | benchmark | settings | pass@1 (n)",
        "20260109-120000 | broken",
        "20260103-120006 | reflexion | gpt-…mini | humaneval | s2 | running 4/6",
        "20260102-120005 | reflexion | gpt-…mini | humaneval | s1 | stopped 4/6",
        "20260102-120004 | oracle | simulated | humaneval | s7 | UPPER BOUND 50.0 (4)",
        "20260101-120003 | retry | simulated | humaneval | s7 | 50.0 (4)",
        "20260101-120002 | reflexion | gpt-…mini | basics | s7 Ω3 | 50.0 (4)",
        "20260100-120001 | reflexion | gpt-…mini | basics | s8 | 50.0 (4)",
        "20260100-120000 | reflexion | gpt-…mini | basics | s7 | 50.0 (4)",
    ]
    text = " ".join(map(str.strip, lines[9:]))
    assert text.startswith("Not read: runs/20260109-120000-000000-retry: got no manifest")
    assert max(map(len, lines)) <= 80
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["runs", "--limit", "2"]) == 0
    narrow = capsys.readouterr().out.splitlines()
    assert max(map(len, narrow[:3])) <= 60 and narrow[-1] == "2 runs of 8; all: --limit 0"
    table = rl.runs().sheet
    assert table.columns == ("run", "arm", "model", "benchmark", "settings", "pass@1 (n)")
    assert [row[0] for row in table.rows] == [line.split()[0] for line in lines[1:9]]
    assert table.rows[1][2] == "gpt-4o-mini"
    assert table.rows[-1][-1] == "50.0 (4) [15.0, 85.0]"
    for root, message, code in (("nowhere", "FOLDER: got 'nowhere', expected a folder", 2), ("out", "0 runs", 0)):
        Path("out").mkdir(exist_ok=True)
        assert main(["runs", root]) == code
        assert message in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("fingerprint", "name"),
    [
        ("llama_cpp:Qwen2-0.5B.Q4_1.gguf:0a1b:context=2048", "Qwen2-0.5B.Q4_1"), ("simulated:7", "simulated"),
        ("scripted", "scripted"), ("", ""),
    ],
)  # fmt: skip
def test_a_model_without_a_name_in_its_config_has_that_of_its_weights(fingerprint, name):
    assert [*model_names(manifest("run", model_fingerprint=fingerprint))] == [name]


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        (["arm=retry"], [3]), (["recall.omega=3"], [2]), (["recall.omega=1.0,3", "benchmark=basics"], [0, 1, 2]),
        (["model=gpt-4o-mini", "seed=7"], [0, 2]), (["model=simulated", "temperature=.80"], [3]),
        (["critic=retry"], [3]), (["critic=oracle"], [4]),
        (["arm=nobody"], "where: got 'arm=nobody', expected a value that runs have: oracle, reflexion, retry"),
        (["recal.omega=3"], "a key of a run's config\n  did you mean 'recall.omega'?"),
        (["retry"], "where: got 'retry', expected KEY=VALUE"),
    ],
)  # fmt: skip
def test_runs_are_selected_by_their_settings(trials, capsys, conditions, found):
    options = [word for condition in conditions for word in ("--where", condition)]
    code = main(["runs", "--json", *options])
    printed = capsys.readouterr()
    mapping = dict(condition.split("=", 1) for condition in conditions if "=" in condition)
    if isinstance(found, str):
        assert code == 2 and found in printed.err
        assert main(["compare", "runs", *options]) == 2
        assert found in capsys.readouterr().err
        return
    names = sorted(trials[place].path.name for place in found)
    assert sorted(Path(run["folder"]).name for run in json.loads(printed.out)["runs"]) == names
    assert sorted(run.path.name for run in rl.runs(where=mapping).runs) == names
    assert rl.load("runs", where=mapping).runs.shape[0] == len(names)
    assert sum(len(arm.logs) for arm in rl.compare("runs", where=conditions).arms) == len(names)
    assert main(["report", "runs", "--html", "--out", "out", *options]) == 0
    assert sorted(path.stem for path in Path("out").iterdir()) == names
