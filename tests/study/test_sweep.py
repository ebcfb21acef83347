"""Sweeps: what cells share is paid once, what is finished is not run again, and one bad cell costs only itself."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import reflexion_lab
from reflexion_lab.analysis.log import Log
from reflexion_lab.config import assemble, compose
from reflexion_lab.grid import cells, digest_of, lines
from reflexion_lab.models.call_store import CallStore
from reflexion_lab.protocols import ModelError
from reflexion_lab.run_folder import RunFolder, RunFolderError
from reflexion_lab.study.cell_states import CellState, read_states, record
from reflexion_lab.study.launched import not_ended
from reflexion_lab.study.sweep import Sweep, carry_out_cell, sweep
from reflexion_lab.study.sweep_progress import SweepProgress

REFLECTION = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: return one\nCONFIDENCE: 0.5\n"
SCRIPT = [
    {"when": "^My Python program failed", "scope": "conversation", "reply": REFLECTION},
    {"when": "return one", "scope": "conversation", "reply": "\n    return 1\n"},
    {"when": "", "reply": "\n    return None\n"},
]
WHERE = {"tracker": "none", "benchmark.limit": 3, "model": "scripted"}


@pytest.fixture
def grid(tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))

    def made(**more):
        keys = {key.replace("__", "."): value for key, value in more.items()}
        return {**WHERE, "model.path": str(script), "run_root": str(tmp_path / "runs"), **keys}

    return made


def calls_in(root):
    store = CallStore(Path(root) / "calls.sqlite", readonly=True)
    found = store._execute("SELECT count(*) FROM calls")
    store.close()
    return int(found[0][0])


def bare(folder):
    """What a run found out, without names, times and cache marks."""
    log = Log.read(RunFolder.existing(folder))
    return {
        task_id: [
            (a.number, a.trajectory.solution, a.evaluation.passed, a.stop_reason, log.grades[task_id, a.number].passed)
            for a in made
        ]
        for task_id, made in sorted(log.attempts.items())
    }


@pytest.mark.parametrize(
    "overrides",
    [
        ["recall.omega=0,1,all", "seed=range(2)"],
        ["experiment=simple,warming,retry", "seed=0,3"],
        ["stop=[plateau],[budget]", "reflector=rules,none"],
        ["stop=[budget],[budget,plateau]", "stop.budget.tokens=choice(5000)"],
        ["benchmark.name='a, b',c", "+benchmark.extra=1,2"],
        ["experiment=omega_sweep"],
        ["experiment=omega_sweep", "recall.omega=1", "benchmark=humaneval", "seed=7"],
        ["memory.shared.shown={wisdom: 3, insights: 2}", "sandbox.limits.cpu_seconds=1.5"],
    ],
)
def test_a_cell_is_composed_as_hydra_composes_it(overrides):
    for cell in cells(overrides):
        assert cell.digest == digest_of(compose(*cell.overrides))


def test_a_grid_is_written_as_hydras_grammar_reads_it():
    values = {"seed": range(2), "benchmark.name": ["a b", 'c="d", e'], "stop": [["plateau"], ["budget", "plateau"]]}
    found = cells(lines({**values, "quiet": True, "workers": None, "quality.policy": "retry", "loop.timeout": 0.5}))
    assert [(c.cfg.seed, c.cfg.benchmark.name, sorted(c.cfg.stop)) for c in found][5:7] == [
        (1, "a b", ["budget", "plateau"]),
        (1, 'c="d", e', ["plateau"]),
    ]
    assert (found[0].cfg.quiet, found[0].cfg.workers, found[0].cfg.loop.timeout) == (True, None, 0.5)


def test_hydras_own_keys_are_no_part_of_a_cell():
    with_launcher = cells(["seed=0,1", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"])
    assert [cell.digest for cell in with_launcher] == [cell.digest for cell in cells(["seed=0,1"])]


def test_python_and_the_command_line_run_the_same_cells(grid, tmp_path):
    here = sweep(grid(recall__omega=[0, 1]), quiet=True)
    env = {**os.environ, "PYTHONPATH": str(Path(reflexion_lab.__file__).parents[1]), "COLUMNS": "120"}
    command = [sys.executable, "-m", "reflexion_lab", "run", "-m", *lines(grid(recall__omega=[0, 1]))]
    there = subprocess.run(
        [*command, f"run_root={tmp_path / 'there'}"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert there.returncode == 0, there.stderr
    runs = sorted((tmp_path / "there").glob("*/manifest.json"))
    digests = [json.loads(path.read_text())["config_digest"] for path in runs]
    assert digests == [cell.digest for cell in here]
    assert [bare(path.parent) for path in runs] == [bare(run) for run in here.runs]
    assert f"sweep {here.sweep_id}".casefold() in there.stdout.casefold()
    assert "2 cells: 2 done" in there.stdout


def test_cells_share_every_call_that_they_have_in_common(grid, tmp_path):
    made = sweep(grid(loop__max_attempts=[3, 1, 2], loop__confidence_threshold=[1.0, 0.5]), quiet=True)
    states = list(made.states.values())
    assert [state.status for state in states] == ["done"] * 6
    assert sum(state.made for state in states) == calls_in(tmp_path / "runs")
    assert [state.made for state in states[1:]] == [0] * 5, "shorter loops and lower thresholds cost nothing extra"
    assert all(state.stored for state in states[1:])


def test_sharing_changes_no_result(grid, tmp_path):
    shared = sweep(grid(recall__omega=[0, 1], loop__max_attempts=[1, 3]), quiet=True)
    for cell, run in zip(shared, shared.runs, strict=True):
        alone = assemble(compose(*cell.overrides, f"run_root={tmp_path / str(cell.number)}", "quiet=true"))
        alone.runner.run()
        alone.close()
        assert bare(alone.folder.path) == bare(run)


def test_the_same_sweep_again_makes_no_call_and_no_run(grid, tmp_path):
    first = sweep(grid(recall__omega=[0, 1]), quiet=True)
    (tmp_path / "script.json").write_text("[]")  # an empty script: no model can be loaded
    second = sweep(grid(recall__omega=[0, 1]), quiet=True)
    assert second.sweep_id == first.sweep_id
    assert [state.status for state in second.states.values()] == ["kept", "kept"]
    assert second.runs == first.runs
    assert len(list((tmp_path / "runs").glob("*/manifest.json"))) == 2


def test_a_plain_run_of_the_same_config_is_a_finished_cell(grid, tmp_path):
    plain = sweep(grid(), quiet=True)
    wider = sweep(grid(recall__omega=[1, 0]), quiet=True)
    assert [state.status for state in wider.states.values()] == ["kept", "done"]
    assert wider.runs[0] == plain.runs[0]


def test_another_prompt_makes_a_finished_cell_new(grid, tmp_path):
    first = sweep(grid(), quiet=True)
    manifest = first.runs[0] / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "prompt_digests": {"reflect": "another"}}))
    assert [state.status for state in sweep(grid(), quiet=True).states.values()] == ["done"]


def test_one_bad_cell_costs_only_itself(grid):
    made = sweep(grid(recall__omega=[0, -1, 1]), quiet=True)
    states = made.states
    assert [state.status for state in states.values()] == ["done", "failed", "done"]
    assert "recall.omega: -1 found" in states[1].problem
    assert "Traceback" in (made.folder / "cell-1.log").read_text()
    assert len(made.runs) == 2
    assert "recall.omega: -1 found" in made._repr_html_()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sweep_id": "../../x"}, "sweep_id: '../../x' found; expected the name of a folder"),
        ({"sweep_id": ["one", "two"]}, "sweep_id: several values found in one sweep"),
        ({"run_root": ["one", "two"]}, "run_root: several values found in one sweep"),
        ({"resume": "runs/earlier"}, "resume: found in a sweep"),
    ],
)
def test_a_sweep_lies_in_one_place(grid, more, said):
    with pytest.raises(ValueError, match=said):
        Sweep.of(lines(grid(**more)))


def test_another_grid_of_the_same_name_takes_no_state_over(grid):
    sweep(grid(seed=[0, 1], sweep_id="byhand"), quiet=True)
    wider = Sweep.of(lines(grid(seed=[2, 1], sweep_id="byhand")))
    assert [state.status for state in wider.states.values()] == ["waiting", "done"]


def test_what_a_stopped_cell_paid_is_told(grid, tmp_path):
    made = sweep(grid(recall__omega=[0, 1], caps__calls=8, workers=1), quiet=True)
    states = list(made.states.values())
    assert [state.status for state in states] == ["stopped", "stopped"]
    assert sum(state.spent.calls for state in states) == calls_in(tmp_path / "runs") == 8


def test_what_names_nothing_is_told_with_its_cell():
    from reflexion_lab.cli import one_line

    with pytest.raises(Exception, match="struct") as caught:
        cells(["actor=single_shot,warming", "actor.temperatures=choice([0.5])"])
    assert "actor.temperatures: no such key" in one_line(caught.value)
    assert "in cell 0: actor=single_shot" in one_line(caught.value)
    with pytest.raises(Exception, match="temperatures") as caught:
        cells(["actor=single_shot,warming", "actor.temperatures=[0.5]"])
    assert "KEY=choice(VALUE)" in one_line(caught.value)


def test_configs_of_ones_own_may_be_swept_over(tmp_path):
    own = tmp_path / "own" / "experiment"
    own.mkdir(parents=True)
    (own / "mine.yaml").write_text("# @package _global_\narm: mine\n")
    found = cells([f"hydra.searchpath=[file://{own.parent}]", "experiment=mine,simple"])
    assert [cell.cfg.arm for cell in found] == ["mine", "simple"]


def test_flags_beside_a_sweep_are_refused_in_one_line(capsys):
    from reflexion_lab.cli import main

    assert main(["run", "-m", "--config-dir", "own", "seed=0,1"]) == 2
    assert capsys.readouterr().err.startswith("error: --config-dir: found beside -m; expected overrides alone")


def test_a_sweep_is_told_before_it_is_tracked(grid, capsys, monkeypatch):
    from reflexion_lab import cli
    from reflexion_lab.trackers.null import NullTracker

    def breaks(self, runs, *more, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(NullTracker, "track_arms", breaks)
    with pytest.raises(KeyboardInterrupt):
        cli.run_many(lines(grid(seed=[0, 1])))
    assert "2 cells: 2 done" in capsys.readouterr().out


def test_a_cell_that_never_came_to_run_is_no_success():
    from reflexion_lab.cli import exit_code

    codes = {status: exit_code(CellState(number=0, status=status)) for status in ("done", "kept", "waiting", "running")}
    assert codes == {"done": 0, "kept": 0, "waiting": 2, "running": 2}
    assert exit_code(CellState(number=0, status="stopped", problem="cap")) == 3


def test_a_cell_that_was_cut_off_goes_on_where_it_stopped(grid, tmp_path, monkeypatch):
    (cell,) = cells(lines(grid(workers=1)))
    lab = assemble(cell.cfg)
    answer, calls = lab.model._model.complete, []

    def fails_in_the_third_task(*arguments, **named):
        calls.append(arguments)
        if len(calls) > 6:
            raise ModelError("the line is dead")
        return answer(*arguments, **named)

    monkeypatch.setattr(lab.model._model, "complete", fails_in_the_third_task)
    with pytest.raises(ModelError):
        lab.runner.run()
    lab.close()
    monkeypatch.undo()
    before = set(lab.folder.results)
    assert 0 < len(before) < 3
    made = sweep(grid(workers=1), quiet=True)
    assert made.runs == [lab.folder.path]
    assert bare(lab.folder.path) == bare(sweep(grid(run_root=str(tmp_path / "whole")), quiet=True).runs[0])


def test_a_cell_that_another_process_has_is_left_to_it(grid):
    import fcntl

    (cell,) = cells(lines(grid(sweep_id="both")))
    folder = Path(cell.cfg.run_root) / "sweeps" / "both"
    folder.mkdir(parents=True)
    with (folder / f".{cell.digest}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        carry_out_cell(cell.cfg, 0)
    assert [state.status for state in read_states(folder)] == ["elsewhere"]


def test_a_cell_that_ended_meanwhile_is_not_said_to_be_elsewhere(grid):
    made = Sweep.of(lines(grid(seed=[0, 1])))
    made.folder.mkdir(parents=True)
    for number, status in ((0, "running"), (1, "waiting"), (0, "done"), (0, "elsewhere"), (1, "elsewhere")):
        record(made.folder, CellState(number=number, status=status, digest=made.digests[number]))
    assert [state.status for state in made.states.values()] == ["done", "elsewhere"]


def test_a_cell_that_another_command_is_at_is_not_lost(grid):
    made = Sweep.of(lines(grid(seed=[0, 1])))
    made.folder.mkdir(parents=True)
    for number in (0, 1):
        record(made.folder, CellState(number=number, status="running", folder="f", digest=made.digests[number]))
    with (made.folder / f".{made.digests[1]}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lost = not_ended(made, made.cells, ["", ""])
    assert [state.number for state in lost] == [0]
    assert [state.status for state in made.states.values()] == ["lost", "elsewhere"]


def test_two_may_not_write_into_one_run(grid):
    (run,) = sweep(grid(), quiet=True).runs
    folder = RunFolder.existing(run)
    with folder.held(), pytest.raises(RunFolderError, match="another process writes"), RunFolder.existing(run).held():
        pass
    with folder.held():
        pass


def test_joblib_runs_the_cells_too(grid, tmp_path):
    env = {**os.environ, "PYTHONPATH": str(Path(reflexion_lab.__file__).parents[1]), "COLUMNS": "120"}
    overrides = [*lines(grid(recall__omega=[0, -1, 1])), "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    command = [sys.executable, "-m", "reflexion_lab", "run", "-m", *overrides]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "3 cells: 2 done, 1 failed" in done.stdout
    assert "recall.omega: -1 found" in done.stdout
    made = Sweep.of(overrides)
    assert len(made.runs) == 2
    assert bare(made.runs[0]) == bare(
        sweep(grid(recall__omega=0, run_root=str(tmp_path / "alone")), quiet=True).runs[0]
    )


def test_the_live_view_counts_cells_calls_and_cost(grid):
    made = Sweep.of(lines(grid(recall__omega=[0, 1, 2, 3])))
    made.folder.mkdir(parents=True)
    view = SweepProgress(made)
    record(made.folder, CellState(number=0, status="done", made=30, stored=10))
    record(made.folder, CellState(number=1, status="failed", made=0, stored=40))
    record(made.folder, CellState(number=2, status="kept", made=999, stored=999))
    run = made.folder / "run"
    run.mkdir()
    (run / "manifest.json").write_text('{"n_expected": 4}')
    (run / "results.jsonl").write_text("{}\n")
    record(made.folder, CellState(number=3, status="running", folder=str(run)))
    states = list(made.states.values())
    assert view.done(states) == 3.25
    assert view.line(states).startswith("1 kept, 1 failed, 30 calls made, 50 saved (62%)")
    view.close()
