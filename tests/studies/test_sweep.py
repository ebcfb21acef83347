"""Sweeps: shared calls are paid once, finished cells are not run again, and a failing cell affects no other."""

import errno
import fcntl
import json
import os
import re
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import hydra
import pytest

import reflexion_lab
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.cli.main import main
from reflexion_lab.cli.run import exit_code, run_many
from reflexion_lab.errors import ConfigError, FolderError, ModelError
from reflexion_lab.runner.config import grid as grid_module
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose, with_values
from reflexion_lab.runner.config.grid import Cell, cells, lines
from reflexion_lab.runner.config.messages import one_line
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.run import carry_out
from reflexion_lab.studies.sweeps import running
from reflexion_lab.studies.sweeps.finished import CellState
from reflexion_lab.studies.sweeps.running import run_all, sweep
from reflexion_lab.studies.sweeps.sweep import Sweep, headline, problems, sheet
from reflexion_lab.studies.tracking.null import NullTracker
from tests.studies.small_runs import REFLECTION, chat_server, run_lab, script

SCRIPT = [
    {"when": "^My Python program failed", "scope": "conversation", "reply": REFLECTION.format("return one")},
    {"when": "return one", "scope": "conversation", "reply": "\n    return 1\n"},
    {"when": "", "reply": "\n    return None\n"},
]
SMALL = {"tracker": "none", "benchmark.limit": 3, "model": "scripted"}
JOBLIB = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
LEARNS = {
    "store": "sqlite", "reflector": "rules", "retriever": "recency", "benchmark.limit": 4,
    "memory.shared.shown": {"wisdom": 2, "mistakes": 2, "insights": 2},
}  # fmt: skip


@pytest.fixture
def grid(tmp_path):
    path = script(tmp_path, SCRIPT)

    def keys(**more):
        dotted = {key.replace("__", "."): value for key, value in more.items()}
        return {**SMALL, "model.path": str(path), "run_root": str(tmp_path / "runs"), **dotted}

    return keys


def statuses(swept):
    return [state.status for state in swept.states.values()]


def run_command(*words, cwd=None):
    """`reflexion-lab run` in a process of its own."""
    env = {**os.environ, "PYTHONPATH": f"{Path(reflexion_lab.__file__).parents[1]}:{cwd}", "COLUMNS": "120"}
    command = [sys.executable, "-m", "reflexion_lab", "run", *words]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def calls_in(root):
    with closing(sqlite3.connect(Path(root) / "calls.sqlite")) as connection:
        return connection.execute("SELECT count(*) FROM calls").fetchone()[0]


def results(folder):
    """The results of a run, without names, times and cache marks."""
    log = Log.read(RunFolder.existing(folder))
    return {
        task_id: [
            (a.number, a.trajectory.solution, a.evaluation.passed, a.stop_reason, log.grades[task_id, a.number].passed)
            for a in attempts
        ]
        for task_id, attempts in sorted(log.attempts.items())
    }


@contextmanager
def held(swept, digest):
    """As if another process ran the cell."""
    folder = swept.folder.parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{digest}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize(
    "overrides",
    [
        ["stop=[plateau],[budget]", "reflector=rules,none"],
        ["benchmark.name='a, b',c", "+own.extra=1,2"],
        ["memory.shared.shown={wisdom: 3, insights: 2}", "sandbox.limits.cpu_seconds=1.5"],
        ["recall.omega=0,1,all", "seed=range(2)"],
        ["experiment=simple,warming,retry", "seed=0,3"],
        ["stop=[budget],[budget,plateau]", "stop.budget.tokens=choice(5000)"],
        ["experiment=omega_sweep"],
        ["experiment=omega_sweep", "recall.omega=1", "benchmark=humaneval", "seed=7"],
        ["experiment=reflexion", "recall=window_then_similar", "recall.omega=0,3", "loop.max_attempts=1,2"],
        ["model.path=a.json,b.json", "model=scripted", "actor=single_shot,chain_of_thought", "seed=1,2"],
        ["benchmark.load.path=a.jsonl,b.jsonl", "benchmark=jsonl", "benchmark.limit=null,3"],
        ["experiment=reflexion_shuffled", "run_root=a,b", "storage.calls=b,c", "temperature=0.5,1"],
        [
            "loop={max_attempts: 2}",
            "loop.max_attempts=3,4",
            "memory.shared.items.max_tokens=null,5",
            "arm=a,'${seed}b'",
        ],
    ],
)
@pytest.mark.slow
def test_a_cell_is_composed_as_hydra_composes_it(overrides):
    for cell in cells(overrides):
        assert cell == Cell.of(cell.number, cell.overrides, compose(*cell.overrides))


