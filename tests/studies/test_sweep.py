"""Sweeps: what cells share is paid once, what is finished is not run again, and one bad cell costs only itself."""

import fcntl
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import reflexion_lab
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import FolderError, ModelError
from reflexion_lab.runner.config.compose import assemble, compose
from reflexion_lab.runner.config.grid import cells, digest_of, lines
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.call_store import CallStore
from reflexion_lab.studies.finished import CellState, read_states, record
from reflexion_lab.studies.run import carry_out
from reflexion_lab.studies.sweep import Sweep, carry_out_cell, not_ended, sweep
from reflexion_lab.studies.sweep_report import SweepProgress

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
    found = sum(1 for _ in store.calls(store.fingerprints()))
    store.close()
    return found


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
        ["stop=[plateau],[budget]", "reflector=rules,none"],
        ["benchmark.name='a, b',c", "+benchmark.extra=1,2"],
        ["memory.shared.shown={wisdom: 3, insights: 2}", "sandbox.limits.cpu_seconds=1.5"],
        *(
            pytest.param(more, marks=pytest.mark.slow)
            for more in (
                ["recall.omega=0,1,all", "seed=range(2)"],
                ["experiment=simple,warming,retry", "seed=0,3"],
                ["stop=[budget],[budget,plateau]", "stop.budget.tokens=choice(5000)"],
                ["experiment=omega_sweep"],
                ["experiment=omega_sweep", "recall.omega=1", "benchmark=humaneval", "seed=7"],
            )
        ),
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


LEARNS = {
    "store": "sqlite", "reflector": "rules", "retriever": "recency", "benchmark.limit": 4,
    "memory.shared.shown": {"wisdom": 2, "mistakes": 2, "insights": 2},
}  # fmt: skip


def read_at_the_beginning(run):
    log = Log.read(RunFolder.existing(run))
    prompts = {
        task_id: [[message.content for message in attempt.trajectory.messages] for attempt in attempts]
        for task_id, attempts in sorted(log.attempts.items())
    }
    return log.beginning.episodes, prompts


@pytest.mark.parametrize("place", ["sqlite", pytest.param("jsonl", marks=pytest.mark.slow)])
def test_cells_with_a_store_are_independent_of_their_order(grid, tmp_path, place):
    by_seed = []
    for name, seeds in (("up", [0, 1, 2]), ("down", [2, 1, 0])):
        more = grid(seed=seeds, run_root=str(tmp_path / name), memory__shared__round_size=2)
        made = sweep({**more, **LEARNS, "store": place}, quiet=True)
        by_seed.append({cell.cfg.seed: read_at_the_beginning(run) for cell, run in zip(made, made.runs, strict=True)})
    assert by_seed[0] == by_seed[1]
    assert {episodes for episodes, _ in by_seed[0].values()} == {0}


def test_what_a_sweep_has_stored_is_read_by_the_next_one_and_by_no_added_cell(grid):
    first = sweep({**grid(seed=[0, 1]), **LEARNS}, quiet=True)
    wider = sweep({**grid(seed=[0, 1, 2]), **LEARNS}, quiet=True)
    assert [state.status for state in wider.states.values()] == ["kept", "kept", "done"]
    assert [read_at_the_beginning(run)[0] for run in wider.runs] == [0, 0, 0]
    another = sweep({**grid(seed=[0, 1], arm="later"), **LEARNS}, quiet=True)
    held = sum(len(made) for run in wider.runs for made in RunFolder.existing(run).attempts.values())
    assert [read_at_the_beginning(run)[0] for run in another.runs] == [held, held]
    assert set(first.runs) < set(wider.runs)


@pytest.mark.slow
def test_runs_that_learnt_from_each_other_are_no_cells_of_one_sweep(grid):
    for seed in (0, 1):
        carry_out(compose(*lines({**grid(seed=seed, quiet=True), **LEARNS})))
    made = sweep({**grid(seed=[0, 1]), **LEARNS}, quiet=True)
    assert [state.status for state in made.states.values()] == ["kept", "done"]
    assert [read_at_the_beginning(run)[0] for run in made.runs] == [0, 0]


