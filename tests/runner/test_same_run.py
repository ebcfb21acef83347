"""The same run is the same, whatever it is called: draws go by the ids of tasks, and four doors agree."""

import gzip
import importlib
import json
import re
import sys
from itertools import cycle
from pathlib import Path

import pytest

from reflexion_lab.cli.main import main
from reflexion_lab.runner.config.grid import cells
from reflexion_lab.runner.config.parts import load_benchmark
from reflexion_lab.runner.config.record import RunConfig
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
    "file name": ("renamed.jsonl", PLAIN),
    "folder": ("there/tasks.jsonl", PLAIN),
    "line ends": ("tasks.jsonl", PLAIN.replace(b"\n", b"\r\n")),
    "byte order mark": ("tasks.jsonl", b"\xef\xbb\xbf" + PLAIN.rstrip()),
    "gzip": ("tasks.jsonl.gz", gzip.compress(PLAIN, mtime=7)),
}
OTHERS = {
    "order of rows": ("tasks.jsonl", "\n".join(LINES[::-1]).encode()),
    "corrected row": ("tasks.jsonl", PLAIN.replace(b"x + 3", b"3 + x")),
}
DRAWS = (
    "benchmark.sample=3", "benchmark.order=1", "benchmark.split={test: 0.5}", "benchmark.split={folds: 3, fold: 1}",
)  # fmt: skip
COMMON = ["model=simulated", "actor=single_shot", "tracker=none", "quiet=true", "seed=0"]


def written(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("draw", "form"), list(zip(cycle(DRAWS), (FORMS | OTHERS).values(), strict=False)), ids=FORMS | OTHERS
)
def test_a_task_is_drawn_by_its_id_alone(draw, form, tmp_path):
    paths = written(tmp_path, "tasks.jsonl", PLAIN), written(tmp_path / "other", *form)
    first, other = (load_benchmark(RunConfig.of(cells([f"benchmark={path}", draw])[0].cfg)) for path in paths)
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


PAGE = Path(__file__).parents[2] / "docs/configuration.md"
TABLE = PAGE.read_text().partition("<!-- same runs")[2].split("\n\n")[1].splitlines()[2:]
CELLS = [[cell.strip() for cell in row.strip("|").split("|")] for row in TABLE]
DOORS = {difference: doors for differences, *doors in CELLS for difference in differences.split(", ")}
"""Of each difference, what resume, sweep, arm and compare do."""
PART = """from msgspec.structs import replace
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
import hlp

class Mine(UnitTests):
    def evaluate(self, task, trajectory):
        return replace(super().evaluate(task, trajectory), reward=0.5 * hlp.R)
"""
OWN = {"mypart.py": PART, "hlp.py": "R = 1\n"}
SERVED = ["model=openai", "model.model=m", "reflector=rules", "prices.path=prices.yaml", *COMMON[1:-1]]
PRICE = "[{{models: [m], provider: p, host: 127.*, currency: USD, completion: 1, as_of: 2099-01-01, source: s, {}}}]"


def edited(folder, name, text):
    """Write a file of own code as before the start of another process."""
    (folder / name).write_text(text)
    for module in {"mypart", "hlp"} & sys.modules.keys():
        del sys.modules[module]
    importlib.invalidate_caches()


def pair(name, folder, url):
    """Words of a run, words of the other, and what to do between them."""
    plain = [f"benchmark={written(folder, 'a/tasks.jsonl', PLAIN)}", *COMMON[:-1]]
    if form := (FORMS | OTHERS).get(name):
        return plain, [f"benchmark={written(folder, f'b/{form[0]}', form[1])}", *COMMON[:-1]], list
    if name == "price":
        words = [plain[0], f"model.base_url={url}", *SERVED]
        written(folder, "prices.yaml", PRICE.format("prompt: 1").encode())
        return words, words, lambda: written(folder, "prices.yaml", PRICE.format("prompt: 10").encode())
    if name == "memory at the start":
        words = [*plain, "store=sqlite", "store.place=store.sqlite"]
        later = [*words, "sweep_id=later"]
        return words, later, lambda: sweep([*later, "seed=7", "run_root=runs", "arm=other"], quiet=True)
    for file, text in OWN.items():
        edited(folder, file, text)
    file = {"own code": "mypart.py", "own import": "hlp.py"}[name]
    words = [*plain, "evaluator._target_=mypart.Mine"]
    return words, words, lambda: edited(folder, file, f"{OWN[file]}# new\n")