def test_a_swept_value_is_set_on_one_composition_with_the_errors_of_its_own(monkeypatch):
    composed = []
    monkeypatch.setattr(
        grid_module, "with_values", lambda words, *rest: composed.append(words) or with_values(words, *rest)
    )
    omegas = [cell.cfg.recall["omega"] for cell in cells(["recall.omega=0,1,all", "seed=range(4)", "model=simulated"])]
    assert omegas == [0] * 4 + [1] * 4 + ["all"] * 4
    assert composed == [("model=simulated",)]
    with pytest.raises(ConfigError, match="seed: got 'a', expected an int") as problem:
        cells(["seed=1,a"])
    assert "in cell 1: seed=a" in problem.value.__notes__


def test_a_grid_is_written_as_hydras_grammar_reads_it():
    values = {"seed": range(2), "benchmark.name": ["a b", 'c="d", e'], "stop": [["plateau"], ["budget", "plateau"]]}
    grid = cells(lines({**values, "quiet": True, "workers": None, "quality.policy": "retry", "loop.timeout": 0.5}))
    assert [(c.cfg.seed, c.cfg.benchmark.name, sorted(c.cfg.stop)) for c in grid][5:7] == [
        (1, "a b", ["budget", "plateau"]),
        (1, 'c="d", e', ["plateau"]),
    ]
    assert (grid[0].cfg.quiet, grid[0].cfg.workers, grid[0].cfg.loop.timeout) == (True, None, 0.5)


@pytest.mark.slow
def test_python_and_the_command_line_run_the_same_cells(grid, tmp_path):
    here = sweep(grid(recall__omega=[0, 1]), quiet=True)
    there = run_command("-m", *lines(grid(recall__omega=[0, 1], run_root=str(tmp_path / "there"))), cwd=tmp_path)
    assert there.returncode == 0, there.stderr
    runs = sorted((tmp_path / "there").glob("*/manifest.json"))
    assert [json.loads(path.read_text())["config_digest"] for path in runs] == [cell.digest for cell in here]
    assert [results(path.parent) for path in runs] == [results(run) for run in here.runs]
    assert here.sweep_id in there.stdout and "difference to Ω0 (the first arm)" in there.stdout
    assert "2 cells: 2 done" in there.stdout


@pytest.mark.slow
def test_cells_share_every_call_that_they_have_in_common(grid, tmp_path):
    swept = sweep(grid(loop__max_attempts=[3, 1, 2], loop__confidence_threshold=[1.0, 0.5]), quiet=True)
    states = list(swept.states.values())
    assert statuses(swept) == ["done"] * 6
    assert sum(state.paid for state in states) == calls_in(tmp_path / "runs")
    assert [state.paid for state in states[1:]] == [0] * 5, "shorter loops and lower thresholds cost nothing extra"
    assert all(state.stored for state in states[1:])


@pytest.mark.slow
def test_sharing_changes_no_result(grid, tmp_path):
    swept = sweep(grid(recall__omega=[0, 1], loop__max_attempts=[1, 3]), quiet=True)
    for cell, run in zip(swept, swept.runs, strict=True):
        alone = run_lab(compose(*cell.overrides, f"run_root={tmp_path / str(cell.number)}", "quiet=true"))
        assert results(alone.folder.path) == results(run)


def initial_episodes(swept):
    """Episodes in the store at the start of each run."""
    return [RunFolder.existing(run).beginning.episodes for run in swept.runs]


@pytest.mark.slow
def test_cells_with_a_store_are_independent_of_their_order(grid, tmp_path):
    by_seed = []
    for name, seeds in (("up", [0, 1, 2]), ("down", [2, 1, 0])):
        more = grid(seed=seeds, run_root=str(tmp_path / name), memory__shared__round_size=2)
        swept = sweep({**more, **LEARNS}, quiet=True)
        assert initial_episodes(swept) == [0, 0, 0]
        logs = [Log.read(RunFolder.existing(run)) for run in swept.runs]
        prompts = {
            (log.manifest.seed, task_id): [attempt.trajectory.messages for attempt in attempts]
            for log in logs
            for task_id, attempts in log.attempts.items()
        }
        by_seed.append(prompts)
    assert by_seed[0] == by_seed[1]