@pytest.mark.slow
def test_cells_that_read_different_stores_are_not_one(grid, tmp_path):
    empty, filled = (str(tmp_path / name) for name in ("empty.sqlite", "filled.sqlite"))
    carry_out(
        compose(*lines({**grid(seed=7, quiet=True, run_root=str(tmp_path / "else")), **LEARNS, "store.place": filled}))
    )
    made = sweep({**grid(seed=0), **LEARNS, "store.place": [empty, filled]}, quiet=True)
    assert [state.status for state in made.states.values()] == ["done", "done"]
    begun_with = [read_at_the_beginning(run)[0] for run in made.runs]
    assert begun_with[0] == 0 < begun_with[1]
    again = sweep({**grid(seed=0), **LEARNS, "store.place": [filled, empty]}, quiet=True)
    assert [state.status for state in again.states.values()] == ["kept", "kept"]
    assert again.runs == made.runs[::-1]


def test_cells_share_a_store_where_asked_and_say_so(grid):
    with pytest.warns(RuntimeWarning, match="across_cells: true, so cells .* depend on the order"):
        made = sweep({**grid(seed=[0, 1], memory__shared__across_cells=True), **LEARNS}, quiet=True)
    episodes = [read_at_the_beginning(run)[0] for run in made.runs]
    assert episodes[0] == 0 < episodes[1]


def test_the_same_sweep_again_makes_no_call_and_no_run(grid, tmp_path):
    first = sweep(grid(recall__omega=[0, 1]), quiet=True)
    calls = calls_in(tmp_path / "runs")
    second = sweep(grid(recall__omega=[0, 1]), quiet=True)
    assert second.sweep_id == first.sweep_id
    assert [state.status for state in second.states.values()] == ["kept", "kept"]
    assert second.runs == first.runs
    assert calls_in(tmp_path / "runs") == calls
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