def test_the_page_names_every_difference():
    assert {*FORMS, *OTHERS, "own code", "own import", "price", "memory at the start"} == {*DOORS}


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", DOORS)
def test_resume_sweep_arms_and_compare_do_what_the_page_says(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("OPENAI_API_KEY", "placeholder")

    def answer(*words):
        capsys.readouterr()
        code = main([*map(str, words)])
        text = " ".join("".join(capsys.readouterr()).split())
        is_named = re.search(
            "(CODE|PRICE|MEMORY AT THE START) differs|RESUMED WITH CHANGES: [^:]*:[^:]*:.* prices", text
        )
        return ("refused" if code else "names it" if is_named else "same"), text

    def other_run(*more):
        assert answer("run", *other, *more, "run_root=more")[0] != "refused"
        return max((tmp_path / "more").glob("2*"))

    with chat_server(lambda request: {"text": "no"}) as server:
        first, other, change = pair(name, tmp_path, server.url)
        (run,) = sweep([*first, "seed=0", "run_root=runs"], quiet=True).runs
        change()
        (state,) = sweep([*other, "seed=0", "run_root=./runs"], quiet=True).states.values()
        compared, text = answer("compare", run, other_run("seed=1"))
        if compared != "names it":
            compared, _ = answer("compare", run, other_run("seed=0", "arm=words"))
        cut(run)
        words = [word for word in other if word != "sweep_id=later"]
        resumed, _ = answer("run", *words, "seed=0", "run_root=runs", f"resume={run}")
        resumed = answer("show", run)[0] if resumed == "same" else resumed
    doors = [resumed.replace("same", "goes on"), "kept" if state.status == "kept" else "runs again"]
    assert [*doors, "one" if "x 2 seeds" in text else "two", compared] == DOORS[name]
    assert len(RunFolder(run).results) == (1 if resumed == "refused" else 6)


def compared(capsys, *folders):
    """The first screen of `compare`, its lines joined."""
    capsys.readouterr()
    assert main(["compare", *map(str, folders)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    return " ".join(" ".join(lines).split())


MEMORY = [
    "benchmark=basics", "benchmark.limit=4", "benchmark.load.seed=0", "store=sqlite", *COMMON[:-1], "run_root=runs",
]  # fmt: skip


def test_seeds_and_arms_that_began_with_different_memory_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    early = sweep([*MEMORY, "seed=0,1"], quiet=True)
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


def test_a_run_root_may_be_moved_and_paths_of_runs_spelled_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = ["benchmark=basics", "benchmark.limit=6", "benchmark.load.seed=0", *COMMON]
    (donor,) = sweep([*plain, "arm=donor", "curator=full_history", "run_root=runs"], quiet=True).runs
    sweep([*plain, "experiment=reflexion", "run_root=runs"], quiet=True)
    shuffled = [*plain, "experiment=reflexion_shuffled"]
    begun = [*plain, "curator=full_history", "memory.shared.items.frozen=true", "run_root=runs"]
    first = [sweep([*shuffled, "run_root=runs"], quiet=True).runs]
    first += [sweep([*begun, f"memory.shared.items.of={donor}"], quiet=True).runs]
    again = [sweep([*shuffled, "run_root=./runs"], quiet=True).runs]
    again += [sweep([*begun, f"memory.shared.items.of={donor.resolve()}"], quiet=True).runs]
    assert [[run.resolve() for run in runs] for runs in again] == [[run.resolve() for run in runs] for runs in first]
    (tmp_path / "runs").rename("moved")
    for words, (run,) in zip(
        (shuffled, [*begun[:-1], f"memory.shared.items.of=moved/{donor.name}"]), first, strict=True
    ):
        cut(tmp_path / "moved" / run.name)
        assert main(["run", *words, "run_root=moved", f"resume=moved/{run.name}"]) == 0
        assert len(RunFolder(tmp_path / "moved" / run.name).results) == 6