@pytest.mark.slow
@pytest.mark.soak
def test_the_next_sweep_reads_the_store_and_an_added_cell_does_not(grid):
    first = sweep({**grid(seed=[0, 1]), **LEARNS}, quiet=True)
    wider = sweep({**grid(seed=[0, 1, 2]), **LEARNS}, quiet=True)
    assert statuses(wider) == ["kept", "kept", "done"]
    assert initial_episodes(wider) == [0, 0, 0]
    later = sweep({**grid(seed=[0, 1], arm="later"), **LEARNS}, quiet=True)
    stored = sum(len(attempts) for run in wider.runs for attempts in RunFolder.existing(run).attempts.values())
    assert initial_episodes(later) == [stored, stored]
    assert set(first.runs) < set(wider.runs)


@pytest.mark.slow
def test_runs_that_share_memory_are_no_cells_of_one_sweep(grid):
    for seed in (0, 1):
        carry_out(compose(*lines({**grid(seed=seed, quiet=True), **LEARNS})))
    swept = sweep({**grid(seed=[0, 1]), **LEARNS}, quiet=True)
    assert statuses(swept) == ["kept", "done"]
    assert initial_episodes(swept) == [0, 0]


@pytest.mark.slow
def test_cells_that_read_different_stores_are_different(grid, tmp_path):
    empty, filled = (str(tmp_path / name) for name in ("empty.sqlite", "filled.sqlite"))
    elsewhere = grid(seed=7, quiet=True, run_root=str(tmp_path / "else"))
    carry_out(compose(*lines({**elsewhere, **LEARNS, "store.place": filled})))
    swept = sweep({**grid(seed=0), **LEARNS, "store.place": [empty, filled]}, quiet=True)
    assert statuses(swept) == ["done", "done"]
    assert initial_episodes(swept)[0] == 0 < initial_episodes(swept)[1]
    again = sweep({**grid(seed=0), **LEARNS, "store.place": [filled, empty]}, quiet=True)
    assert statuses(again) == ["kept", "kept"]
    assert again.runs == swept.runs[::-1]


def test_cells_that_share_a_store_are_warned_of(grid):
    with pytest.warns(RuntimeWarning, match="across_cells: true, so cells .* depend on the order"):
        swept = sweep({**grid(seed=[0, 1], memory__shared__across_cells=True), **LEARNS}, quiet=True)
    assert initial_episodes(swept)[0] == 0 < initial_episodes(swept)[1]


@pytest.mark.slow
def test_a_finished_cell_is_kept_until_its_prompts_change(grid, tmp_path):
    (plain,) = sweep(grid(), quiet=True).runs
    first = sweep(grid(recall__omega=[1, 0]), quiet=True)
    assert statuses(first) == ["kept", "done"]
    assert first.runs[0] == plain
    calls = calls_in(tmp_path / "runs")
    second = sweep(grid(recall__omega=[1, 0]), quiet=True)
    assert (second.sweep_id, second.runs) == (first.sweep_id, first.runs)
    assert statuses(second) == ["kept", "kept"]
    assert calls_in(tmp_path / "runs") == calls
    assert len(list((tmp_path / "runs").glob("*/manifest.json"))) == 2
    manifest = plain / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "prompt_digests": {"reflect": "another"}}))
    assert statuses(sweep(grid(recall__omega=[1, 0]), quiet=True)) == ["done", "kept"]


SUM = {
    "task_id": "own/0",
    "prompt": 'def one():\n    """One."""\n',
    "entry_point": "one",
    "canonical_solution": "    return 1\n",
    "visible_tests": ["assert one() == 1"],
    "hidden_tests": ["assert one() > 0"],
}
OWN_EVALUATOR = (
    "from reflexion_lab.tasks.evaluators.unit_tests import UnitTests\n\n\nclass Mine(UnitTests):\n    pass\n"
)


def swept_output(place, *more):
    data = ("actor=single_shot", "tracker=none", "benchmark=jsonl", "benchmark.load.path=tasks.jsonl")
    ended = run_command("-m", *data, *more, cwd=place)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
