"""The matrix of checkpoints from run folders: a stream, and runs that begin with its memory and change nothing."""

import json
from itertools import pairwise

import pytest

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.frames import load
from reflexion_lab.analysis.learning.checkpoints import matrix
from reflexion_lab.analysis.report.memory import memory_screen
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.cli.main import main
from reflexion_lab.errors import FolderError
from reflexion_lab.records import Item
from reflexion_lab.runner.folder.folder import RunFolder

STREAM = (
    "benchmark=families", "benchmark.load.n=12", "benchmark.load.families=4", "benchmark.load.seed=0",
    "model=family_student", "actor=single_shot", "loop.max_attempts=1", "curator=raw_trajectories",
    "curator.passed_only=false", "memory.shared.round_size=2", "memory.shared.same_task=true", "tracker=none",
    "quiet=true",
)  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A stream of 6 rounds in `stream`, frozen runs after 0, 3 and all of them, and a split stream of two passes."""
    root = tmp_path_factory.mktemp("checkpoints")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert main(["run", *STREAM, "run_root=stream"]) == 0
        of = f"memory.shared.items.of={run_in(root / 'stream').path}"
        for after in ("0", "3", "null"):
            frozen = ("memory.shared.items.frozen=true", f"memory.shared.items.after={after}", f"run_root=at_{after}")
            assert main(["run", *STREAM, of, *frozen]) == 0
        assert main(["run", *STREAM, "benchmark.passes=2", "benchmark.split={folds: 2}", "run_root=split"]) == 0
    return root


def run_in(folder):
    return RunFolder(next(folder.glob("*/manifest.json")).parent)


def verdicts(run):
    return {task_id: grade.passed for task_id, (_, grade) in Log.read(run).submitted.items()}


@pytest.fixture(scope="module")
def runs(root):
    return [run_in(root / name) for name in ("stream", "at_0", "at_3", "at_null")]


def test_measures_are_differences_of_the_runs_own_verdicts(runs):
    result = matrix(runs)
    online, zero, half, last = map(verdicts, runs)
    assert (result.rounds, result.checkpoints, result.notes) == ((6,), (0, 3, 6), ())
    means = result.measures
    assert means.online_utility.value == pytest.approx(sum(online[t] - zero[t] for t in online) / 12)
    early = [task.task_id for task in _tasks(runs[0])[:6]]
    assert means.backward_transfer.value == pytest.approx(sum(last[t] - half[t] for t in early) / 6)
    assert means.stability.value == pytest.approx(sum(last[t] - half[t] for t in early) / 12)  # of the others it is 0
    assert (means.generalisation, means.online_utility.clusters) == (None, 4)
    assert (means.against.damaged, means.against.repaired) == (
        sum(zero[t] and not online[t] for t in online),
        sum(online[t] and not zero[t] for t in online),
    )


def _tasks(run):
    from reflexion_lab.analysis.solutions import tasks_of

    return list(tasks_of([run])[run.manifest.run_id].values())


def test_a_frozen_run_changes_no_item(runs):
    assert [len(run.updates) for run in runs[1:]] == [0, 0, 0]
    assert [len(run.beginning.items) for run in runs[1:]] == [0, 6, 12]


def test_figures_of_memory_are_those_of_its_log(runs):
    (memory,) = matrix(runs[:1]).curated
    assert memory.operations == {"add": 12}
    assert [size.items for size in memory.sizes] == [2, 4, 6, 8, 10, 12]
    assert all(a.tokens < b.tokens for a, b in pairwise(memory.sizes))
    reading = [attempt for attempt in Log.read(runs[0]).every if attempt.recalled_items]
    assert (memory.reading.n, memory.reading.n + memory.not_reading.n, memory.shown.n) == (len(reading), 12, 12)
    assert sum(read.passed + read.failed for read in memory.reads) == sum(len(a.recalled_items) for a in reading)
    assert memory.others.calls == 12


def test_test_tasks_are_held_out_and_memory_learnt_nothing_from_them(root):
    run = run_in(root / "split")
    result = matrix([run])
    log = Log.read(run)
    test = {task_id for task_id, outcome in log.results.items() if outcome.split == "test"}
    assert result.rounds == (6,)  # two passes over six tasks, two a round
    assert not test & {task_id for update in run.updates for task_id in update.task_ids}
    assert (result.curve[-1].so_far.n, result.checkpoints) == (12, (6,))
    assert all(isinstance(item, Item) for item in run.beginning.items)


def test_a_run_without_memory_serves_every_order_and_held_out_tasks(root, runs):
    split = run_in(root / "split")
    result = matrix([runs[0], split, runs[1]])
    online, zero = verdicts(split), verdicts(runs[1])
    test = {task_id for task_id, outcome in Log.read(split).results.items() if outcome.split == "test"}
    means = result.measures
    assert (means.orders, means.online_utility.n, means.generalisation.n) == (2, 12 + 12, 6)
    assert means.generalisation.value == pytest.approx(sum(online[t] - zero[t] for t in test) / 6)


def test_the_screen_has_at_most_15_lines_of_80_columns_and_names_what_is_missing(runs, root, capsys):
    assert main(["memory", "measures", *(str(run.path) for run in runs), "--json"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) <= 15 and max(map(len, lines)) <= 80
    assert json.loads(last)["measures"]["online_utility"]["n"] == 12
    text = "\n".join(memory_screen(matrix(runs[:1])))
    assert "note: no online utility: it needs a frozen run with memory.shared.items.after=0" in text


def test_a_frozen_run_of_another_stream_or_none_is_refused(runs, root):
    with pytest.raises(FolderError, match="no run of a stream"):
        matrix(runs[1:])
    with pytest.raises(FolderError, match="name that run, too"):
        matrix([run_in(root / "split"), runs[2]])


def test_tables_and_trackers_show_memory_of_runs_that_have_one(runs, write_run):
    values = {metric.name: value for metric, value in metrics.in_run(Log.read(runs[0]))}
    assert (values["items_at_end"], values["items_collapses"], values["items_read"].n) == (12, 0, 12)
    without = {metric.name for metric, _ in metrics.in_run(Log.read(write_run({"a": [(1.0, True)]})))}
    assert not {name for name in without if name.startswith(("items", "curation"))}


def test_the_frame_of_memory_names_every_item_that_an_attempt_read(runs):
    frame = load(runs[0]).memory
    attempts = Log.read(runs[0]).every
    assert frame["kind"].tolist() == ["item"] * sum(len(attempt.recalled_items) for attempt in attempts)
    assert set(frame["recalled_id"]) == {name for attempt in attempts for name in attempt.recalled_items}
