"""The matrix of checkpoints from run folders: a stream, and runs that begin with its memory and change nothing."""

import functools
import json
import re
import shutil
from itertools import pairwise

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis import metrics
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import side_by_side
from reflexion_lab.analysis.comparison.cases import load_cases, save_cases
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.figures import memory as memory_figure
from reflexion_lab.analysis.learning.checkpoints import stream_memory
from reflexion_lab.analysis.learning.memory import EFFECTS
from reflexion_lab.analysis.report.comparison import sheets, warnings
from reflexion_lab.analysis.report.memory import memory_screen
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.cli.main import main
from reflexion_lab.errors import FolderError
from reflexion_lab.notebook import plot
from reflexion_lab.notebook.frames import load
from reflexion_lab.records import Item
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.solutions import tasks_of
from tests import builders

STREAM = (
    *builders.FAMILIES, "benchmark.load.n=12", "benchmark.load.families=4", "benchmark.load.seed=0",
    "actor=single_shot", "loop.max_attempts=1", "curator=raw_trajectories",
    "curator.passed_only=false", "memory.shared.round_size=2", "memory.shared.same_task=true", "tracker=none",
    "quiet=true",
)  # fmt: skip
ITEMS = "memory.shared.items"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A stream of 6 rounds, frozen runs after 0, 3 and all, another order, and a split of two passes, frozen at 0."""
    root = tmp_path_factory.mktemp("checkpoints")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert main(["run", *STREAM, "run_root=stream"]) == 0
        of = f"memory.shared.items.of={run_in(root / 'stream').path}"
        for after in ("0", "3", "null"):
            frozen = ("memory.shared.items.frozen=true", f"memory.shared.items.after={after}", f"run_root=at_{after}")
            assert main(["run", *STREAM, of, *frozen]) == 0
        assert main(["run", *STREAM, "benchmark.order=1", "seed=1", "run_root=order"]) == 0
        split = ("benchmark.passes=2", "benchmark.split={folds: 2}")
        assert main(["run", *STREAM, *split, "run_root=split"]) == 0
        empty = (f"{ITEMS}.of={run_in(root / 'split').path}", f"{ITEMS}.after=0", f"{ITEMS}.frozen=true")
        assert main(["run", *STREAM, *empty, "run_root=split_at_0"]) == 0
    return root


def run_in(folder):
    return RunFolder(next(folder.glob("*/manifest.json")).parent)


def verdicts(run):
    return {task_id: grade.passed for task_id, (_, grade) in Log.read(run).submitted.items()}


@pytest.fixture(scope="module")
def runs(root):
    return [run_in(root / name) for name in ("stream", "at_0", "at_3", "at_null")]


def test_measures_are_differences_of_the_runs_own_verdicts(runs):
    result = stream_memory(runs).matrix
    online, zero, half, last = map(verdicts, runs)
    assert (result.rounds, result.checkpoints) == ((6,), (0, 3, 6))
    assert result.notes[0] == "no generalisation: it needs held-out tasks (benchmark.split)"
    assert [note.partition(" takes")[0] for note in result.notes[1:]] == ["forgetting"]
    means = result.measures
    assert means.online_utility.value == pytest.approx(sum(online[t] - zero[t] for t in online) / 12)
    early = [*tasks_of([runs[0]])[runs[0].manifest.run_id]][:6]
    assert means.backward_transfer.value == pytest.approx(sum(last[t] - half[t] for t in early) / 6)
    assert means.stability.value == pytest.approx(sum(last[t] - half[t] for t in early) / 12)  # of the others it is 0
    assert (means.generalisation, means.online_utility.clusters) == (None, 4)
    assert (means.against.damaged, means.against.repaired) == (
        sum(zero[t] and not online[t] for t in online),
        sum(online[t] and not zero[t] for t in online),
    )


def test_a_frozen_run_changes_no_item(runs):
    assert [len(run.updates) for run in runs[1:]] == [0, 0, 0]
    assert [len(run.beginning.items) for run in runs[1:]] == [0, 6, 12]


def test_figures_of_memory_are_those_of_its_log(runs):
    (memory,) = stream_memory(runs[:1]).curated
    assert memory.operations == {"add": 12}
    assert [size.items for size in memory.sizes] == [2, 4, 6, 8, 10, 12]
    assert all(a.tokens < b.tokens for a, b in pairwise(memory.sizes))
    reading = [attempt for attempt in Log.read(runs[0]).every if attempt.recalled_items]
    assert (memory.reading.n, memory.reading.n + memory.not_reading.n, memory.shown.n) == (len(reading), 12, 12)
    assert sum(read.passed + read.failed for read in memory.reads) == sum(len(a.recalled_items) for a in reading)
    assert memory.others.calls == 12


def test_test_tasks_are_held_out_and_memory_learnt_nothing_from_them(root):
    run = run_in(root / "split")
    memory = stream_memory([run])
    log = Log.read(run)
    test = {task_id for task_id, outcome in log.results.items() if outcome.split == "test"}
    assert memory.matrix.rounds == (6,)  # two passes over six tasks, two a round
    assert not test & {task_id for update in run.updates for task_id in update.task_ids}
    assert (memory.curve[-1].so_far.n, memory.matrix.checkpoints) == (12, (6,))
    assert all(isinstance(item, Item) for item in run.beginning.items)


def test_a_run_without_memory_serves_every_order(root, runs):
    other = run_in(root / "order")
    result = stream_memory([runs[0], other, runs[1]]).matrix
    assert (result.measures.orders, result.measures.online_utility.n) == (2, 12 + 12)
    result = stream_memory([*runs, other]).matrix
    assert [note for note in result.notes if "orders" in note] == [
        "stability, forgetting, backward transfer of 1 of 2 orders only"
    ]


def test_a_run_without_memory_serves_held_out_tasks_and_each_missing_measure_has_a_reason(root):
    split, empty = run_in(root / "split"), run_in(root / "split_at_0")
    result = stream_memory([split, empty]).matrix
    online, zero = verdicts(split), verdicts(empty)
    test = {task_id for task_id, outcome in Log.read(split).results.items() if outcome.split == "test"}
    means = result.measures
    assert (means.online_utility.n, means.generalisation.n) == (12, 6)
    assert means.generalisation.value == pytest.approx(sum(online[t] - zero[t] for t in test) / 6)
    assert (means.stability, means.forgetting, means.backward_transfer) == (None, None, None)
    assert result.notes == (
        "no stability, forgetting, backward transfer: it needs a frozen run after fewer rounds than the last and a "
        "frozen run with after=null",
    )


def changed(run, folder, **values):
    """A copy of a run whose manifest has other values; dots are underscores twice."""
    path = folder / run.path.name
    shutil.copytree(run.path, path)
    manifest = json.loads((path / "manifest.json").read_text())
    for key, value in values.items():
        *nodes, last = key.split("__")
        functools.reduce(dict.__getitem__, nodes, manifest)[last] = value
    (path / "manifest.json").write_text(json.dumps(manifest))
    return RunFolder(path)


NONE = {"_target_": "reflexion_lab.memory.curators.controls.NoItems"}
FROZEN = [
    # Index in `runs`, a change of the manifest, and the key of the error; "": none.
    (1, {"model_fingerprint": "another"}, "model_fingerprint: got 'another'"),
    (1, {"config__temperature": 0.7}, "temperature: got 0.7"),
    (1, {"config__loop__max_attempts": 3}, "loop.max_attempts: got 3"),
    (1, {"config__actor__style": "continuation"}, "actor.style: got 'continuation'"),
    (1, {"config__prompts__variant": "terse"}, "prompts.variant: got 'terse'"),
    (1, {"config__curator__k": 9}, "curator.k: got 9, expected 3 as in "),
    (1, {"config__curator": NONE}, "curator._target_: got 'reflexion_lab.memory.curators.controls.NoItems'"),
    (2, {"config__memory__shared__items__max_items": 1}, "memory.shared.items.max_items: got 1, expected 0"),
    (2, {"config__seed": 5, "config__arm": "half", "config__memory__shared__round_size": 16}, ""),
]


@pytest.mark.parametrize(("number", "change", "problem"), FROZEN)
def test_a_frozen_run_measures_with_the_model_and_method_of_its_stream(runs, tmp_path, number, change, problem):
    frozen = changed(runs[number], tmp_path, **change)
    if problem:
        with pytest.raises(FolderError, match=re.escape(problem)):
            stream_memory([runs[0], frozen])
    else:
        assert stream_memory([runs[0], frozen]).matrix.checkpoints


@pytest.mark.parametrize("key", ["config__arm", "config__curator__k", "config__memory__shared__round_size"])
def test_orders_are_those_of_one_method(root, runs, tmp_path, key):
    other = changed(run_in(root / "order"), tmp_path, **{key: 7})
    with pytest.raises(FolderError, match=f"{key.removeprefix('config__').replace('__', '.')}: got 7, expected"):
        stream_memory([runs[0], other])


def test_compare_measures_memory_by_frozen_runs_and_makes_no_arms_of_them(root, runs, tmp_path):
    frozen = [changed(run, tmp_path, config__arm="frozen") for run in runs[1:]]
    (arm,), comparison = side_by_side([runs[0], *frozen])
    (row,) = comparison.rows
    assert (row.arm, arm.run_ids, row.final.n) == ("reflexion", (runs[0].manifest.run_id,), 12)
    assert arm.memory == stream_memory(runs).matrix
    assert {name: row.metrics.get(name) for name in EFFECTS} == {
        name: getattr(arm.memory.measures, name) for name in EFFECTS if name != "generalisation"
    } | {"generalisation": None}
    (table,) = [sheet for sheet in sheets(comparison) if sheet.key == "memory"]
    assert [line[2] for line in table.rows] == [
        "online utility", "stability", "forgetting", "backward transfer", "gained : lost"
    ]  # fmt: skip
    assert table.rows[0][1] == "1 x 6, at 0, 3, 6" and table.rows[0][4:] == ("12", "4")
    assert any(
        text.startswith("CHECKPOINTS: runs on frozen memory of reflexion measure it") for text in warnings(comparison)
    )
    (line,) = [line for line in comparison.lines if line.metric == "online_utility"]
    assert line.low <= line.value <= line.high and line.n == 12


def test_a_frozen_run_without_its_stream_or_with_another_method_is_an_arm_of_its_own(root, runs, tmp_path):
    assert [arm.memory for arm in arms(runs[1:2])] == [None]
    other = changed(runs[1], tmp_path, config__temperature=0.7, provenance__overrides=["temperature=0.7"])
    assert [(arm.label, arm.memory) for arm in arms([runs[0], other])] == [
        ("reflexion temperature=0", None), ("reflexion temperature=0.7", None)
    ]  # fmt: skip


def test_several_frozen_runs_on_one_memory_measure_nothing_and_stay_arms(runs, tmp_path):
    twin = changed(runs[2], tmp_path, run_id="20260101-000000-000000-twin-families-s0", config__seed=3, seed=3)
    with pytest.raises(FolderError, match="with memory after 3 rounds here and in"):
        stream_memory([*runs, twin])
    whole = arms([*runs, twin])
    assert sorted(len(arm.logs) for arm in whole) == [1, 2]
    assert [arm.memory.checkpoints for arm in whole if arm.memory] == [(0, 6)]


def test_frozen_runs_are_arms_where_that_is_asked_for_or_registered(runs, tmp_path):
    asked = arms(runs[:3], by=["memory.shared.items.after"])
    keys = "memory.shared.items.after={} memory.shared.items.frozen={}"
    assert [arm.label for arm in asked] == [
        f"reflexion {keys.format(*values)}" for values in ((None, False), (0, True), (3, True))
    ]
    registered = changed(runs[1], tmp_path, study_digest="digest", config__arm="registered")
    assert [(arm.label, bool(arm.memory)) for arm in arms([runs[0], registered, runs[2]])] == [
        ("reflexion", True), ("registered", False)
    ]  # fmt: skip


def test_measures_do_not_borrow_a_verdict_of_other_tasks(root, runs, tmp_path):
    other = changed(run_in(root / "order"), tmp_path, benchmark_digest="other tasks")
    pair = arms([runs[0], other, runs[1]], by=["arm"])
    assert [(len(arm.logs), arm.memory.measures.online_utility.n) for arm in pair] == [(2, 12)]
    same = arms([runs[0], run_in(root / "order"), runs[1]], by=["arm"])
    assert [(len(arm.logs), arm.memory.measures.online_utility.n) for arm in same] == [(2, 24)]


def test_seeds_may_have_other_tasks_in_compare_and_in_measures_alike(runs, tmp_path, capsys):
    def copies(number, **fields):
        """The stream and its run without memory, with tasks of their own."""
        ids = [f"20260101-00000{number}-{place}-families-s0" for place in range(2)]
        fields["benchmark_digest"] = f"tasks {number}"
        stream = changed(runs[0], tmp_path / ids[0], run_id=ids[0], **fields)
        return stream, changed(runs[1], tmp_path / ids[1], run_id=ids[1], provenance__items=f"{ids[0]}: ", **fields)

    both = [*runs[:2], *copies(1, seed=1, config__seed=1)]
    (arm,), _ = side_by_side(both)
    assert arm.memory == stream_memory(both).matrix
    assert (arm.memory.measures.online_utility.n, arm.memory.rounds) == (24, (6, 6))
    assert main(["memory", "measures", *(str(run.path) for run in both)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "2 runs of 6 rounds" in text and "note: the seeds have other tasks: streams of one method" in text
    with pytest.raises(FolderError, match=r"other tasks than .*, expected one benchmark, and the same tasks at a seed"):
        stream_memory([*both, *copies(2)])


def test_only_a_beginning_with_the_same_items_is_shared(root, runs, tmp_path):
    warm = changed(runs[1], tmp_path)
    file = warm.path / "memory.json"
    items = [{"item_id": "item-a", "text": "of another run"}]
    file.write_text(json.dumps(json.loads(file.read_text()) | {"items": items}))
    pair = arms([runs[0], run_in(root / "order"), warm], by=["arm"])
    assert [arm.memory.measures.online_utility.n for arm in pair] == [12]
    assert "a(0, j) is with the items that the stream began with, not without memory" in pair[0].memory.notes
    assert load_cases(save_cases(tmp_path / "cases.csv", pair))[0].memory == pair[0].memory


def test_what_is_missing_is_said_below_the_table_and_an_upper_bound_is_marked_and_no_metric(runs, tmp_path):
    _, comparison = side_by_side([runs[0], runs[3]])
    (table,) = [sheet for sheet in sheets(comparison) if sheet.key == "memory"]
    assert [line[2:] for line in table.rows] == [("none: see below", "-", "-", "-")]
    assert "reflexion: no online utility: it needs a frozen run with memory.shared.items.after=0" in table.caption
    bounds = [changed(run, tmp_path, shows_solutions=True) for run in runs]
    _, comparison = side_by_side(bounds)
    (row,) = comparison.rows
    assert row.of.memory and not row.metrics.keys() & set(EFFECTS)
    (table,) = [sheet for sheet in sheets(comparison) if sheet.key == "memory"]
    assert {line[0] for line in table.rows} == {"UPPER BOUND reflexion"}


@pytest.mark.parametrize(
    ("names", "arm"),
    [(("stream", "at_0", "at_3", "at_null"), "a"), (("stream", "at_0", "at_3"), "a/b"), (("split", "split_at_0"), "a")],
)
def test_measures_of_memory_can_be_computed_again_from_the_cases_of_a_report(root, tmp_path, names, arm):
    before = arms([changed(run_in(root / name), tmp_path, config__arm=arm) for name in names])
    after = load_cases(save_cases(tmp_path / "cases.csv", before))
    assert [arm.memory for arm in after] == [arm.memory for arm in before] != [None]
    assert [(arm.train, arm.verdicts()) for arm in after] == [(arm.train, arm.verdicts()) for arm in before]
    assert memory_figure.drawing(after).rows == memory_figure.drawing(before).rows


def test_a_notebook_draws_the_stream_and_frozen_runs_over_their_rounds(runs):
    assert plot.memory(*runs).lines
    frozen = plot.heat_map(*runs[:3], keys="memory.shared.items.after")
    assert [label.get_text() for label in frozen.get_xticklabels()] == ["0", "3"]


def test_frames_name_the_memory_of_a_run_and_every_item_that_an_attempt_read(runs, tmp_path):
    frame = load(*runs).runs
    stream = runs[0].manifest.run_id
    assert frame["memory_of"].astype("string").fillna("").tolist() == ["", stream, stream, stream]
    assert frame["memory_after"].fillna(-1).tolist() == [-1, 0, 3, -1]
    unsourced = changed(runs[1], tmp_path, config__memory__shared__items__of=None, provenance__items="")
    assert load(unsourced).runs["memory_of"].isna().all()
    frame = load(runs[0]).memory
    attempts = Log.read(runs[0]).every
    assert frame["kind"].tolist() == ["item"] * sum(len(attempt.recalled_items) for attempt in attempts)
    assert set(frame["recalled_id"]) == {name for attempt in attempts for name in attempt.recalled_items}


def test_the_screen_has_at_most_15_lines_of_80_columns_and_names_what_is_missing(runs, root, capsys):
    assert main(["memory", "measures", *(str(run.path) for run in runs), "--json"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) <= 15 and max(map(len, lines)) <= 80
    assert json.loads(last)["matrix"]["measures"]["online_utility"]["n"] == 12
    text = "\n".join(memory_screen(stream_memory(runs[:1])))
    assert "note: no online utility: it needs a frozen run with memory.shared.items.after=0" in text
    assert "cost: curator" in text


def test_a_frozen_run_of_another_stream_or_none_is_refused(runs, root):
    with pytest.raises(FolderError, match="no run of a stream"):
        stream_memory(runs[1:])
    with pytest.raises(FolderError, match="name that run, too"):
        stream_memory([run_in(root / "split"), runs[2]])


def test_tables_and_trackers_show_memory_of_runs_that_have_one(runs, write_run):
    values = {metric.name: value for metric, value in metrics.in_run(Log.read(runs[0]))}
    assert (values["items_at_end"], values["items_collapses"], values["items_read"].n) == (12, 0, 12)
    plain = write_run({"a": [(1.0, True)]})
    plain.write_manifest(replace(plain.manifest, config={"curator": NONE}, config_digest="0f"))
    without = {metric.name for metric, _ in metrics.in_run(Log.read(plain))}
    assert memory_figure.drawing([Arm("plain", [Log.read(plain)])]) is None
    assert not {name for name in without if name.startswith(("items", "curation"))}


def test_memory_of_an_arm_is_that_of_its_runs_together(root, runs, tmp_path):
    pair = runs[0], run_in(root / "order")
    arm = Arm("orders", [Log.read(run) for run in pair])
    each = [{metric.name: value for metric, value in metrics.in_run(Log.read(run))} for run in pair]
    values = metrics.in_arm(arm)
    assert (values["items_at_end"], values["items_collapses"]) == (12, 0)
    assert values["items_tokens"] == pytest.approx(sum(run["items_tokens"] for run in each) / 2)
    assert (values["items_read"].k, values["items_read"].n) == (sum(run["items_read"].k for run in each), 24)
    assert "curation_unreadable" not in values, "this curator makes no call"
    empty = changed(runs[0], tmp_path, run_id="20260101-000000-000000-empty-families-s9", seed=9, config__seed=9)
    (empty.path / "operations.jsonl").unlink()
    three = metrics.in_arm(Arm("three", [Log.read(run) for run in (*pair, empty)]))
    assert three["items_at_end"] == pytest.approx(12 * 2 / 3), "a run that kept nothing counts, too"
    (split,) = arms([run_in(root / "split")])
    assert metrics.in_arm(split)["items_at_end"] == Log.read(run_in(root / "split")).updates[-1].items == 9
    (stored,) = load_cases(save_cases(tmp_path / "cases.csv", [arm]))
    assert {name for name in metrics.in_arm(stored) if name.startswith(("items", "curation"))} == {"curation_tokens"}