@pytest.mark.soak
def test_changed_inputs_make_finished_cells_run_again(tmp_path):
    tasks, own = tmp_path / "tasks.jsonl", tmp_path / "own_evaluator.py"
    tasks.write_text(json.dumps(SUM) + "\n")
    own.write_text(OWN_EVALUATOR)
    words = ("model=simulated", "seed=0,1", "evaluator._target_=own_evaluator.Mine")
    assert "2 cells: 2 done" in swept_output(tmp_path, *words)
    again = swept_output(tmp_path, *words)
    assert "2 cells: 2 kept" in again
    assert "ran again" not in again

    tasks.write_text(json.dumps(SUM | {"hidden_tests": ["assert one() == 1"]}) + "\n")
    other_tests = swept_output(tmp_path, *words)
    assert "2 cells: 2 done" in other_tests
    for number in range(2):
        assert f"cell {number} ran again: benchmark_digest changed" in other_tests

    away = tasks.rename(tmp_path / "away.jsonl")
    assert "2 cells: 2 kept" in swept_output(tmp_path, *words)  # what is finished needs no tasks
    away.rename(tasks)

    own.write_text(OWN_EVALUATOR + "# another version\n")
    other_part = swept_output(tmp_path, *words)
    assert "2 cells: 2 done" in other_part
    assert "cell 1 ran again: source of own_evaluator changed" in other_part
    assert "2 cells: 2 kept" in swept_output(tmp_path, *words)

    script = tmp_path / "script.json"
    for reply in ("    return 1\n", "    return 2\n"):
        script.write_text(json.dumps([{"when": "", "reply": reply}]))
        other_model = swept_output(tmp_path, "model=scripted", f"model.path={script}", "seed=0,1")
        assert "2 cells: 2 done" in other_model
    assert "cell 0 ran again: model_fingerprint changed" in other_model


@pytest.mark.parametrize(("cost", "status"), [(9, "done"), (None, "kept")])
@pytest.mark.slow
@pytest.mark.soak
def test_edited_prices_matter_only_to_a_stop_rule_on_cost(tmp_path, monkeypatch, cost, status):
    monkeypatch.setenv("OPENAI_API_KEY", "placeholder")
    prices = tmp_path / "prices.yaml"
    price = "models: [m], provider: p, host: 127.*, currency: USD, completion: 1, as_of: 2099-01-01, source: s"
    with chat_server(lambda request: {"text": "no"}) as server:
        keys = {
            "model": "openai", "model.model": "m", "model.base_url": server.url, "actor": "single_shot",
            "reflector": "rules", "tracker": "none", "benchmark.limit": 1, "seed": [0],
            "run_root": str(tmp_path / "runs"), "stop": [["budget"]], "stop.budget.cost": cost,
            "prices.path": str(prices),
        }  # fmt: skip
        states = []
        for dollars in (1, 1, 2):
            prices.write_text(f"[{{{price}, prompt: {dollars}}}]")
            states.append(sweep([*lines(keys)], quiet=True).states[0])
    assert [state.status for state in states] == ["done", "kept", status]
    assert states[2].again == ("prices of models changed" if status == "done" else "")


def test_a_failing_cell_affects_no_other(grid):
    swept = sweep(grid(recall__omega=[0, -1, 1]), quiet=True)
    assert statuses(swept) == ["done", "failed", "done"]
    assert "recall.omega: got -1" in swept.states[1].problem
    assert "Traceback" in (swept.folder / "cell-1.log").read_text()
    assert len(swept.runs) == 2
    assert {RunFolder.existing(run).manifest.config["sweep_id"] for run in swept.runs} == {swept.sweep_id}
    assert "recall.omega: got -1" in swept._repr_html_()


def test_a_problem_that_cells_share_is_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    served = {"model": "openai", "model.model": "m", "tracker": "none", "run_root": str(tmp_path)}
    (line,) = problems(sweep({**served, "seed": [0, 1, 2, 3, 4]}, quiet=True))
    assert line.startswith("cells 0, 1, 2 and 2 more: The environment variable OPENAI_API_KEY is not set")


def test_each_cell_says_what_is_left_of_the_sweep(grid, capsys):
    run_all(Sweep.of(lines(grid(seed=[0, 1]))), (), quiet=False)
    assert re.search(r"cell 0 of 2: .*cell 1 of 2, about [\d.]+ min left: ", capsys.readouterr().err, re.DOTALL)