def swept(place, *more):
    command = [sys.executable, "-m", "reflexion_lab", "run", "-m", "actor=single_shot"]
    command += ["tracker=none", "benchmark=jsonl", "benchmark.load.path=tasks.jsonl"]
    env = {**os.environ, "PYTHONPATH": f"{Path(reflexion_lab.__file__).parents[1]}:{place}", "COLUMNS": "120"}
    done = subprocess.run([*command, *more], cwd=place, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_finished_cells_run_again_once_hidden_tests_model_or_own_parts_changed_and_the_sweep_says_why(tmp_path):
    tasks, own = tmp_path / "tasks.jsonl", tmp_path / "own_evaluator.py"
    tasks.write_text(json.dumps(SUM) + "\n")
    own.write_text(OWN_EVALUATOR)
    words = ("model=simulated", "seed=0,1", "evaluator._target_=own_evaluator.Mine")
    assert "2 cells: 2 done" in swept(tmp_path, *words)
    again = swept(tmp_path, *words)
    assert "2 cells: 2 kept" in again
    assert "ran again" not in again

    tasks.write_text(json.dumps(SUM | {"hidden_tests": ["assert one() == 1"]}) + "\n")
    other_tests = swept(tmp_path, *words)
    assert "2 cells: 2 done" in other_tests
    for number in range(2):
        assert f"cell {number} ran again: benchmark_digest changed" in other_tests

    away = tasks.rename(tmp_path / "away.jsonl")
    assert "2 cells: 2 kept" in swept(tmp_path, *words)  # what is finished needs no tasks
    away.rename(tasks)

    own.write_text(OWN_EVALUATOR + "# another version\n")
    other_part = swept(tmp_path, *words)
    assert "2 cells: 2 done" in other_part
    assert "cell 1 ran again: source of own_evaluator changed" in other_part
    assert "2 cells: 2 kept" in swept(tmp_path, *words)

    script = tmp_path / "script.json"
    for reply in ("    return 1\n", "    return 2\n"):
        script.write_text(json.dumps([{"when": "", "reply": reply}]))
        other_model = swept(tmp_path, "model=scripted", f"model.path={script}", "seed=0,1")
        assert "2 cells: 2 done" in other_model
    assert "cell 0 ran again: model_fingerprint changed" in other_model


class Server(BaseHTTPRequestHandler):
    """Answers every chat with nothing that runs."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"index": 0, "message": {"role": "assistant", "content": "no"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        body = json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *parts):
        pass


@pytest.mark.parametrize(("cost", "status"), [(9, "done"), (None, "kept")])
def test_cells_run_again_once_the_price_file_that_a_stop_rule_reads_was_edited(tmp_path, monkeypatch, cost, status):
    monkeypatch.setenv("OPENAI_API_KEY", "placeholder")
    prices = tmp_path / "prices.yaml"
    price = "models: [m], provider: p, host: 127.*, currency: USD, completion: 1, as_of: 2099-01-01, source: s"
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        keys = {
            "model": "openai", "model.model": "m", "model.base_url": f"http://127.0.0.1:{server.server_port}/v1",
            "actor": "single_shot", "reflector": "rules", "tracker": "none", "benchmark.limit": 1, "seed": [0],
            "run_root": str(tmp_path / "runs"), "stop": [["budget"]],
            "stop.budget.cost": cost, "prices.path": str(prices),
        }  # fmt: skip
        states = []
        for each in (1, 1, 2):
            prices.write_text(f"[{{{price}, prompt: {each}}}]")
            states.append(sweep([*lines(keys)], quiet=True).states[0])
        server.shutdown()
    assert [state.status for state in states] == ["done", "kept", status]
    assert states[2].again == ("prices of models changed" if status == "done" else "")


def test_one_bad_cell_costs_only_itself(grid):
    made = sweep(grid(recall__omega=[0, -1, 1]), quiet=True)
    states = made.states
    assert [state.status for state in states.values()] == ["done", "failed", "done"]
    assert "recall.omega: got -1" in states[1].problem
    assert "Traceback" in (made.folder / "cell-1.log").read_text()
    assert len(made.runs) == 2
    assert "recall.omega: got -1" in made._repr_html_()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sweep_id": "../../x"}, "sweep_id: got '../../x', expected the name of a folder"),
        ({"sweep_id": ["one", "two"]}, "sweep_id: got several values in one sweep, expected one"),
        ({"run_root": ["one", "two"]}, "run_root: got several values in one sweep, expected one"),
        ({"resume": "runs/earlier"}, "resume: a sweep's cells go on where they stopped"),
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
    from reflexion_lab.runner.config.messages import one_line

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


def test_groups_of_ones_own_may_be_swept_over(tmp_path):
    for name, text in {
        "mything/a": "word: one\n",
        "mything/b": "word: two\n",
        "experiment/own": "# @package _global_\ndefaults:\n  - /mything: a\narm: own\n",
    }.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    found = cells([f"hydra.searchpath=[file://{tmp_path}]", "experiment=own", "mything=a,b"])
    assert [cell.cfg.mything.word for cell in found] == ["one", "two"]


TEXTS = ["12", "true", "null", "1e3", "1_000", "-5", "inf", "NaN", "a-b", "x", "é"]


def test_a_text_stays_a_text_whatever_else_it_reads_as():
    assert [cell.cfg.arm for cell in cells(lines({"arm": TEXTS}))] == TEXTS
    alone = {f"+benchmark.text{number}": text for number, text in enumerate(TEXTS)}
    (cell,) = cells(lines(alone))
    for cfg in (cell.cfg, compose(*lines(alone))):
        assert [cfg.benchmark[f"text{number}"] for number in range(len(TEXTS))] == TEXTS


def test_configs_are_composed_in_threads_and_inside_another_context_of_hydra(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    from hydra import compose as hydras_compose
    from hydra import initialize_config_dir

    (tmp_path / "app.yaml").write_text("name: theirs\n")
    with initialize_config_dir(version_base="1.3", config_dir=str(tmp_path)):
        with ThreadPoolExecutor(6) as pool:
            seeds = list(pool.map(lambda seed: compose(f"seed={seed}").seed, range(6)))
        assert [cell.cfg.seed for cell in cells(["seed=0,1"])] == [0, 1]
        assert hydras_compose("app").name == "theirs"
    assert seeds == list(range(6))


def test_flags_beside_a_sweep_are_refused_in_one_line(capsys):
    from reflexion_lab.cli.main import main

    assert main(["run", "-m", "--config-dir", "own", "seed=0,1"]) == 2
    assert capsys.readouterr().err.startswith("error: -m: got --config-dir beside it, expected overrides alone")


def test_a_sweep_is_told_before_it_is_tracked(grid, capsys, monkeypatch):
    from reflexion_lab.cli.run import run_many
    from reflexion_lab.studies.tracking.null import NullTracker

    def breaks(self, runs, *more, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(NullTracker, "track_arms", breaks)
    with pytest.raises(KeyboardInterrupt):
        run_many(lines(grid(seed=[0, 1])))
    assert "2 cells: 2 done" in capsys.readouterr().out


def test_a_cell_that_never_came_to_run_is_no_success():
    from reflexion_lab.cli.run import exit_code

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
    with (folder.parent / f".{cell.digest}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        carry_out_cell(cell.cfg, 0)
    assert [state.status for state in read_states(folder)] == ["elsewhere"]


@pytest.mark.slow
def test_two_sweeps_at_once_run_a_shared_cell_once(grid, tmp_path):
    command = [sys.executable, "-m", "reflexion_lab", "run", "-m"]
    (shared,) = cells(lines(grid(seed=0)))
    sweeps = [lines(grid(seed=[0, seed])) for seed in (1, 2)]
    processes = [subprocess.Popen([*command, *one]) for one in sweeps]
    for process in processes:
        process.wait()
    manifests = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/manifest.json")]
    assert sum(manifest["config_digest"] == shared.digest for manifest in manifests) == 1
    assert sorted(manifest["seed"] for manifest in manifests) == [0, 1, 2]


@pytest.mark.parametrize(
    "launcher", [(), pytest.param(("hydra/launcher=joblib", "hydra.launcher.n_jobs=2"), marks=pytest.mark.slow)]
)
def test_equal_cells_are_run_once_and_the_command_says_so(grid, tmp_path, launcher):
    command = [sys.executable, "-m", "reflexion_lab", "run", "-m", *lines(grid(workers=[1, 2])), *launcher]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning: cell 1 (workers=2) measures the same as cell 0; it is run once" in done.stderr
    assert "1 cells: 1 done" in done.stdout
    assert len(list((tmp_path / "runs").glob("*/manifest.json"))) == 1


def test_a_kept_cell_remembers_its_harness_errors(grid):
    from reflexion_lab.cli.run import exit_code

    (run,) = sweep(grid(), quiet=True).runs
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps({**summary, "harness_errors": 3}))
    (state,) = sweep(grid(sweep_id="another"), quiet=True).states.values()
    assert (state.status, state.problem, exit_code(state)) == ("kept", "3 harness errors", 2)


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
    with (made.folder.parent / f".{made.digests[1]}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lost = not_ended(made, made.cells, ["", ""])
    assert [state.number for state in lost] == [0]
    assert [state.status for state in made.states.values()] == ["lost", "elsewhere"]


def test_what_another_process_finished_after_assembly_is_not_run_again(grid):
    first = assemble(compose(*lines(grid(workers=1, quiet=True))))
    later = assemble(compose(*lines(grid(workers=1, quiet=True, resume=str(first.folder.path)))))
    for lab in (first, later):
        lab.runner.run()
        lab.close()
    run = RunFolder.existing(first.folder.path)
    assert (run.path / "results.jsonl").read_text().count("\n") == len(run.results) == 3
    assert (run.path / "grades.jsonl").read_text().count("\n") == len(run.grades)


def test_two_may_not_write_into_one_run(grid):
    (run,) = sweep(grid(), quiet=True).runs
    folder = RunFolder.existing(run)
    with folder.held(), pytest.raises(FolderError, match="another process writes"), RunFolder.existing(run).held():
        pass
    with folder.held():
        pass


@pytest.mark.slow
def test_joblib_runs_the_cells_too(grid, tmp_path):
    env = {**os.environ, "PYTHONPATH": str(Path(reflexion_lab.__file__).parents[1]), "COLUMNS": "120"}
    overrides = [*lines(grid(recall__omega=[0, -1, 1])), "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    command = [sys.executable, "-m", "reflexion_lab", "run", "-m", *overrides]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "3 cells: 2 done, 1 failed" in done.stdout
    assert "recall.omega: got -1" in done.stdout
    made = Sweep.of(overrides)
    assert len(made.runs) == 2
    assert bare(made.runs[0]) == bare(
        sweep(grid(recall__omega=0, run_root=str(tmp_path / "alone")), quiet=True).runs[0]
    )


@pytest.mark.slow
def test_hydras_own_multirun_mode_is_a_sweep(grid, tmp_path):
    overrides = [*lines(grid(seed=[0, 1])), "hydra.mode=MULTIRUN", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    command = [sys.executable, "-m", "reflexion_lab", "run", *overrides]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 cells: 2 done" in done.stdout


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
