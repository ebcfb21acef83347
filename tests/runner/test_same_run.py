"""The same run is the same, whatever it is called: draws go by the ids of tasks, and four doors agree."""

import gzip
import json

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.runner.config.grid import cells
from reflexion_lab.runner.config.parts import load_benchmark
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.sweeps.running import sweep
from tests.studies.small_runs import chat_server

ROWS = [
    {
        "task_id": f"own/{n}", "prompt": f"def f{n}(x):\n", "entry_point": f"f{n}", "cluster": f"c{n // 2}",
        "visible_tests": [f"assert f{n}(1) == {n + 1}"], "hidden_tests": [f"assert f{n}(2) == {n + 2}"],
        "canonical_solution": f"    return x + {n}\n",
    }
    for n in range(6)
]  # fmt: skip
LINES = [json.dumps(row) for row in ROWS]
PLAIN = "\n".join(LINES).encode() + b"\n"
FORMS = {
    "another name": ("renamed.jsonl", PLAIN),
    "in a folder": ("there/tasks.jsonl", PLAIN),
    "line ends": ("tasks.jsonl", PLAIN.replace(b"\n", b"\r\n")),
    "byte order mark": ("tasks.jsonl", b"\xef\xbb\xbf" + PLAIN.rstrip()),
    "gzip": ("tasks.jsonl.gz", gzip.compress(PLAIN, mtime=7)),
}
OTHERS = {
    "order of rows": ("tasks.jsonl", "\n".join(LINES[::-1]).encode()),
    "corrected row": ("tasks.jsonl", PLAIN.replace(b"x + 3", b"3 + x")),
}
DRAWS = (
    "benchmark.sample=3",
    "benchmark.order=1",
    "benchmark.split={test: 0.5}",
    "benchmark.split={folds: 3, fold: 1}",
)
COMMON = ["model=simulated", "actor=single_shot", "tracker=none", "quiet=true", "seed=0"]


def written(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("form", [*FORMS.values(), *OTHERS.values()], ids=[*FORMS, *OTHERS])
@pytest.mark.parametrize("draw", DRAWS)
def test_a_task_is_drawn_by_its_id_alone(draw, form, tmp_path):
    paths = written(tmp_path, "tasks.jsonl", PLAIN), written(tmp_path / "other", *form)
    first, other = (load_benchmark(cells([f"benchmark={path}", draw])[0].cfg) for path in paths)
    assert {task.task_id for task in first} == {task.task_id for task in other}
    assert first.held_out == other.held_out
    if form != OTHERS["order of rows"]:
        assert [task.task_id for task in first] == [task.task_id for task in other]


def cut(run):
    """The run as a kill leaves it after its first result."""
    path = run / "results.jsonl"
    path.write_text(path.read_text().partition("\n")[0] + "\n")
    for name in ("digests.json", "summary.json"):
        (run / name).unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("form", "is_same"),
    [*((form, True) for form in FORMS.values()), *((form, False) for form in OTHERS.values())],
    ids=[*FORMS, *OTHERS],
)
def test_resume_sweep_arms_and_compare_agree(form, is_same, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first, other = (
        f"benchmark={written(tmp_path, *it)}" for it in (("a/tasks.jsonl", PLAIN), (f"b/{form[0]}", form[1]))
    )
    swept = sweep([first, *COMMON, "run_root=runs"], quiet=True)
    (run,) = swept.runs
    (state,) = sweep([other, *COMMON, "run_root=./runs"], quiet=True).states.values()
    assert (state.status == "kept") is is_same
    assert main(["run", other, *COMMON[:-1], "seed=1", "run_root=more"]) == 0
    (later,) = (tmp_path / "more").glob("2*")
    capsys.readouterr()
    assert main(["run", other, *COMMON, "arm=words", "run_root=more"]) == 0
    (words,) = (tmp_path / "more").glob("2*-words-*")
    assert (main(["compare", str(run), str(words)]) == 0) is is_same
    capsys.readouterr()
    main(["compare", str(run), str(later)])
    arms = capsys.readouterr().out
    assert ("x 2 seeds" in arms) is is_same
    cut(run)
    assert (main(["run", other, *COMMON, "run_root=runs", f"resume={run}"]) == 0) is is_same
    assert len(RunFolder(run).results) == (6 if is_same else 1)


def compared(capsys, *folders):
    """The first screen of `compare`, its lines joined."""
    capsys.readouterr()
    assert main(["compare", *map(str, folders)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    return " ".join(" ".join(lines).split())


MEMORY = [
    "benchmark=basics",
    "benchmark.limit=4",
    "benchmark.load.seed=0",
    "store=sqlite",
    *COMMON[:-1],
    "run_root=runs",
]


def test_seeds_and_arms_that_began_with_different_memory_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    early = sweep([*MEMORY, "seed=0,1"], quiet=True)
    with pytest.warns(RuntimeWarning, match=r"what runs of seed 0, 1 stored.*seed=0,1,2 in one sweep"):
        late = sweep([*MEMORY, "seed=2"], quiet=True)
    held = f"{RunFolder(late.runs[0]).beginning.episodes} episodes"
    screen = compared(capsys, *early.runs, *late.runs)
    assert "MEMORY AT THE START differs in reflexion: nothing at seeds 0, 1; " + held in screen
    assert "at seed 2: one sweep over all seeds" in screen
    assert "MEMORY" not in compared(capsys, *early.runs)
    other = sweep([*MEMORY, "seed=0,1", "arm=words"], quiet=True)
    held = f"{RunFolder(other.runs[0]).beginning.episodes} episodes"
    assert f"differs between arms: reflexion with nothing; words with {held}" in compared(
        capsys, early.folder, other.folder
    )
    whole = sweep([*MEMORY, "seed=0,1,2"], quiet=True)
    assert [state.status for state in whole.states.values()] == ["kept", "kept", "done"]
    assert "MEMORY" not in compared(capsys, whole.folder)


def test_a_cost_that_adds_two_price_lists_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "placeholder")
    keys = ["benchmark=basics", "benchmark.limit=2", "benchmark.load.seed=0", *COMMON[1:-1], "run_root=runs"]
    keys += ["model=openai", "model.model=m", "reflector=rules", "prices.path=prices.yaml"]
    price = "models: [m], provider: p, host: 127.*, currency: USD, completion: 1, as_of: 2099-01-01, source: s"
    with chat_server(lambda request: {"text": "no"}) as server:
        screens = []
        for dollars, seeds in ((1, "0"), (10, "0,1")):
            (tmp_path / "prices.yaml").write_text(f"[{{{price}, prompt: {dollars}}}]")
            swept = sweep([*keys, f"model.base_url={server.url}", f"seed={seeds}"], quiet=True)
            screens.append(compared(capsys, swept.folder))
    assert [state.status for state in swept.states.values()] == ["kept", "done"]
    assert "PRICE" not in screens[0]
    assert "PRICE differs in reflexion: 1/1 USD per million" in screens[1]
    assert "at seed 0; 10/1 USD per million" in screens[1]