def test_another_grid_of_the_same_name_takes_no_state_over(grid):
    sweep(grid(seed=[0, 1], sweep_id="byhand"), quiet=True)
    assert statuses(Sweep.of(lines(grid(seed=[2, 1], sweep_id="byhand")))) == ["waiting", "done"]


def test_calls_of_a_stopped_cell_are_recorded(grid, tmp_path):
    swept = sweep(grid(recall__omega=[0, 1], caps__calls=8, workers=1), quiet=True)
    assert statuses(swept) == ["stopped", "stopped"]
    assert sum(state.spent.calls for state in swept.states.values()) == calls_in(tmp_path / "runs") == 8


def test_an_unknown_key_is_named_with_its_cell_and_one_given_twice_is_swept_by_its_last_value(grid):
    with pytest.raises(Exception, match="temperatures") as caught:
        cells(["actor=single_shot,warming", "actor.temperatures=[0.5]"])
    assert "KEY=choice(VALUE)" in one_line(caught.value)
    words = [*lines(grid()), "quiet=true", "quiet=false", "temperature=1", "temperature=0,0.5"]
    assert sheet(Sweep.of(words)).columns[:2] == ("cell", "temperature")
    assert "quiet" not in sheet(Sweep.of(words)).columns


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_is_named(grid, capsys, monkeypatch, number):
    def flock(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    assert main(["run", *(f"{key}={value}" for key, value in grid().items())]) == 2
    assert "the folder needs a file system with `flock`" in capsys.readouterr().err


def test_own_configs_and_groups_may_be_swept_over(tmp_path):
    for name, text in {
        "mything/a": "word: one\n",
        "mything/b": "word: two\n",
        "experiment/own": "# @package _global_\ndefaults:\n  - /mything: a\narm: own\n",
    }.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    searchpath = f"hydra.searchpath=[file://{tmp_path}]"
    assert [cell.cfg.arm for cell in cells([searchpath, "experiment=own,simple"])] == ["own", "simple"]
    grid = cells([searchpath, "experiment=own", "mything=a,b"])
    assert [cell.cfg.whole["mything"]["word"] for cell in grid] == ["one", "two"]


TEXTS = ["12", "true", "null", "1e3", "1_000", "-5", "inf", "NaN", "a-b", "x", "é"]


def test_a_text_stays_a_text_whatever_else_it_reads_as():
    assert [cell.cfg.arm for cell in cells(lines({"arm": TEXTS}))] == TEXTS
    alone = {f"+texts.text{number}": text for number, text in enumerate(TEXTS)}
    for config in (cells(lines(alone))[0].cfg.whole, compose(*lines(alone))):
        assert [config["texts"][f"text{number}"] for number in range(len(TEXTS))] == TEXTS


def test_configs_compose_in_threads_and_in_another_hydra_context(tmp_path):
    (tmp_path / "app.yaml").write_text("name: theirs\n")
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(tmp_path)):
        with ThreadPoolExecutor(6) as pool:
            seeds = list(pool.map(lambda seed: compose(f"seed={seed}").seed, range(6)))
        assert [cell.cfg.seed for cell in cells(["seed=0,1"])] == [0, 1]
        assert hydra.compose("app").name == "theirs"
    assert seeds == list(range(6))


def test_a_sweep_is_printed_before_it_is_tracked(grid, capsys, monkeypatch):
    def interrupted(self, runs, *more, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(NullTracker, "track_arms", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_many(lines(grid(seed=[0, 1])))
    assert "2 cells: 2 done" in capsys.readouterr().out


@pytest.mark.slow
def test_an_interrupted_cell_is_resumed_and_its_calls_are_made_and_not_saved(grid, tmp_path, monkeypatch):
    interrupted = Sweep.of(lines(grid(workers=1)))
    lab = assemble(interrupted.cells[0].cfg)
    complete, calls = lab.model._model.complete, []

    def fails_in_the_third_task(*arguments, **named):
        calls.append(arguments)
        if len(calls) > 7:
            raise ModelError("the line is dead")
        return complete(*arguments, **named)

    monkeypatch.setattr(lab.model._model, "complete", fails_in_the_third_task)
    with closing(lab), pytest.raises(ModelError):
        lab.runner.run()
    monkeypatch.undo()
    assert 0 < len(lab.folder.results) < 3
    swept = sweep(grid(workers=1), quiet=True)
    assert swept.runs == [lab.folder.path]
    assert f"model calls: {calls_in(tmp_path / 'runs')} made, 0 saved by sharing" in headline(swept)
    assert results(lab.folder.path) == results(sweep(grid(run_root=str(tmp_path / "whole")), quiet=True).runs[0])


def test_equal_cells_are_run_once_with_a_warning(grid, tmp_path):
    with pytest.warns(RuntimeWarning, match=r"cell 1 \(workers=2\) measures the same as cell 0; it is run once"):
        swept = sweep(grid(workers=[1, 2]), quiet=True)
    assert statuses(swept) == ["done"]
    assert len(list((tmp_path / "runs").glob("*/manifest.json"))) == 1


@pytest.mark.slow
def test_joblib_runs_the_cells_too_in_hydras_own_multirun_mode(grid, tmp_path):
    overrides = [*lines(grid(recall__omega=[0, -1], workers=[1, 2])), *JOBLIB]
    ended = run_command(*overrides, "hydra.mode=MULTIRUN", cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert "warning: cell 1 (workers=2) measures the same as cell 0; it is run once" in ended.stderr
    assert "2 cells: 1 done, 1 failed" in ended.stdout
    assert "recall.omega: got -1" in ended.stdout
    assert [cell.digest for cell in cells(overrides)] == [cell.digest for cell in cells(overrides[: -len(JOBLIB)])]
    (run,) = Sweep.of(overrides).runs
    (alone,) = sweep(grid(recall__omega=0, run_root=str(tmp_path / "alone")), quiet=True).runs
    assert results(run) == results(alone)


def test_a_kept_cell_remembers_its_harness_errors(grid):
    (run,) = sweep(grid(), quiet=True).runs
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps({**summary, "harness_errors": 3}))
    (state,) = sweep(grid(sweep_id="another"), quiet=True).states.values()
    assert (state.status, state.problem, exit_code(state)) == ("kept", "3 harness errors; only=unscored asks again", 2)


def test_a_cell_that_another_process_runs_is_left_to_it(grid):
    swept = Sweep.of(lines(grid(seed=[0, 1])))
    with held(swept, swept.digests[1]):
        run_all(swept, (), quiet=True)
    assert statuses(swept) == ["done", "waiting"]
    assert exit_code(swept.states[1]) == 2


def test_tasks_finished_by_another_process_are_not_run_again(grid):
    first = assemble(compose(*lines(grid(workers=1, quiet=True))))
    later = assemble(compose(*lines(grid(workers=1, quiet=True, resume=str(first.folder.path)))))
    for lab in (first, later):
        lab.runner.run()
        lab.close()
    run = RunFolder.existing(first.folder.path)
    with run.held(), pytest.raises(FolderError, match="another process writes"), RunFolder(run.path).held():
        pass
    assert (run.path / "results.jsonl").read_text().count("\n") == len(run.results) == 3
    assert (run.path / "grades.jsonl").read_text().count("\n") == len(run.grades)


def test_lost_cells_are_started_again_whatever_another_command_writes_meanwhile(grid, monkeypatch):
    swept, starts = Sweep.of(lines(grid(recall__omega=[0, 1]))), []

    def launch(cells, quiet):
        starts.append([cell.number for cell in cells])
        Sweep.of(lines(grid(recall__omega=[0, 1]))).keep()  # the same command in a second terminal
        return ["TerminatedWorkerError: killed"] * len(cells)

    monkeypatch.setattr(running, "Launch", lambda *_: launch)
    run_all(swept, (), quiet=True)
    assert starts == [[0, 1]] * 2
    assert ["its process was lost" in state.problem for state in swept.states.values()] == [True] * 2


def test_a_finished_cell_stays_one_whatever_another_process_saw_before_its_end(grid):
    swept = Sweep.of(lines(grid(recall__omega=[0])))
    swept.keep()
    swept.note(CellState(number=0, status="done", folder="run"))
    swept.note(CellState(number=0, problem="another process is running this cell"))
    assert statuses(swept) == ["done"]
    swept.note(CellState(number=0))  # its run was deleted: it is to run again
    assert statuses(swept) == ["waiting"]
